"""A pipeline on the cluster: its job master hears of blocked nodes from the operator, over the exchange."""

from __future__ import annotations

import json

import pytest

from tests.cluster import api
from tests.cluster.api import SPREAD, until
from tests.cluster.deployment import JOBS, NAMESPACE, SELECTOR
from tests.cluster.marks import needs_nodes
from tests.kind.kubectl import kubectl
from tests.kind.storage import recycle_volumes

pytestmark = [pytest.mark.timeout(400), needs_nodes]

STORE, MOUNTED, CLAIM = "/store", [{"name": "store", "mountPath": "/store"}], "pipeline-store"


@pytest.fixture
def store():
    """A claim that all pods may mount."""
    recycle_volumes()
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "shared", "resources": size}
    metadata = {"name": CLAIM, "namespace": JOBS}
    api.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    yield {"name": "store", "persistentVolumeClaim": {"claimName": CLAIM}}
    kubectl("delete", "persistentvolumeclaim", CLAIM, "-n", JOBS, "--wait=false")


def excludes(app):
    """Whether the operator has heard that its job master keeps tasks off blocked nodes."""
    lines = kubectl("logs", "-n", NAMESPACE, "-l", SELECTOR, "--tail=-1").splitlines()
    told = [json.loads(line) for line in lines if "its job master answers, and" in line]
    return any(one["uid"] == app.body["metadata"]["uid"] and one["message"].endswith("True") for one in told)


@pytest.mark.requirement("S3-3", "S3-4")
def test_a_node_that_a_person_blocks_gets_no_task_of_a_pipeline_until_the_block_ends(application, store, block):
    """Nobody drains its executors: the running tasks end there, and when the block is over there are new ones."""
    app = application(
        "pipeline",
        "sleeps.py",
        "150",
        "1",
        STORE,
        volumes=[store],
        driver={"volumeMounts": MOUNTED},
        executor={"instances": 3, "affinity": SPREAD, "volumeMounts": MOUNTED},
        speculation={"enabled": True, "baselineLowerBound": "1m"},
    ).apply()
    app.wait_for("RUNNING", seconds=120)
    until("its job master answers", lambda: excludes(app), 120, tell=app.tell)
    driver = app.driver()["spec"]["nodeName"]
    executor = next(one for one in app.executors() if one["spec"]["nodeName"] != driver)
    number = executor["metadata"]["labels"]["spark-exec-id"]
    until("it has work", lambda: f"executor {number}, partition" in app.log(), 60, tell=app.tell)
    block("by-hand", executor["spec"]["nodeName"], 25)
    app.wait_for("COMPLETED", "FAILED", seconds=200)
    assert app.state == "COMPLETED", app.tell()
    actions = app.said("action")
    assert [one["action"] for one in actions] == ["Block", "Unblock"], app.tell()
    blocked, unblocked = actions
    ran = app.said("ran")
    there = sorted(one["began"] for one in ran if one["host"] == executor["status"]["podIP"])
    since = blocked["t"] + 3.0  # until it is written down, and Spark has heard of it
    assert [began for began in there if since < began < unblocked["t"]] == []
    assert min(there) < blocked["t"]
    assert max(there) > unblocked["t"]
    assert {one["status"] for one in ran} == {"SUCCESS"}
    assert "ExecutorDrained" not in {one["reason"] for one in app.events()}
