"""A volume of a pipeline's store is lost while its driver runs: its share of the results is made again, no more."""

from __future__ import annotations

import pytest

from tests.cluster import api
from tests.cluster.api import Object, until
from tests.cluster.deployment import JOBS
from tests.cluster.marks import beside
from tests.cluster.test_lost_driver import PARTITIONS
from tests.kind import storage

pytestmark = [pytest.mark.timeout(700), beside]


def finished(status: Object, stage: str) -> int:
    """How many partitions of a stage there are, as the operator has heard."""
    stages = {one["name"]: one for one in status.get("recovery", {}).get("stages", ())}
    return int(stages.get(stage, {}).get("finished", 0))


@pytest.mark.requirement("S6-1", "S7-2", "S7-4", "S7-9", "S7-14", "S7-26")
def test_a_lost_volume_costs_what_was_on_it(application, claim_template):
    """All of the first stage is stored, on two volumes, and the first two partitions of the second, one on each."""
    app = application(
        "volume",
        "chain.py",
        str(PARTITIONS),
        "30",
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": 2},
    ).apply()
    app.wait_until("the operator knows of two partitions", lambda status: finished(status, "worked") == 2, 240)
    [claim] = [one for one in app.claims() if one["metadata"]["name"].endswith("-store-1")]
    with storage.lost(claim["spec"]["volumeName"]):
        app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
        app.wait_for("COMPLETED", "FAILED", seconds=300)
    assert app.state == "COMPLETED", app.tell()
    assert "VolumeLost" in app.reasons
    assert app.said("right") == [True]
    (report,) = app.said("report")
    restarted = report["recoveries"][0]["restarted"]
    assert restarted["numbers"] == PARTITIONS // 2
    assert {one["name"]: one["rerun"] for one in report["stages"]}["numbers"] == PARTITIONS // 2
    assert restarted["worked"] in (2, 3)  # pointwise, and the other half may have ended while the driver did
    recovery = app.status["recovery"]["last"]
    assert recovery["asPlanned"] is True, app.tell()
    assert "has lost its PersistentVolume" in recovery["cause"]
    assert recovery["restarted"]["numbers"] == "1,3"
    assert recovery["restarted"]["worked"] in ("1-3", "1,3")
    assert app.condition("StorageReady")["status"] == "True"
    [anew] = [one for one in app.claims() if one["metadata"]["name"] == claim["metadata"]["name"]]
    assert anew["spec"]["volumeName"] != claim["spec"]["volumeName"]
    reasons = [one["reason"] for one in app.events()]
    assert (reasons.count("VolumeLost"), reasons.count("RecoveryPlanned"), reasons.count("JobRecovered")) == (1, 1, 1)
    app.edit(timeToLiveSeconds=1)
    until("it is gone", lambda: api.get("sparkapplication", app.name, JOBS) is None, 30)
    until("so are its claims", lambda: not api.items("pvc", JOBS, f"rekindle.dev/application={app.name}"), 60)
