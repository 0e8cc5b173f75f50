"""A look at an application against a server that answers with errors, late or not at all, and copies that are old."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from rekindle.api.application_status import ApplicationState as State
from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Gone, KubeError, Refused, Taken, Unavailable
from rekindle.controller.metrics import Metrics
from rekindle.controller.reading import read_status
from rekindle.controller.reconciler import FINALIZER, Reconciler
from rekindle.controller.resources import (
    CONFIG_MAP,
    EVENT,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    SPARK_APPLICATION,
    Key,
    Object,
    Resource,
    is_owned_by,
    labels_of,
    owner_reference,
    uid_of,
)
from rekindle.controller.store import ApplicationStore
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.names import AttemptNames
from tests.unit.controller import world
from tests.unit.controller.api_server import DEADLINE, ApiServer, What, served, until

PI = Key("team", "pi")
LONG_AGO = "2026-01-01T00:00:00Z"
AGAIN = {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1}


@dataclass
class Clock:
    """The observer's: that of this machine, and later where a test says so."""

    later: float = 0.0

    def time(self) -> float:
        return time.time() + self.later


@pytest.fixture
def clock(monkeypatch) -> Clock:
    later = Clock()
    monkeypatch.setattr("rekindle.controller.observer.time", later)
    return later


class Desk:
    """One application on the server, and a reconciler with its copies."""

    def __init__(self, server: ApiServer) -> None:
        self.server, self.kube = server, server.kube
        self.sees = True
        """Whether a look waits until the copies are current."""

        self.metrics = Metrics()
        self.store = ApplicationStore(lambda key: None)
        self.recorder = EventRecorder(self.kube, "op", self.metrics.events_dropped.inc)
        pods = Informer(
            self.kube,
            POD,
            namespace="team",
            selector=f"{labels.LABEL_MANAGED}=true",
            index=lambda pod: labels_of(pod).get(labels.LABEL_UID),
        )
        self.pods = Union([pods])
        self.nodes = Informer(self.kube, NODE)
        claims = Informer(self.kube, PERSISTENT_VOLUME_CLAIM, namespace="team", selector=f"{labels.LABEL_MANAGED}=true")
        self.claims = Union([claims])
        self.reconciler = Reconciler(
            self.kube, self.store, self.pods, self.claims, self.nodes, self.recorder, self.metrics
        )

    @property
    def body(self) -> Object:
        body = self.server.get(SPARK_APPLICATION, "team", "pi")
        assert body is not None
        return body

    @property
    def status(self) -> ApplicationStatus:
        return read_status(self.body)

    def state(self) -> State:
        return self.status.application_state.state

    @property
    def names(self) -> AttemptNames:
        return AttemptNames("pi", uid_of(self.body), self.status.attempt, self.status.attempt_word)

    @property
    def drivers(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.server.all(POD)]

    def hear(self) -> None:
        """What Kopf's watch would tell."""
        if (body := self.server.get(SPARK_APPLICATION, "team", "pi")) is not None:
            self.store.put({**body, "metadata": {**body["metadata"]}})
        elif (known := self.store.get(PI)) is not None:
            self.store.remove(known)

    async def see(self) -> None:
        """Until the copies are what the server has."""
        for copy, kind in ((self.pods, POD), (self.claims, PERSISTENT_VOLUME_CLAIM), (self.nodes, NODE)):
            await copy.wait_until_listed()
            await until(lambda: not self.sees or _versions(copy) == _versions(self.server.all(kind)))  # noqa: B023

    async def look(self) -> float | None:
        """Once, with all that there is to know."""
        self.hear()
        await self.see()
        return await self.reconciler.look(PI)

    async def settle(self, most: int = 20) -> None:
        """Look until nothing changes any more."""
        for _ in range(most):
            before = self.server.written()
            await self.look()
            if self.server.written() == before:
                return
        raise AssertionError(f"never settles: {self.server.written()}")

    def kubelet(self, status: dict[str, Any]) -> None:
        """Its node says this of the present driver."""
        name = self.names.driver_pod
        self.server.change(POD, "team", name, {"spec": {"nodeName": "n1"}})
        self.server.change(POD, "team", name, {"status": status}, "status")

    async def said(self, reason: str) -> Object:
        """The event with that reason, once it was sent."""
        return await until(lambda: next((one for one in self.server.all(EVENT) if one["reason"] == reason), None))

    def edit(self, **spec: Any) -> None:
        self.server.change(SPARK_APPLICATION, "team", "pi", {"spec": spec})


