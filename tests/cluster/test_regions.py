"""The worked examples of FLIP-1 on real executors: which regions restart when tasks fail and what they read is gone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rekindle.core.events import AttemptDeployed, from_record
from rekindle.local.stored import lose_partition
from rekindle.runtime.journal import read_run
from tests.cluster.api import Application, until
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.gates import IN_POD, Gates
from tests.cluster.marks import beside
from tests.cluster.test_lost_driver import stored
from tests.kind import kubelet
from tests.kind.kubectl import kubectl

pytestmark = [pytest.mark.timeout(700), beside]


@dataclass(frozen=True)
class Told:
    """What a pipeline's journal has told.

    Attributes:
        restarted: stages of which anything was restarted: their map side, or what they write.
        begun: stages of which any attempt was deployed.
    """

    restarted: frozenset[str]
    begun: frozenset[str]


class Story:
    """A pipeline's journal, from one moment to the next."""

    def __init__(self, subject: Subject) -> None:
        self._subject, self._read = subject, 0

    def since(self) -> Told:
        """What has come since the last call."""
        store = self._subject.store()
        assert store is not None
        records = read_run(store)
        new, self._read = records[self._read :], len(records)
        restarts = [one for one in new if one.get("action") == "Restart"]
        events = [from_record(one["event"]) for one in new if one["kind"] == "event"]
        return Told(
            frozenset(_stage(vertex) for one in restarts for vertex, _ in one["vertices"]),
            frozenset(_stage(one.attempt.vertex_id.vertex) for one in events if isinstance(one, AttemptDeployed)),
        )


def _stage(vertex: str) -> str:
    return vertex.removesuffix(".map")


def fail_tasks(app: Application) -> None:
    """The Python workers of all executors end, and with them what they run."""
    for pod in app.executors():
        if pod["status"]["phase"] == "Running":
            command = ("sh", "-c", "pkill -KILL -f '[p]yspark.daemon' || true")  # who has run nothing has none
            kubectl("exec", pod["metadata"]["name"], "-n", app.namespace, "-c", kubelet.EXECUTOR, "--", *command)


def lose(subject: Subject, *stages: str) -> None:
    """All partitions of these stages."""
    store = subject.store()
    assert store is not None
    assert all(lose_partition(store, stage, partition) for stage in stages for partition in range(2))


@pytest.mark.requirement("S6-2", "S6-4", "S7-2", "S7-3", "S7-4", "S7-5", "S7-9", "S7-14", "S7-16", "S7-17")
def test_what_restarts_is_what_failed_what_it_lacks_and_what_had_read_that(application, claim_template):
    """A -> B -> {C, D} and E -> D (E-1 to E-3), with failures at four moments. What the default does: nothing here has
    promised to come out the same again."""
    app = application(
        "regions",
        "regions.py",
        IN_POD,
        executor={"instances": 2, "cores": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": VOLUMES},
    ).apply()
    subject = Subject(app)
    gates, story = Gates(subject), Story(subject)

    gates.wait_for("a", 2, 240)
    app.wait_until("two executors run", lambda status: status.get("executors", {}).get("running") == 2)
    fail_tasks(app)  # A fails, and nothing that reads it was ever scheduled: A alone
    gates.wait_for("a", 2)
    gates.open("a")
    gates.wait_for("c", 2)
    told = story.since()
    assert told.restarted <= {"a", "e"}
    assert "d" not in told.begun

    fail_tasks(app)  # C fails, and what it reads is there: C alone
    gates.wait_for("c", 2)
    told = story.since()
    assert told.restarted <= {"c", "e"}
    assert told.begun <= {"c", "e"}

    lose(subject, "a", "b")  # C fails, and nothing is there: A, B and C; D was never scheduled
    fail_tasks(app)
    gates.wait_for("c", 2)
    told = story.since()
    assert told.restarted - {"e"} == {"a", "b", "c"}
    assert "d" not in told.begun

    gates.open("c")
    gates.open("e")
    gates.wait_for("d", 2)
    until("C is stored", lambda: stored(app, "c") == 2, 60, tell=app.tell)
    assert story.since().restarted == frozenset()

    lose(subject, "a", "b")  # D fails, and C, which has read B, has finished: all four, but not E
    fail_tasks(app)
    gates.open("d")
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert story.since().restarted == {"a", "b", "c", "d"}
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["drivers"] == 1
