"""A pipeline whose driver is lost: its results lie on a volume of the application's, and only the rest runs again."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest

from tests.cluster import api
from tests.cluster.api import Application, until
from tests.cluster.marks import beside
from tests.cluster.test_cli import rekindle
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

pytestmark = [pytest.mark.timeout(600), beside]

PARTITIONS, SECONDS, STORE = 4, 30, "/rekindle/store"

HEARD_SECONDS = 10.0
"""Within these the operator hears of what was stored, and less than what the next partition takes."""


def stored(app: Application, stage: str) -> int:
    """How many partitions of a stage are stored, as the driver's pod sees the store."""
    driver = app.driver()
    if driver is None or driver["status"].get("phase") != "Running":
        return 0
    folder = f"{STORE}/runs/0001/stages/{stage}/manifests"
    try:
        listed = kubectl("exec", driver["metadata"]["name"], "-n", app.namespace, "--", "sh", "-c", f"ls {folder} || :")
    except Failed:  # its container is not there yet
        return 0
    return len(listed.split())


def gone(app: Application, claim: str) -> bool:
    return api.get("persistentvolumeclaim", claim, app.namespace) is None


@pytest.mark.requirement("S6-1", "S6-4", "S6-21", "S7-2", "S7-9", "S7-13", "S7-21", "S7-26")
def test_a_killed_driver_costs_what_was_not_stored(application, claim_template):
    """On three volumes: one of the journal, and two over which results are spread."""
    app = application(
        "chain",
        "chain.py",
        str(PARTITIONS),
        str(SECONDS),
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": 2},
    ).apply()
    until("two partitions are stored", lambda: stored(app, "worked") >= 2, 240, tell=app.tell)
    time.sleep(HEARD_SECONDS)
    shown = rekindle("describe", "chain", "-n", app.namespace).stdout
    assert re.search(r"^numbers +numbers\.map +█{4} +all 4 stored\b", shown, re.MULTILINE), shown
    assert re.search(r"^worked +numbers +[█▒]{4} ", shown, re.MULTILINE), shown
    app.kill_driver()
    app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["drivers"] == 2
    assert set(report["recoveries"][0]["restarted"]) == {"worked"}
    assert report["recoveries"][0]["restarted"]["worked"] == PARTITIONS - 2
    assert {one["name"]: one["rerun"] for one in report["stages"]}["numbers"] == 0
    recovery = app.status["recovery"]["last"]
    assert (recovery["attempt"], recovery["asPlanned"]) == (2, True), app.tell()
    assert recovery["restarted"].keys() == {"worked"}
    assert recovery["restartedVertices"] == PARTITIONS - 2
    assert app.condition("Recovering")["status"] == "False"
    reasons = [one["reason"] for one in app.events()]
    assert [reasons.count(one) for one in ("RecoveryPlanned", "JobRecovered", "TasksResumed")] == [1, 1, 1]
    phases = [recovery[f"{one}AfterSeconds"] for one in ("noticed", "driver", "firstTask")]
    assert phases == sorted(phases)
    assert phases[-1] > 0
    assert recovery["savedTaskSeconds"] >= 2 * SECONDS
    mine = [one["metadata"]["name"] for one in app.claims()]
    assert len(mine) == 3
    app.edit(recovery={"storage": {"whenCompleted": "Delete"}})
    for claim in mine:
        until(f"claim {claim} is gone", partial(gone, app, claim), 60, tell=app.tell)
    assert (app.state, app.status["attempt"]) == ("COMPLETED", 2)