def _versions(bodies) -> set[tuple[str, str]]:
    return {(body["metadata"]["uid"], body["metadata"]["resourceVersion"]) for body in bodies}


@asynccontextmanager
async def at_work(server: ApiServer, *, sees: bool = True, made: bool = True, **spec: Any) -> AsyncIterator[Desk]:
    """A desk whose copies are complete, and an application that has just been made."""
    if made:
        server.make(SPARK_APPLICATION, "team", world.manifest(**spec))
        server.make(NODE, "", world.node())
    desk = Desk(server)
    desk.sees = sees
    tasks = [asyncio.create_task(one.run()) for one in (desk.pods, desk.claims, desk.nodes, desk.recorder)]
    try:
        await desk.see()
        yield desk
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def with_a_driver(server: ApiServer, **spec: Any) -> AsyncIterator[Desk]:
    """A desk whose application runs."""
    async with at_work(server, **spec) as desk:
        await desk.settle()
        desk.kubelet(world.RUNNING)
        await desk.settle()
        assert desk.state() is State.RUNNING
        yield desk


def at_desk(case: Callable[[Desk], Any], **spec: Any) -> None:
    """Run `case` at a desk with an application that has just been made."""

    async def run(server: ApiServer):
        async with at_work(server, **spec) as desk:
            await case(desk)

    served(run)


def beside_a_driver(case: Callable[[Desk], Any], **spec: Any) -> None:
    """Run `case` at a desk with an application that runs."""

    async def run(server: ApiServer):
        async with with_a_driver(server, **spec) as desk:
            await case(desk)

    served(run)


async def looks(desk: Desk, times: int = 5) -> None:
    """As the queue does: what may work soon is tried again."""
    for _ in range(times):
        with suppress(Unavailable):
            await desk.look()


def written(desk: Desk) -> list[str]:
    """What was asked of which kind, as "POST pods" or "PATCH sparkapplications/status"."""
    return [re.sub(r"/.*/team/(\w+)(/pi[^/]*)?", r"\1", call) for call in desk.server.written()]


def test_the_finalizer_comes_first_then_the_status_then_the_objects():
    async def case(desk: Desk):
        assert await desk.look() == 0.0
        assert desk.body["metadata"]["finalizers"] == [FINALIZER]
        await desk.settle()
        assert written(desk)[:6] == [
            "PATCH sparkapplications",
            "PATCH sparkapplications/status",
            "POST configmaps",
            "POST services",
            "POST pods",
            "PATCH sparkapplications/status",
        ]
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 1)
        assert desk.drivers == [desk.names.driver_pod]
        for kind in (CONFIG_MAP, SERVICE, POD):
            assert all(is_owned_by(one, uid_of(desk.body)) for one in desk.server.all(kind))

    at_desk(case)


def test_a_whole_life():
    async def case(desk: Desk):
        assert desk.status.driver_info.node_name == "n1"
        desk.kubelet(world.SUCCEEDED)
        await desk.settle()
        assert desk.state() is State.COMPLETED
        assert desk.drivers == [desk.names.driver_pod]
        assert not desk.server.all(SERVICE)
        assert not desk.server.all(CONFIG_MAP)
        assert (await desk.said("SparkApplicationCompleted"))["regarding"]["uid"] == uid_of(desk.body)

    beside_a_driver(case)


def test_an_application_that_is_gone_is_not_looked_at():
    async def case(desk: Desk):
        desk.server.remove(SPARK_APPLICATION, "team", "pi")
        assert await desk.look() is None
        assert not desk.server.written()

    at_desk(case)


def test_an_application_that_turns_out_to_be_gone_is_forgotten():
    async def case(desk: Desk):
        await desk.look()
        desk.server.remove(SPARK_APPLICATION, "team", "pi")
        with pytest.raises(Gone):  # nobody has told yet
            await desk.reconciler.look(PI)
        assert await desk.reconciler.look(PI) is None
        assert not desk.drivers

    at_desk(case)


