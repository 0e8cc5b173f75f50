"""A volume of a pipeline's store is lost while its driver runs: its share of the results is made again, no more."""

from __future__ import annotations

import time

import pytest

from tests.cluster.api import until
from tests.cluster.test_lost_driver import HEARD_SECONDS, PARTITIONS, SECONDS, claims, stored
from tests.kind.kubectl import kubectl

pytestmark = pytest.mark.timeout(500)


@pytest.mark.requirement("S6-1", "S7-2", "S7-4", "S7-9", "S7-14")
def test_a_lost_volume_costs_what_was_on_it(application, claim_template):
    """All of the first stage is stored, on two volumes, and the first two partitions of the second, one on each.

    Its claim goes at once, as with a class whose volumes are deleted by force: pods that mount it do not hold it.
    """
    app = application(
        "volume",
        "chain.py",
        str(PARTITIONS),
        str(SECONDS),
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": 2},
    ).apply()
    until("two partitions are stored", lambda: stored(app, "worked") >= 2, 240, tell=app.tell)
    time.sleep(HEARD_SECONDS)
    [claim] = [one["metadata"] for one in claims(app) if one["metadata"]["name"].endswith("-store-1")]
    kubectl("delete", "pvc", claim["name"], "-n", app.namespace, "--wait=false")
    kubectl(
        "patch", "pvc", claim["name"], "-n", app.namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )
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
    assert recovery["restarted"]["numbers"] == "1,3"
    assert recovery["restarted"]["worked"] in ("1-3", "1,3")
    assert app.condition("StorageReady")["status"] == "True"
    [anew] = [one["metadata"] for one in claims(app) if one["metadata"]["name"] == claim["name"]]
    assert anew["uid"] != claim["uid"]
    reasons = [one["reason"] for one in app.events()]
    assert (reasons.count("VolumeLost"), reasons.count("RecoveryPlanned"), reasons.count("JobRecovered")) == (1, 1, 1)
