"""A volume of an application's own store is gone: its attempt ends, and the next one gets another, empty one."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rekindle.api.application_status import ApplicationState as State
from rekindle.controller.kube import Unavailable
from rekindle.controller.recovery.volume_facts import LostVolume, VolumeFacts
from rekindle.controller.resources import PERSISTENT_VOLUME_CLAIM, POD, Object, uid_of
from tests.unit.controller.recovery.test_recovering import half_done
from tests.unit.controller.test_reconciler import Clock, Desk, beside_a_driver, clock
from tests.unit.controller.world import RUNNING, failed

__all__ = ["clock"]

TEMPLATE = {"storageClassName": "nfs", "resources": {"requests": {"storage": "10Gi"}}}
RECOVERY = {"storage": {"claimTemplate": TEMPLATE}, "volumes": 2}
POLICY = {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1}


def lost(number: int | None) -> VolumeFacts:
    return VolumeFacts((LostVolume("pi-store", number, "was deleted"),))


@pytest.mark.requirement("S7-9", "S6-22")
def test_what_was_on_a_lost_volume_is_in_the_plan():
    """A is there, on both volumes, and so are two of four of what reads it."""
    world = half_done(recovery=RECOVERY)
    world.volumes = lost(1)
    world.settle()
    world.now += 600
    world.settle()
    assert world.state() is State.SUBMITTED
    assert world.last is not None
    assert world.last.restarted == {"A": "1", "m": "0", "B": "0-3"}
    assert world.last.reused_partitions == 2
    assert "claim pi-store of spec.recovery.storage was deleted" in world.last.cause


def test_without_the_journal_the_pipeline_begins_anew():
    world = half_done(recovery=RECOVERY)
    world.volumes = lost(None)
    world.settle()
    world.now += 600
    world.settle()
    assert (world.state(), world.last) == (State.SUBMITTED, None)
    assert world.status.recovery.job == {}
    [said] = world.messages("ResultsLost")
    assert said.endswith("the journal was on it: the pipeline begins anew")


@pytest.mark.parametrize("runs", [False, True])
def test_the_attempt_that_mounts_it_ends_whether_its_driver_runs_or_waits(runs):
    world = half_done(recovery=RECOVERY)
    if not runs:
        world.lose_driver()
        assert world.state() is State.SUBMITTED
    attempt = world.status.attempt
    world.volumes = lost(0)
    world.settle()
    assert world.state() is State.PENDING_RERUN
    assert world.status.restarts.infrastructure == attempt
    condition = world.status.condition("StorageReady")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "VolumeLost")
    assert len(world.messages("VolumeLost")) == 1


def test_a_deleted_claim_that_pods_still_hold_is_told_once_and_ends_nothing():
    world = half_done(recovery=RECOVERY)
    world.volumes = VolumeFacts(going=("pi-store-0",))
    world.settle()
    world.now += 60
    world.settle()
    assert world.state() is State.RUNNING
    [said] = world.messages("ClaimDeleted")
    assert said == (
        "claim pi-store-0 of spec.recovery.storage was deleted: the pods that mount it go on, no new one can start"
    )
    world.volumes = VolumeFacts()
    world.settle()
    condition = world.status.condition("StorageReady")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "VolumesThere")


def test_of_a_store_that_is_not_the_applications_own_nothing_is_said():
    assert half_done().status.condition("StorageReady") is None


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


def test_a_claim_that_somebody_brought_is_not_looked_for():
    async def case(desk: Desk):
        assert desk.server.get(PERSISTENT_VOLUME_CLAIM, "team", "results") is None
        assert desk.state() is State.RUNNING
        assert desk.status.condition("StorageReady") is None

    beside_a_driver(case, recovery={"storage": {"claimName": "results"}})