@pytest.mark.parametrize("kind", ["configmaps", "services", "pods"])
@pytest.mark.parametrize("what", [What.LOST, What.DROPPED, What.GARBLED, 500, 429])
def test_a_creation_without_a_good_answer_is_made_good_by_the_next_look(kind, what):
    async def case(desk: Desk):
        desk.server.fault("POST", f"/{kind}$", what)
        await desk.look()
        with pytest.raises(Unavailable):
            await desk.look()
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 1)
        await desk.settle()
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 1)
        assert desk.drivers == [desk.names.driver_pod]
        assert desk.status.driver_info.pod_uid == uid_of(desk.server.all(POD)[0])
        assert [len(desk.server.all(one)) for one in (CONFIG_MAP, SERVICE)] == [1, 1]

    at_desk(case)


def test_a_driver_that_the_copy_does_not_show_yet_is_found_by_its_name():
    """The list is older than the driver, and the watch tells nothing."""

    async def case(server: ApiServer):
        server.fault("LIST", "/pods$", What.STALE, at=server.version)
        silent = server.fault("WATCH", "/pods$", What.SILENT)
        async with at_work(server, sees=False) as desk:
            server.fault("POST", "/pods$", What.LOST)
            await desk.look()
            with pytest.raises(Unavailable):
                await desk.look()
            assert len(desk.drivers) == 1
            assert len(desk.pods) == 0
            await desk.look()
            assert desk.status.driver_info.pod_uid == uid_of(server.all(POD)[0])
            desk.kubelet(world.RUNNING)
            await desk.look()
            assert desk.state() is State.RUNNING
            assert written(desk).count("POST pods") == 1
            silent.release.set()
            desk.sees = True
            await desk.settle()
            assert len(desk.drivers) == 1

    served(case)


def test_a_driver_that_the_copy_still_shows_is_not_made_again_either(clock):
    async def case(desk: Desk):
        first = desk.names.driver_pod
        desk.server.remove(POD, "team", first)
        await desk.reconciler.look(PI)
        await desk.settle()
        assert desk.state() is State.PENDING_RERUN
        clock.later += 60
        await desk.settle()
        assert desk.drivers == [desk.names.driver_pod]
        assert desk.status.attempt == 2

    beside_a_driver(case, restartPolicy=AGAIN)


@pytest.fixture
def guessed(monkeypatch) -> None:
    """A stranger knows the words of all attempts."""
    monkeypatch.setattr("rekindle.controller.observer.token_hex", lambda length: "")


def stranger(desk: Desk, resource: Resource) -> Object:
    """An object of somebody else with the name of ours, and our labels."""
    names = AttemptNames("pi", uid_of(desk.body), 1)
    name = {CONFIG_MAP: names.config_map, SERVICE: names.service, POD: names.driver_pod}[resource]
    return desk.server.make(resource, "team", {"metadata": {"name": name, "labels": names.labels}, "spec": {}})


@pytest.mark.parametrize("resource", [CONFIG_MAP, SERVICE, POD], ids=lambda one: one.plural)
def test_a_name_that_a_stranger_has_ends_the_submission(resource, guessed):
    async def case(desk: Desk):
        name = stranger(desk, resource)["metadata"]["name"]
        await desk.settle()
        assert desk.state() is State.FAILED
        message = desk.status.application_state.error_message
        assert f'{resource.kind} {name} was refused: {resource.plural} "{name}" already exists' in message
        assert "already exists" in (await desk.said("SparkApplicationFailed"))["note"]
        assert desk.drivers == ([name] if resource is POD else [])

    at_desk(case, restartPolicy={"type": "Never"})


@pytest.mark.parametrize("resource", [CONFIG_MAP, SERVICE, POD], ids=lambda one: one.plural)
def test_what_a_stranger_made_stays(resource, guessed):
    async def case(desk: Desk):
        theirs = stranger(desk, resource)
        await desk.settle()
        assert uid_of(theirs) in [uid_of(one) for one in desk.server.all(resource)]

    at_desk(case, restartPolicy={"type": "Never"})


@pytest.mark.parametrize("kind", ["configmaps", "services", "pods"])
def test_a_full_quota_is_told_in_its_own_words(kind):
    async def case(desk: Desk):
        said = f"{kind} is forbidden: exceeded quota: team, used: 10, limited: 10"
        desk.server.fault("POST", f"/{kind}$", 403, message=said, times=10)
        await desk.settle()
        assert desk.state() is State.FAILED
        assert said in desk.status.application_state.error_message
        assert desk.status.transitions[-1].reason == "SubmissionRefused"
        assert said in (await desk.said("SparkApplicationFailed"))["note"]
        assert not desk.drivers
        assert desk.metrics.registry.get_sample_value("rekindle_submissions_total", {"result": "refused"}) == 1

    at_desk(case, restartPolicy={"type": "Never"})


