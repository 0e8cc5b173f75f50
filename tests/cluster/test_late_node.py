"""A node that stands still until others have done its work, and then goes on as if nothing had been."""

from __future__ import annotations

import time

import pytest

from rekindle.core.events import AttemptDeployed, from_record
from rekindle.runtime.journal import read_run
from tests.cluster import operators
from tests.cluster.api import SPREAD, until
from tests.cluster.chaos import oracle
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.marks import needs_nodes
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


def deployed(subject: Subject, stage: str) -> int:
    """How many attempts of a stage were deployed, by its journal."""
    store = subject.store()
    records = read_run(store) if store is not None else []
    events = [from_record(one["event"]) for one in records if one["kind"] == "event"]
    attempts = [one.attempt for one in events if isinstance(one, AttemptDeployed)]
    return sum(attempt.vertex_id.vertex == stage for attempt in attempts)


@pytest.mark.requirement("S7-17", "S7-25")
def test_an_attempt_that_ends_when_its_node_is_long_taken_for_lost_changes_nothing(application, claim_template):
    """Its partition is there by then, made by another executor. What it stores is not read by anybody, and goes."""
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
    app.wait_for("COMPLETED", "FAILED", seconds=200)
    assert app.state == "COMPLETED", app.tell()
    journal = subject.volumes()[""]
    late = "the task on that node has come to its end too"
    until(late, lambda: len([one for one in journal.iterdir() if one.is_file() and len(one.name) == 32]) == 3, 60)
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["recoveries"] == []
    assert report["drivers"] == 1
    assert oracle.check(subject).get("again", 0) == 0
    time.sleep(2.0)  # what is late stores what it has, and removes it
    left = [path for volume in subject.volumes().values() for path in volume.rglob("data/**/*") if path.is_file()]
    assert left == []
