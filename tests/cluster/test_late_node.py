"""A node that stands still until others have done its work, and then goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.core.events import AttemptDeployed, from_record
from rekindle.runtime.journal import read_run
from tests.cluster import operators
from tests.cluster.api import SPREAD, until
from tests.cluster.chaos import oracle
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.marks import needs_nodes
from tests.cluster.test_held_shuffles import no_executors
from tests.cluster.test_lost_driver import STORE, stored
from tests.kind import levers

pytestmark = [pytest.mark.timeout(500), needs_nodes]

PARTITIONS, SECONDS = 2, 15

SOON_LOST = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "4s",
}
"""How long Spark waits for an executor that says nothing."""


MARKS = "[0-9a-f]" * 32
"""What a task leaves when its time is over."""


def attempts(subject: Subject) -> list[Path]:
    """What attempts of `worked` have stored, whether it counts or not."""
    found = [path for volume in subject.volumes().values() for path in volume.rglob("data/worked/.attempt-*/*")]
    return [path for path in found if path.is_file()]


def deployed(subject: Subject, stage: str) -> int:
    """How many attempts of a stage were deployed, by its journal."""
    store = subject.store()
    records = read_run(store) if store is not None else []
    events = [from_record(one["event"]) for one in records if one["kind"] == "event"]
    attempts = [one.attempt for one in events if isinstance(one, AttemptDeployed)]
    return sum(attempt.vertex_id.vertex == stage for attempt in attempts)


@pytest.mark.requirement("S7-17", "S7-25")
def test_an_attempt_that_ends_when_its_node_is_long_taken_for_lost_changes_nothing(application, claim_template):
    """Its partition is there by then, made by another executor. What it stores, if it comes to that before its executor
    learns that it was given up, is not read by anybody, and goes."""
    until("no executors of others, from which these would keep away", no_executors, 120)
    with levers.cordoned(operators.pods()[0]["spec"]["nodeName"]):  # which is not to stand still
        app = application(
            "late-node",
            "chain.py",
            str(PARTITIONS),
            str(SECONDS),
            "/tmp/out",
            STORE,
            executor={"instances": 2, "affinity": SPREAD},
            recovery={"storage": {"claimTemplate": claim_template}, "volumes": VOLUMES},
            sparkConf=SOON_LOST,
        ).apply()
        app.wait_until("two executors run", lambda status: status.get("executors", {}).get("running") == 2, 240)
    subject = Subject(app)
    driver = app.driver()["spec"]["nodeName"]
    [node] = {one["spec"]["nodeName"] for one in app.executors()} - {driver}
    until("both tasks run", lambda: deployed(subject, "worked") == PARTITIONS, 120, tell=app.tell)
    with levers.paused(node):
        until("both partitions are stored", lambda: stored(app, "worked") == PARTITIONS, 150, tell=app.tell)
        subject.look()
    journal = subject.volumes()[""]
    until("the late task has ended", lambda: len(list(journal.glob(MARKS))) == PARTITIONS + 1, 60, tell=app.tell)
    (journal / "go").touch()
    app.wait_for("COMPLETED", "FAILED", seconds=200)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["recoveries"] == []
    assert report["drivers"] == 1
    oracle.check(subject)  # one version of each partition, and nothing made again that was complete
    assert attempts(subject) == []