def test_a_quota_that_is_full_of_our_own_objects_refuses_nothing():
    async def case(desk: Desk):
        desk.server.fault("POST", "/pods$", What.LOST)
        await desk.look()
        with pytest.raises(Unavailable):
            await desk.look()
        (pod,) = desk.server.all(POD)
        desk.server.remove(POD, "team", pod["metadata"]["name"])  # it is made again below
        desk.server.fault("POST", "/(configmaps|services)$", 403, message="exceeded quota", times=10)
        await desk.settle()
        assert desk.state() is State.SUBMITTED
        assert desk.drivers == [desk.names.driver_pod]

    at_desk(case)


def test_a_409_of_a_quota_that_changed_is_no_refusal():
    """The name is not taken: nothing is there."""

    async def case(desk: Desk):
        desk.server.fault("POST", "/pods$", 409, message="the object has been modified")
        await desk.look()
        with pytest.raises(Unavailable):
            await desk.look()
        await desk.settle()
        assert desk.state() is State.SUBMITTED
        assert len(desk.drivers) == 1

    at_desk(case)


def test_a_configuration_of_ours_with_other_data_is_put_right():
    async def case(desk: Desk):
        desk.server.fault("POST", "/services$", 500)
        await desk.look()
        with pytest.raises(Unavailable):
            await desk.look()
        (made,) = desk.server.all(CONFIG_MAP)
        other = dict.fromkeys(made["data"], "of an older version")
        desk.server.change(CONFIG_MAP, "team", made["metadata"]["name"], {"data": {**other, "more": "x"}})
        await looks(desk)
        (found,) = desk.server.all(CONFIG_MAP)
        assert found["data"] == made["data"]
        assert len(desk.drivers) == 1
        assert desk.state() is State.SUBMITTED

    at_desk(case)


def test_on_a_copy_that_is_old_nothing_of_a_submission_is_made():
    async def case(desk: Desk):
        await desk.look()
        desk.edit(suspend=True)
        with pytest.raises(Taken):
            await desk.reconciler.look(PI)
        assert written(desk) == ["PATCH sparkapplications", "PATCH sparkapplications/status"]
        await desk.settle()
        assert desk.state() is State.SUSPENDED
        assert not desk.drivers

    at_desk(case)


@pytest.mark.parametrize("what", [What.LOST, What.GARBLED])
def test_a_status_whose_answer_is_lost_is_taken_up_where_it_is(what):
    async def case(desk: Desk):
        desk.server.fault("PATCH", "/status$", what)
        await desk.look()
        with pytest.raises(Unavailable):
            await desk.look()
        assert not desk.drivers
        with pytest.raises(Taken):  # before Kopf's watch tells of it
            await desk.reconciler.look(PI)
        assert not desk.drivers
        await desk.settle()
        assert (desk.state(), desk.status.attempt, len(desk.drivers)) == (State.SUBMITTED, 1, 1)

    at_desk(case)


@pytest.mark.parametrize(
    ("call", "path"), [("PATCH", "/sparkapplications/pi$"), ("PATCH", "/pi/status$"), ("GET", "/pods/[^/]*$")]
)
def test_what_the_operator_may_not_do_is_told(call, path):
    async def case(desk: Desk):
        desk.server.fault("POST", "/pods$", 500, times=1 if call == "GET" else 0)  # then the driver is looked for
        desk.server.fault(call, path, 403, message="the operator may not do this")
        with pytest.raises(Refused):
            await looks(desk)
        event = await desk.said("OperatorRefused")
        assert event["type"] == "Warning"
        assert "the operator may not do this" in event["note"]
        await desk.settle()
        assert len(desk.drivers) == 1

    at_desk(case)


