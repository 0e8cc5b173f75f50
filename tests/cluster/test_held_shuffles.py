"""Executors that hold map outputs which somebody may still read: they are not let go, or hand them over first."""

from __future__ import annotations

import pytest

from tests.cluster.api import SPREAD, items, until
from tests.cluster.deployment import JOBS
from tests.cluster.marks import beside, needs_nodes

pytestmark = pytest.mark.timeout(400)

MAPS, IDLE_SECONDS = 6, 8


def no_executors() -> bool:
    return not items("pods", JOBS, "spark-role=executor")


@beside
@pytest.mark.requirement("S7-24", "S7-27", "S7-28")
def test_an_idle_executor_stays_while_it_holds_a_shuffle_and_goes_when_nobody_needs_it(application):
    """With dynamic allocation, as the operator sets it up: it may go after some seconds without a task, and holds its
    part of the shuffle for three times as many."""
    app = application(
        "holds",
        "held.py",
        "2",
        str(3 * IDLE_SECONDS),
        dynamicAllocation={"enabled": True, "initialExecutors": 2, "minExecutors": 0, "maxExecutors": 2},
        sparkConf={"spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_SECONDS}s"},
    ).apply()
    app.wait_for("COMPLETED", "FAILED", seconds=300)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("shuffled") == app.said("again") == [{"maps": MAPS, "right": True, "executors": 2}]
    assert app.said("released") == [0]


@needs_nodes
@pytest.mark.requirement("S3-3", "S7-24", "S7-28")
def test_an_executor_on_a_blocked_node_leaves_when_others_have_its_map_outputs(application, block):
    """It has no task, and a person blocks its node: no map task runs again."""
    until("no executors of others, from which these would keep away", no_executors, 120)
    app = application(
        "hands-over",
        "held.py",
        "3",
        "leaves",
        executor={"instances": 3, "affinity": SPREAD},
        speculation={"enabled": True, "baselineLowerBound": "1m"},
    ).apply()
    app.wait_for_executor()
    until("the shuffle is written", lambda: app.said("shuffled"), 120, tell=app.tell)
    driver = app.driver()["spec"]["nodeName"]
    block("by-hand", next(one["spec"]["nodeName"] for one in app.executors() if one["spec"]["nodeName"] != driver))
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("shuffled") == [{"maps": MAPS, "right": True, "executors": 3}]
    (again,) = app.said("again")
    assert again == {"maps": MAPS, "right": True, "executors": 2}
    assert "ExecutorDrained" in {one["reason"] for one in app.events()}
