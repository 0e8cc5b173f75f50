"""A pipeline whose results lie in a bucket of a real S3 server in the cluster, and whose driver is lost."""

from __future__ import annotations

from functools import partial

import pytest

from tests.cluster import bucket
from tests.cluster.api import until
from tests.cluster.marks import beside
from tests.cluster.test_lost_volume import finished
from tests.kind.kubectl import given_kubeconfig
from tests.tools.bucket import missing

pytestmark = [
    beside,
    pytest.mark.timeout(500),
    pytest.mark.skipif(given_kubeconfig() is not None, reason="the server's program comes by way of our own nodes"),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

PARTITIONS, SECONDS = 4, 20


@pytest.mark.requirement("S6-1", "S7-2", "S7-9", "S7-13", "S7-21", "S7-26")
def test_a_killed_driver_costs_what_was_not_in_the_bucket(application, installed):
    with bucket.server(installed.spark):
        app = application(
            "in-a-bucket",
            "chain.py",
            str(PARTITIONS),
            str(SECONDS),
            "/tmp/out",
            driver={"volumeMounts": bucket.MOUNTS},
            executor={"instances": 2, "volumeMounts": bucket.MOUNTS},
            **bucket.application("a/chain"),
        ).apply()
        app.wait_until("the operator knows of two partitions", lambda status: finished(status, "worked") >= 2, 300)
        worked = partial(bucket.names, "a/chain/runs/0001/stages/worked/manifests")
        before = set(worked())
        assert len(before) in (2, 3)
        app.kill_driver()
        app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
        app.wait_for("COMPLETED", "FAILED", seconds=240)
        assert app.state == "COMPLETED", app.tell()
        assert app.said("right") == [True]
        assert len(set(worked()) - before) == PARTITIONS - len(before)
        (report,) = app.said("report")
        assert report["drivers"] == 2
        assert {one["name"]: one["rerun"] for one in report["stages"]}["numbers"] == 0
        recovery = app.status["recovery"]["last"]
        assert recovery["attempt"] == 2
        assert recovery["restarted"].keys() == {"worked"}
        assert app.condition("Recovering")["reason"] == "Recovered"
        until("it has told so", lambda: "JobRecovered" in {one["reason"] for one in app.events()}, 30, tell=app.tell)