def test_a_status_that_cannot_be_read_is_told_once_and_made_anew():
    async def case(desk: Desk):
        first = desk.names.driver_pod
        broken = {"applicationState": {"state": "NO_SUCH_STATE"}, "attempt": "many"}
        desk.server.change(SPARK_APPLICATION, "team", "pi", {"status": broken}, "status")
        await desk.look()
        assert "status.applicationState.state" in (await desk.said("StatusUnreadable"))["note"]
        (pod,) = desk.server.all(POD)
        assert "deletionTimestamp" in pod["metadata"]
        await desk.settle()
        assert desk.drivers == [first]  # no second driver beside it
        desk.server.remove(POD, "team", first)
        await desk.settle()
        assert desk.drivers == [desk.names.driver_pod]
        assert (desk.state(), len(desk.drivers)) == (State.SUBMITTED, 1)
        assert [event["reason"] for event in desk.server.all(EVENT)].count("StatusUnreadable") == 1

    beside_a_driver(case)


def test_after_a_status_that_was_lost_no_attempt_is_counted_twice():
    async def case(desk: Desk):
        desk.kubelet(world.SUCCEEDED)
        broken = {"transitions": "none"}
        desk.server.change(SPARK_APPLICATION, "team", "pi", {"status": broken}, "status")
        await desk.settle()
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 2)

    beside_a_driver(case)


@pytest.mark.parametrize("said", ["999999999999", "9" * 63, "0", "-1", "x"])
def test_a_pod_that_claims_an_attempt_of_any_number_does_not_keep_the_next_from_being_made(said, clock):
    """Its owner is forged, too: whoever may make pods may write that."""

    async def case(desk: Desk):
        forged = {**desk.names.labels, labels.SPARK_ROLE: "driver", labels.LABEL_ATTEMPT: said}
        owner = owner_reference(desk.body, SPARK_APPLICATION)
        metadata = {"name": "forged", "labels": forged, "ownerReferences": [owner]}
        desk.server.make(POD, "team", {"metadata": metadata, "spec": {}, "status": {"phase": "Succeeded"}})
        desk.kubelet(world.failed(137))
        await desk.settle()
        clock.later += 60
        await desk.settle()
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 2)
        assert desk.names.driver_pod in desk.drivers

    beside_a_driver(case, restartPolicy=AGAIN)


@pytest.mark.parametrize(
    "status",
    [
        {"lastSubmissionAttemptTime": "soon"},
        {"runningSince": "soon"},
        {"attempt": -1},
        {"attempt": 2**63 - 1},
        {"submissionAttempts": 2**63 - 1},
        {"executionAttempts": -(2**63)},
    ],
    ids=lambda status: next(iter(status)),
)
def test_whatever_somebody_writes_into_the_status_the_next_attempt_begins(status, clock):
    async def case(desk: Desk):
        desk.kubelet(world.failed(137))
        desk.server.change(SPARK_APPLICATION, "team", "pi", {"status": status}, "status")
        for _ in range(3):
            await desk.settle()
            clock.later += 60
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 2)
        assert 0 <= desk.status.submission_attempts < 2**31

    beside_a_driver(case, restartPolicy=AGAIN)


def test_a_pod_that_waits_where_the_next_driver_would_be_is_not_believed(clock):
    """Its owner is forged, too: whoever may make pods, and knows uid, attempt and word, may write that."""

    async def case(desk: Desk):
        (first,) = desk.server.all(POD)
        owner = owner_reference(desk.body, SPARK_APPLICATION)
        for word in ("", desk.status.attempt_word):
            name = AttemptNames("pi", uid_of(desk.body), 2, word).driver_pod
            metadata = {"name": name, "labels": first["metadata"]["labels"], "ownerReferences": [owner]}
            desk.server.make(POD, "team", {"metadata": metadata, "spec": {}, "status": {"phase": "Succeeded"}})
        desk.kubelet(world.failed(137))
        await desk.settle()
        clock.later += 60
        await desk.settle()
        assert (desk.state(), desk.status.attempt, len(desk.drivers)) == (State.SUBMITTED, 2, 4)

    beside_a_driver(case, restartPolicy=AGAIN)


