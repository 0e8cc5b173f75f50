"""A volume of an application's own store is gone: its attempt ends, and the next one gets another, empty one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rekindle.api.application_status import ApplicationState as State
from rekindle.controller.clock import format_time
from rekindle.controller.kube import Unavailable
from rekindle.controller.recovery.volume_facts import GoneVolume, VolumeFacts
from rekindle.controller.recovery.volumes import LOOK_AGAIN
from rekindle.controller.resources import PERSISTENT_VOLUME_CLAIM, POD, Object, uid_of
from tests.unit.controller.recovery.test_recovering import Pipeline, half_done
from tests.unit.controller.test_reconciler import Clock, Desk, beside_a_driver, clock
from tests.unit.controller.world import RUNNING, SUCCEEDED, World, failed, manifest

__all__ = ["clock"]

TEMPLATE = {"storageClassName": "nfs", "resources": {"requests": {"storage": "10Gi"}}}
RECOVERY: dict[str, Any] = {"storage": {"claimTemplate": TEMPLATE}, "volumes": 2}
POLICY = {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1}


WHOLE = VolumeFacts(there={None: "j", 0: "a", 1: "b"}, own=("store", "store-0", "store-1"))


def without(number: int | None, *, going: bool = False) -> VolumeFacts:
    """A store that has lost one of its volumes, or is about to."""
    gone = (GoneVolume("pi-store", number, "was deleted"),)
    there = {other: uid for other, uid in WHOLE.there.items() if other != number}
    return VolumeFacts(() if going else gone, gone if going else (), there)


def half_done_on_volumes() -> Pipeline:
    """A is there, on both volumes, and so are two of four of what reads it; the driver has told."""
    world = half_done(recovery=RECOVERY)
    world.volumes = WHOLE
    world.settle()
    return world


def next_begins(world: Pipeline) -> None:
    world.now += 600
    world.settle()
    assert world.state() is State.SUBMITTED


ON_ONE = {"A": "1", "m": "0", "B": "0-3"}
ON_NONE = {"m": "0", "B": "0-3"}


def restarted(world: Pipeline) -> dict[str, str]:
    assert world.last is not None
    return world.last.restarted


@pytest.mark.requirement("S7-9", "S6-22")
@pytest.mark.parametrize("going", [False, True])
def test_what_was_on_a_volume_that_is_gone_or_going_is_in_the_plan(going):
    world = half_done_on_volumes()
    world.volumes = without(1, going=going)
    if going:
        world.driver_is(failed(137))
    world.settle()
    next_begins(world)
    assert restarted(world) == ON_ONE
    assert world.last is not None
    assert world.last.reused_partitions == 2
    assert "claim pi-store of spec.recovery.storage was deleted" in world.last.cause


@pytest.mark.parametrize("going", [False, True])
def test_without_the_journal_the_pipeline_begins_anew(going):
    world = half_done_on_volumes()
    world.volumes = without(None, going=going)
    if going:
        world.driver_is(failed(137))
    world.settle()
    next_begins(world)
    assert world.last is None
    assert world.status.recovery.job == {}
    assert world.recovering == ("False", "ResultsLost")
    [said] = world.messages("ResultsLost")
    assert said.endswith("was deleted; the journal was on it: a pipeline begins anew")


def test_a_loss_is_in_the_next_plan_too_where_nobody_has_told_since():
    """The volume that was made anew is empty, and the driver that was to fill it has told nothing."""
    world = half_done_on_volumes()
    world.volumes = without(1)
    world.settle()
    next_begins(world)
    world.driver_is(failed(137))
    world.settle()
    next_begins(world)
    assert world.status.attempt == 3
    assert restarted(world) == ON_ONE
    assert world.last is not None
    assert world.last.cause.endswith("volumes of the store are new: 1")


def test_what_a_driver_has_told_of_a_new_volume_is_on_it():
    world = half_done_on_volumes()
    world.volumes = without(1)
    world.settle()
    next_begins(world)
    world.driver_is(RUNNING)
    world.settle()
    world.tell()
    world.driver_is(failed(137))
    world.settle()
    next_begins(world)
    assert restarted(world) == ON_NONE


def test_a_volume_that_is_lost_while_nothing_runs_is_told_and_planned_for():
    world = half_done_on_volumes()
    world.driver_is(failed(137))
    world.settle()
    assert world.state() is State.PENDING_RERUN
    world.volumes = without(1)
    next_begins(world)
    assert restarted(world) == ON_ONE
    assert len(world.messages("VolumeLost")) == 1
    assert world.last is not None
    assert "SIGKILL" in world.last.cause
    assert "claim pi-store" in world.last.cause


@pytest.mark.parametrize("runs", [False, True])
def test_the_attempt_that_mounts_it_ends_whether_its_driver_runs_or_waits(runs):
    world = half_done_on_volumes()
    if not runs:
        world.lose_driver()
        assert world.state() is State.SUBMITTED
    attempt = world.status.attempt
    world.volumes = without(0)
    world.settle()
    assert world.state() is State.PENDING_RERUN
    assert world.status.restarts.infrastructure == attempt
    condition = world.status.condition("StorageReady")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "VolumeLost")
    assert len(world.messages("VolumeLost")) == 1


def executor(phase: str, now: float) -> dict[str, Any]:
    metadata = {"name": phase, "uid": phase, "creationTimestamp": format_time(now)}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase}}


def test_a_loss_that_ends_the_application_is_told_too():
    world = half_done(recovery=RECOVERY, restartPolicy={"type": "Never"})
    world.volumes = without(0)
    world.settle()
    assert world.state() is State.FAILED
    assert len(world.messages("VolumeLost")) == 1
    condition = world.status.condition("StorageReady")
    assert condition is not None
    assert condition.status == "False"


def test_a_deleted_claim_that_pods_still_hold_is_told_once_and_ends_nothing_while_executors_run():
    world = half_done_on_volumes()
    world.executors = [executor("Running", world.now), executor("Pending", world.now)]
    world.volumes = without(0, going=True)
    decision = world.settle()
    assert decision.delay is not None
    assert decision.delay <= LOOK_AGAIN
    world.now += 600
    world.settle()
    assert world.state() is State.RUNNING
    assert len(world.messages("ClaimDeleted")) == 1
    world.volumes = WHOLE
    world.settle()
    condition = world.status.condition("StorageReady")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "VolumesThere")


@pytest.mark.parametrize("beside", [False, True])
def test_beside_a_claim_that_is_going_no_executor_is_waited_for_in_vain(beside):
    """Nor beside one that is told to end, on a node that does not answer."""
    world = half_done_on_volumes()
    world.executors = [executor("Pending", world.now)]
    if beside:
        dead = executor("Running", world.now)
        dead["metadata"]["deletionTimestamp"] = format_time(world.now)
        world.executors.append(dead)
    world.volumes = without(0, going=True)
    world.settle()
    assert world.state() is State.RUNNING
    world.now += LOOK_AGAIN
    world.settle()
    assert world.state() is State.PENDING_RERUN
    assert world.status.transitions[-1].reason == "VolumeLost"


@pytest.mark.parametrize("placed", [False, True])
def test_nor_a_node_for_the_driver(placed):
    world = half_done_on_volumes()
    world.lose_driver()
    for pod in world.pods.values():
        pod["spec"] = {"nodeName": "n1"} if placed else {}
    world.volumes = without(0, going=True)
    world.now += LOOK_AGAIN
    world.settle()
    assert world.state() is (State.SUBMITTED if placed else State.PENDING_RERUN)


def test_of_a_store_that_is_not_the_applications_own_nothing_is_said():
    assert half_done().status.condition("StorageReady") is None


def test_nor_of_claims_that_are_still_to_be_made():
    world = World(body=manifest(recovery=RECOVERY, restartPolicy=POLICY), refusal="a quota is full")
    world.volumes = VolumeFacts((GoneVolume("pi-store", None, "was deleted"),))
    world.settle()
    assert world.state() is State.PENDING_RERUN
    world.refusal = ""
    world.now += 60
    world.settle()
    assert world.state() is State.SUBMITTED
    assert not {"VolumeLost", "ResultsLost"} & {reason for _, reason, _ in world.said}
    assert world.status.condition("Recovering") is None


def test_nor_of_those_of_an_application_that_has_ended():
    world = half_done_on_volumes()
    world.driver_is(SUCCEEDED)
    world.settle()
    world.volumes = without(1)
    world.settle()
    assert world.state() is State.COMPLETED
    assert world.messages("VolumeLost") == []


DROPPED = {**RECOVERY, "storage": {**RECOVERY["storage"], "whenCompleted": "Delete"}}


@pytest.mark.requirement("S7-32")
def test_the_store_of_an_application_that_is_completed_goes_where_that_is_wanted():
    world = half_done_on_volumes()
    world.driver_is(SUCCEEDED)
    world.settle()
    assert (world.volumes, len(world.pods)) == (WHOLE, 1)
    world.edit(recovery=DROPPED)
    world.settle()
    assert world.state() is State.COMPLETED
    assert world.volumes is not None
    assert not world.volumes.there
    assert not world.volumes.going
    assert world.pods == {}
    found = world.status.condition("StorageReady")
    assert found is not None
    assert (found.status, found.reason) == ("False", "StoreDropped")
    assert len(world.messages("StoreDropped")) == 1
    assert world.status.attempt == 1


def test_a_claim_that_has_lost_its_volume_goes_too_and_nothing_outlasts_the_time_to_live():
    world = half_done_on_volumes()
    world.driver_is(SUCCEEDED)
    world.volumes = VolumeFacts((GoneVolume("store", None, "has lost its PersistentVolume"),), own=("store",))
    world.edit(recovery=DROPPED, timeToLiveSeconds=5)
    world.look()
    decision = world.look()
    assert decision.delay == 5
    assert world.pods == {}
    world.settle()
    assert world.volumes.own == ()


def test_that_of_one_that_has_failed_stays_for_whoever_mends_it():
    world = half_done_on_volumes()
    world.edit(recovery=DROPPED, restartPolicy={"type": "Never"})
    world.driver_is(failed(1))
    world.settle()
    assert world.state() is State.FAILED
    assert (world.volumes, len(world.pods)) == (WHOLE, 1)


def test_what_is_applied_again_after_that_begins_with_new_volumes():
    world = half_done_on_volumes()
    world.driver_is(SUCCEEDED)
    world.edit(recovery=DROPPED)
    world.settle()
    world.edit(arguments=["more"])
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)
    assert world.volumes is not None
    assert set(world.volumes.there) == set(WHOLE.there)
    assert world.messages("ResultsLost") == []


def test_its_claims_are_deleted_and_those_of_others_are_not(clock):
    async def case(desk: Desk):
        names = [desk.names.store_claim(number) for number in (None, 0, 1)]
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", names[1], {"metadata": {"ownerReferences": None}})
        await desk.settle()
        assert desk.state() is State.RUNNING  # whoever keeps a claim so takes nothing from the pods that mount it
        desk.kubelet(SUCCEEDED)
        await desk.settle()
        assert desk.state() is State.COMPLETED
        left = [one["metadata"]["name"] for one in desk.server.all(PERSISTENT_VOLUME_CLAIM)]
        assert left == [names[1]]
        assert all("deletionTimestamp" in pod["metadata"] for pod in desk.server.all(POD))

    beside_a_driver(case, recovery=DROPPED, restartPolicy=POLICY)


def test_a_volume_more_in_the_spec_of_a_suspended_application_is_not_a_lost_one():
    world = half_done_on_volumes()
    world.edit(suspend=True)
    world.settle()
    world.edit(suspend=False, recovery={**RECOVERY, "volumes": 3})
    world.volumes = VolumeFacts((GoneVolume("pi-store-2", 2, "was deleted"),), (), WHOLE.there)
    next_begins(world)
    assert world.last is None
    assert world.status.transitions[-1].reason == "SpecEdited"
    assert world.messages("ResultsLost") == []


def there(desk: Desk, name: str) -> Object:
    claim = desk.server.get(PERSISTENT_VOLUME_CLAIM, "team", name)
    assert claim is not None
    return claim


async def next_attempt(desk: Desk, clock: Clock) -> None:
    """The driver ends as it was told, and the wait is over."""
    pod = desk.names.driver_pod
    desk.kubelet(failed(143))
    await desk.settle()
    desk.server.remove(POD, "team", pod)
    clock.later += 60


def has_reason(desk: Desk, reason: str) -> bool:
    return any(entered.reason == reason for entered in desk.status.transitions)


@pytest.mark.parametrize("number", [None, 0, 1])
def test_a_claim_that_somebody_has_removed_is_made_anew_for_the_next_attempt(clock, number):
    async def case(desk: Desk):
        name = desk.names.store_claim(number)
        desk.server.remove(PERSISTENT_VOLUME_CLAIM, "team", name)
        await desk.settle()
        assert desk.state() is State.PENDING_RERUN
        assert has_reason(desk, "VolumeLost")
        assert f"claim {name} of spec.recovery.storage was deleted" in (await desk.said("VolumeLost"))["note"]
        await next_attempt(desk, clock)
        await desk.settle()
        assert desk.status.attempt == 2
        assert there(desk, name)["spec"]["storageClassName"] == "nfs"
        desk.kubelet(RUNNING)
        await desk.settle()
        assert desk.state() is State.RUNNING

    beside_a_driver(case, recovery=RECOVERY, restartPolicy=POLICY)


def test_a_claim_that_has_lost_its_volume_is_replaced_when_no_pod_holds_it(clock):
    async def case(desk: Desk):
        name = desk.names.store_claim(1)
        held = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}, "status": {"phase": "Lost"}}
        old, first = uid_of(there(desk, name)), desk.names.driver_pod
        desk.kubelet(failed(137))
        await desk.settle()
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", name, held)
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", name, {"status": held["status"]}, "status")
        clock.later += 60
        for _ in range(4):  # it is on its way out, and is asked for again and again
            await looked(desk)
        assert desk.status.attempt == 2
        assert "deletionTimestamp" in there(desk, name)["metadata"]
        ended = desk.server.get(POD, "team", first)  # it would hold the claim
        assert ended is None or "deletionTimestamp" in ended["metadata"]
        assert "no pod mounts it any more" in (await desk.said("SubmissionDelayed"))["note"]
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", name, {"metadata": {"finalizers": None}})
        await desk.settle()
        assert uid_of(there(desk, name)) != old
        assert desk.server.get(POD, "team", desk.names.driver_pod) is not None

    beside_a_driver(case, recovery=RECOVERY, restartPolicy=POLICY)


async def looked(desk: Desk) -> None:
    """A look that may have to be tried again."""
    with suppress(Unavailable):
        await desk.look()


def test_that_a_claim_is_gone_is_never_taken_from_a_copy():
    async def case(desk: Desk):
        name = desk.names.store_claim(0)
        desk.sees = False
        for informer in desk.claims._informers:
            informer._objects.clear()
        await desk.look()
        assert desk.state() is State.RUNNING
        assert there(desk, name)

    beside_a_driver(case, recovery=RECOVERY, restartPolicy=POLICY)


def test_nor_that_one_is_going():
    async def case(desk: Desk):
        name = desk.names.store_claim(0)
        desk.sees = False
        for informer in desk.claims._informers:
            for claim in informer._objects.values():
                claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        await desk.look()
        condition = desk.status.condition("StorageReady")
        assert condition is not None
        assert condition.status == "True"
        assert "deletionTimestamp" not in there(desk, name)["metadata"]

    beside_a_driver(case, recovery=RECOVERY, restartPolicy=POLICY)


def test_a_claim_that_somebody_brought_is_not_looked_for():
    async def case(desk: Desk):
        assert desk.server.get(PERSISTENT_VOLUME_CLAIM, "team", "results") is None
        assert desk.state() is State.RUNNING
        assert desk.status.condition("StorageReady") is None

    beside_a_driver(case, recovery={"storage": {"claimName": "results"}})
