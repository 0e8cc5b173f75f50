"""A node that becomes slow under an application of any kind: blocked, drained, its executors duplicated elsewhere."""

from __future__ import annotations

import pytest

from rekindle.api.node_block import parse_instant
from tests.cluster import operators
from tests.cluster.api import SPREAD, until
from tests.cluster.marks import needs_nodes
from tests.cluster.node_blocks import blocks, marked_nodes, told
from tests.cluster.test_cli import rekindle
from tests.kind import levers
from tests.kind.cluster import WORKERS
from tests.kind.storage import recycle_volumes

pytestmark = [pytest.mark.timeout(600), needs_nodes]

CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
SCRATCH_CLAIMS = {
    f"{CLAIM}.options.claimName": "OnDemand",
    f"{CLAIM}.options.storageClass": "shared",
    f"{CLAIM}.options.sizeLimit": "100Mi",
    f"{CLAIM}.mount.path": "/scratch",
    f"{CLAIM}.mount.readOnly": "false",
    "spark.kubernetes.legacy.useReadWriteOnceAccessMode": "true",
}
TASKS, BASELINE_RATIO = 120, 0.25
SPECULATION = {
    "enabled": True,
    "baselineRatio": BASELINE_RATIO,
    "baselineLowerBound": "2s",
    "blockSlowNodeDuration": "30s",
}


@pytest.mark.requirement("S2-36", "S2-38", "S3-1", "S3-3", "S3-9")
def test_a_slow_node_is_blocked_drained_and_its_executor_duplicated(application):
    """Its scratch space is a claim of its own, and so is the duplicate's.

    The node is well until there is a baseline: so a task is seen as soon as it is slow, which is when the metrics
    server is asked what its pod uses.
    """
    recycle_volumes()
    app = application(
        "slow-node",
        "spin.py",
        str(TASKS),
        "0.7",
        executor={"instances": 3, "affinity": SPREAD},
        speculation=SPECULATION,
        sparkConf=SCRATCH_CLAIMS,
    )
    app.apply()
    app.wait_until("three executors run", lambda status: status.get("executors", {}).get("running") == 3, 180)
    driver = app.driver()["spec"]["nodeName"]
    doomed = next(one for one in app.executors() if one["spec"]["nodeName"] != driver)
    sick = doomed["spec"]["nodeName"]
    until("a baseline", lambda: app.log().count("Finished task") >= BASELINE_RATIO * TASKS, 120, tell=app.tell)
    with levers.slowed(sick, 0.1):
        [block] = until("a block", blocks, 120, tell=app.tell)
        assert (block["spec"]["node"], block["spec"]["applications"]) == (sick, [f"{app.namespace}/{app.name}"])
        until("the marks", lambda: marked_nodes() == {sick}, 10)
        duplicate = until(
            "a duplicate", lambda: [one for one in app.executors() if is_duplicate(one)], 30, tell=app.tell
        )
        assert [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in duplicate[0]["spec"]["volumes"]
            if "persistentVolumeClaim" in volume
        ] == [f"{duplicate[0]['metadata']['name']}-pvc-0"]
        until("it runs elsewhere", lambda: running_on(app, duplicate[0]) not in (None, sick), 60, tell=app.tell)
        app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    number = doomed["metadata"]["labels"]["spark-exec-id"]
    before, after = app.log().split(f"Decommission executors: {number}\n")
    started = f"executor {number}, partition"  # as Spark says where a task starts
    assert started in before
    assert started not in after
    assert len(app.said("ran")) == TASKS
    until("no block is left", lambda: not blocks() and not marked_nodes(), 60)
    reasons = {one["reason"] for one in app.events()}
    assert {"SlowNode", "ExecutorDrained", "DuplicateExecutorsMade"} <= reasons


@pytest.mark.requirement("S3-8", "S3-10")
def test_the_block_of_a_node_is_renewed_while_a_task_is_slow_there_and_goes_with_its_application(application):
    """Nobody copies its tasks, so the slow one takes its time."""
    app = application(
        "stays-slow",
        "spin.py",
        str(TASKS),
        "0.7",
        executor={"instances": 3, "affinity": SPREAD},
        speculation=SPECULATION | {"blockSlowNodeDuration": "20s"},
        blocklist={"removeWhenDone": True},
        sparkConf={"spark.speculation": "false"},
    )
    app.apply()
    app.wait_until("three executors run", lambda status: status.get("executors", {}).get("running") == 3, 180)
    driver = app.driver()["spec"]["nodeName"]
    sick = next(one["spec"]["nodeName"] for one in app.executors() if one["spec"]["nodeName"] != driver)
    until("a baseline", lambda: app.log().count("Finished task") >= BASELINE_RATIO * TASKS, 120, tell=app.tell)
    with levers.slowed(sick, 0.05):
        [first] = until("a block", blocks, 120, tell=app.tell)
        until("a later end", lambda: [one for one in blocks() if later(one, first)], 30, tell=told)
        [renewed] = blocks()
    assert renewed["metadata"]["uid"] == first["metadata"]["uid"]
    assert renewed["spec"]["applications"] == [f"{app.namespace}/{app.name}"]
    app.delete()
    until("no block is left", lambda: not blocks() and not marked_nodes(), 15, tell=told)


@pytest.mark.requirement("S3-4", "S3-9", "S3-13")
def test_a_node_that_a_person_blocks_gets_no_executor_until_the_end(application):
    """Though the operator dies meanwhile: the end is kept by its successor."""
    node = WORKERS[0]
    made = rekindle("block", node, "--for", "45s", "--cause", "disk")
    assert made.returncode == 0, made.stderr
    until("the marks", lambda: marked_nodes() == {node}, 30)
    shown = rekindle("nodes").stdout
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith(f"{node} ")] == ["disk"]
    operators.kill()
    app = application("by-hand-blocked", "pi.py", "1000", "4", "6", executor={"instances": 3, "affinity": SPREAD})
    app.apply().wait_until("executors run", lambda status: status.get("executors", {}).get("running") == 3, 120)
    assert node not in {one["spec"].get("nodeName") for one in app.executors()}
    until("the end of the block", lambda: not marked_nodes(), 60)
    assert rekindle("unblock", node).returncode == 0
    assert blocks() == []


def later(block, than):
    return parse_instant(block["spec"]["end"]) > parse_instant(than["spec"]["end"])


def is_duplicate(pod):
    return pod["metadata"]["labels"].get("rekindle.dev/duplicate") == "true"


def running_on(app, pod):
    there = [one for one in app.executors() if one["metadata"]["name"] == pod["metadata"]["name"]]
    return there[0]["spec"].get("nodeName") if there and there[0]["status"].get("phase") == "Running" else None