def test_a_late_driver_of_another_attempt_is_deleted(clock):
    """Asked for by an operator that had lost the Lease, and made when the next attempt ran."""

    async def case(desk: Desk):
        (first,) = desk.server.all(POD)
        desk.kubelet(world.failed(137))
        await desk.settle()
        clock.later += 60
        await desk.settle()
        desk.kubelet(world.RUNNING)
        await desk.settle()
        assert (desk.state(), desk.status.attempt) == (State.RUNNING, 2)
        desk.server.remove(POD, "team", first["metadata"]["name"])
        late = desk.server.make(POD, "team", {**first, "spec": {}, "status": {"phase": "Pending"}})
        await desk.settle()
        assert desk.drivers == [desk.names.driver_pod]
        assert desk.state() is State.RUNNING
        assert first["metadata"]["name"] in (await desk.said("StrayDriver"))["note"]
        assert uid_of(late) in [call.body.get("preconditions", {}).get("uid") for call in desk.server.calls]

    beside_a_driver(case, restartPolicy=AGAIN)


def test_another_pod_with_the_driver_s_name_is_not_this_driver():
    """Asked for twice, and made again when the first was gone."""

    async def case(desk: Desk):
        (first,) = desk.server.all(POD)
        desk.server.remove(POD, "team", first["metadata"]["name"])
        desk.server.make(POD, "team", {**first, "spec": {}, "status": {"phase": "Pending"}})
        await desk.settle()
        assert desk.status.transitions[-1].reason == "DriverPodGone"
        assert desk.state() is State.PENDING_RERUN

    beside_a_driver(case, restartPolicy=AGAIN)


def test_a_pod_that_only_has_our_labels_is_no_driver_of_ours():
    async def case(desk: Desk):
        forged = {**desk.names.labels, labels.SPARK_ROLE: "driver", labels.LABEL_ATTEMPT: "7"}
        desk.server.make(POD, "team", {"metadata": {"name": "forged", "labels": forged}, "spec": {}})
        await desk.settle()
        assert "forged" in desk.drivers
        assert desk.status.attempt == 1
        desk.server.remove(POD, "team", desk.names.driver_pod)
        await desk.kube.delete(SPARK_APPLICATION, "team", "pi")
        await desk.settle()
        assert not desk.server.all(SPARK_APPLICATION)
        assert desk.drivers == ["forged"]

    beside_a_driver(case)


@pytest.mark.parametrize("owners", [None, [{"uid": "of-another"}]])
def test_a_driver_whose_owner_somebody_takes_away_is_still_the_driver(owners, clock):
    """So may everybody who may patch pods, as drivers may, and so does a deletion with --cascade=orphan."""

    async def case(desk: Desk):
        first = desk.names.driver_pod
        desk.server.change(POD, "team", first, {"metadata": {"ownerReferences": owners}})
        await desk.settle()
        clock.later += 60
        await desk.settle()
        assert (desk.state(), desk.status.attempt, desk.drivers) == (State.RUNNING, 1, [first])
        desk.edit(arguments=["2"])
        await desk.settle()
        assert (desk.state(), desk.status.attempt, desk.drivers) == (State.INVALIDATING, 1, [first])
        desk.server.remove(POD, "team", first)
        await desk.settle()
        assert (desk.status.attempt, desk.drivers) == (2, [desk.names.driver_pod])

    beside_a_driver(case, restartPolicy=AGAIN)


def test_a_deleted_application_goes_once_its_driver_is_gone():
    async def case(desk: Desk):
        driver = desk.names.driver_pod
        await desk.kube.delete(SPARK_APPLICATION, "team", "pi")
        assert await desk.look() is not None
        assert "deletionTimestamp" in desk.server.all(POD)[0]["metadata"]
        await desk.settle()
        assert FINALIZER in desk.body["metadata"]["finalizers"]
        desk.server.remove(POD, "team", driver)
        await desk.look()
        assert not desk.server.all(SPARK_APPLICATION)
        assert desk.store.get(PI) is None

    beside_a_driver(case)


def test_an_application_that_is_edited_as_its_time_to_live_ends_runs_again(clock):
    async def case(desk: Desk):
        desk.kubelet(world.SUCCEEDED)
        await desk.settle()
        clock.later += 60
        desk.edit(arguments=["2"])
        await desk.reconciler.look(PI)  # nobody has told yet
        await desk.settle()
        assert (desk.state(), desk.status.attempt) == (State.SUBMITTED, 2)

    beside_a_driver(case, timeToLiveSeconds=30)


def test_the_finalizers_of_others_stay():
    async def case(desk: Desk):
        finalizers = {"finalizers": ["others.dev/x", FINALIZER]}
        desk.server.change(SPARK_APPLICATION, "team", "pi", {"metadata": finalizers})
        desk.server.remove(POD, "team", desk.names.driver_pod)
        await desk.kube.delete(SPARK_APPLICATION, "team", "pi")
        await desk.settle()
        assert desk.body["metadata"]["finalizers"] == ["others.dev/x"]

    beside_a_driver(case)


def test_a_deleted_application_gets_no_finalizer_and_no_driver():
    async def case(desk: Desk):
        desk.server.change(SPARK_APPLICATION, "team", "pi", {"metadata": {"finalizers": ["others.dev/x"]}})
        await desk.kube.delete(SPARK_APPLICATION, "team", "pi")
        await desk.settle()
        assert desk.body["metadata"]["finalizers"] == ["others.dev/x"]
        assert not desk.drivers

    at_desk(case)


def test_the_end_of_a_failed_driver_s_log_is_kept():
    async def case(desk: Desk):
        desk.server.logs[desk.names.driver_pod] = "".join(f"line {number}\n" for number in range(100))
        desk.kubelet(world.failed(1))
        await desk.settle()
        assert desk.state() is State.FAILED
        assert desk.status.driver_info.log_tail.splitlines() == [f"line {number}" for number in range(80, 100)]
        assert "line 99" in (await desk.said("SparkApplicationFailed"))["note"]

    beside_a_driver(case)


@pytest.mark.parametrize("what", [403, 404, 429, 500, What.DROPPED])
def test_a_log_that_cannot_be_had_holds_up_nothing(what):
    async def case(desk: Desk):
        desk.server.fault("GET", "/log$", what, times=2)
        desk.kubelet(world.failed(1))
        await desk.settle()
        assert desk.state() is State.FAILED
        assert desk.status.driver_info.log_tail == ""

    beside_a_driver(case)


def test_a_node_that_the_copy_does_not_have_is_asked_for():
    async def case(server: ApiServer):
        server.fault("LIST", "/nodes$", What.STALE, at=server.version)
        server.fault("WATCH", "/nodes$", What.SILENT)
        async with at_work(server, sees=False) as desk:
            await desk.look()
            await desk.look()
            desk.kubelet(world.RUNNING)
            await until(lambda: _versions(desk.pods) == _versions(server.all(POD)))
            await desk.look()
            assert len(desk.nodes) == 0
            assert desk.state() is State.RUNNING

    served(case)


def test_a_driver_on_a_node_that_is_gone_has_failed():
    async def case(desk: Desk):
        desk.server.remove(NODE, "", "n1")
        await desk.settle()
        assert desk.status.transitions[-1].reason == "NodeLost"
        assert desk.state() is State.PENDING_RERUN

    beside_a_driver(case)


def test_an_error_about_a_node_decides_nothing():
    async def case(desk: Desk):
        desk.server.remove(NODE, "", "n1")
        desk.server.fault("GET", "/nodes/n1$", 500)
        with pytest.raises(Unavailable):
            await desk.look()
        assert desk.state() is State.RUNNING

    beside_a_driver(case)


def test_an_error_about_a_driver_s_pod_decides_nothing():
    async def case(desk: Desk):
        desk.server.remove(POD, "team", desk.names.driver_pod)
        desk.server.fault("GET", "/pods/[^/]*$", 500)
        with pytest.raises(Unavailable):
            await desk.look()
        assert desk.state() is State.RUNNING

    beside_a_driver(case)


def test_at_the_end_the_driver_s_executors_go_and_no_other_pods():
    async def case(desk: Desk):
        (driver,) = desk.server.all(POD)
        role = {**desk.names.labels, labels.SPARK_ROLE: "executor"}
        for name, owner in (("exec-1", owner_reference(driver, POD)), ("forged", {"uid": "of-another"})):
            metadata = {"name": name, "labels": role, "ownerReferences": [owner]}
            desk.server.make(POD, "team", {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}})
        await desk.settle()
        assert desk.status.executors.running == 1
        desk.kubelet(world.SUCCEEDED)
        await desk.settle()
        assert sorted(desk.drivers) == sorted(["forged", driver["metadata"]["name"]])

    beside_a_driver(case)


@pytest.mark.parametrize(("times", "left"), [(1, 0), (100, 1)])
def test_a_clean_up_that_fails_is_tried_again_and_holds_up_no_status(times, left, monkeypatch):
    monkeypatch.setattr("rekindle.controller.children._DELETION_PAUSES", (0.0, 0.0))

    async def case(desk: Desk):
        desk.server.fault("DELETE", "/services/", 500, times=times)
        desk.kubelet(world.SUCCEEDED)
        await desk.settle()
        assert desk.state() is State.COMPLETED
        assert len(desk.server.all(SERVICE)) == left

    beside_a_driver(case)


def test_a_clean_up_that_is_not_answered_holds_up_no_status(monkeypatch):
    """As by a webhook that hangs: with a hundred executors each look would end before its clean-up."""
    monkeypatch.setattr("rekindle.controller.children._CLEAN_UP_SECONDS", 0.05)

    async def case(desk: Desk):
        unanswered = desk.server.fault("DELETE", "/services/", What.LATE, times=100)
        desk.kubelet(world.SUCCEEDED)
        await desk.settle()
        assert desk.state() is State.COMPLETED
        assert unanswered.hits

    beside_a_driver(case)


def test_a_driver_s_pod_that_was_deleted_by_force_on_a_silent_node_proves_nothing(clock):
    async def case(desk: Desk):
        desk.server.change(NODE, "", "n1", {"status": world.node(ready="Unknown")["status"]}, "status")
        await desk.settle()
        desk.server.remove(POD, "team", desk.names.driver_pod)
        await desk.settle()
        clock.later += 1000
        await desk.settle()
        assert (desk.state(), desk.status.attempt, desk.drivers) == (State.PENDING_RERUN, 1, [])
        desk.server.change(NODE, "", "n1", {"status": world.node()["status"]}, "status")
        await desk.settle()
        assert desk.status.attempt == 2

    beside_a_driver(case, restartPolicy=AGAIN)


class Life:
    """From an application's making to its deletion, its first driver killed; looks that fail are taken again."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self._desk, self._clock = desk, clock
        self.uids: set[str] = set()
        """Of all drivers that were ever seen."""

    async def live(self, most: int = 100) -> list[str]:
        """The states that were entered, in order."""
        entered: list[str] = []
        for _ in range(most):
            with suppress(KubeError):
                await self._desk.look()
            if not self._desk.server.all(SPARK_APPLICATION):
                return entered
            entered = [f"{one.state.value} {one.attempt}" for one in self._desk.status.transitions]
            self._act()
        raise AssertionError(f"never ends: {entered}, {self._desk.server.written()}")

    def _act(self) -> None:
        """What the world does between two looks."""
        desk, state = self._desk, self._desk.state()
        pods = desk.server.all(POD)
        self.uids |= {uid_of(pod) for pod in pods}
        alive = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        assert len(alive) <= 1
        if state is State.PENDING_RERUN:
            self._clock.later += 10
        elif state is State.COMPLETED and "deletionTimestamp" not in desk.body["metadata"]:
            desk.server.change(SPARK_APPLICATION, "team", "pi", {"metadata": {"deletionTimestamp": LONG_AGO}})
        elif state is State.SUBMITTED and alive:
            desk.kubelet(world.RUNNING)
        elif state is State.RUNNING and alive:
            desk.kubelet(world.failed(137) if desk.status.attempt == 1 else world.SUCCEEDED)


WRITES, READS = "POST|PATCH|DELETE", "GET"
GOOD_LIFE = ["SUBMITTED 1", "RUNNING 1", "PENDING_RERUN 1", "SUBMITTED 2", "RUNNING 2", "COMPLETED 2"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("calls", "what", "at_least"),
    [(WRITES, What.LOST, 15), (WRITES, 409, 15), (WRITES, 500, 15), (READS, 500, 5)],
)
def test_whichever_call_goes_wrong_a_life_ends_well_with_two_drivers(calls, what, at_least, clock):
    async def live(server: ApiServer, number: int) -> int:
        """Whether so many calls were made."""
        fault = server.fault(calls, "^(?!.*/events$)", what, skip=number)
        async with at_work(server, restartPolicy=AGAIN) as desk:
            life = Life(desk, clock)
            assert await life.live() == GOOD_LIFE, f"call {number}"
        assert len(life.uids) == 2, f"call {number}"
        return fault.hits

    async def lives() -> None:
        number, hits = -1, 1
        while hits:
            number += 1
            async with ApiServer() as server:
                hits = await live(server, number)
        assert number >= at_least

    asyncio.run(asyncio.wait_for(lives(), 2 * DEADLINE))
