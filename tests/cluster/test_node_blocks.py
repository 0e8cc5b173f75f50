"""NodeBlocks as people and applications write them, on nodes and an API server that come and go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster import deployment, operators
from tests.cluster.api import Object, apply, until
from tests.cluster.deployment import JOBS, NAMESPACE, RELEASE
from tests.cluster.marks import needs_nodes
from tests.cluster.node_blocks import MARKED, a_node, manifest, marks, reasons, told
from tests.kind.cluster import WORKERS
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

pytestmark = [pytest.mark.timeout(600), needs_nodes]

WORKER = WORKERS[0]
ON_WORKER = {"nodeSelector": {"kubernetes.io/hostname": WORKER}}


def wait_for(name: str, reason: str) -> None:
    until(f"{name}: {reason}", lambda: reasons().get(name) == reason, 30, tell=told)


def wait_for_marks(wanted: dict[str, Any]) -> None:
    until(f"marks {wanted}", lambda: marks() == wanted, 30, tell=told)


def test_a_block_waits_for_a_node_that_is_not_there_and_one_that_is_over_marks_nothing(ghost, block):
    block("of-ghost", ghost)
    wait_for_marks({ghost: MARKED})
    block("of-nobody", "nobody")
    block("over", seconds=-60)
    wait_for("of-nobody", "NoSuchNode")
    wait_for("over", "Over")
    assert marks() == {ghost: MARKED}
    before = lives()
    kubectl("delete", "node", ghost)
    wait_for("of-ghost", "NoSuchNode")
    apply(a_node(ghost))
    wait_for_marks({ghost: MARKED})
    assert lives() == before


def lives() -> dict[str, int]:
    """[operator -> how often it was started anew]"""
    return {operators.name_of(pod): pod["status"]["containerStatuses"][0]["restartCount"] for pod in operators.pods()}


@pytest.mark.requirement("S3-8", "S3-14")
def test_a_node_is_free_when_the_last_of_those_who_asked_for_it_has_ended(application, block):
    short, waiting = application("short", "pi.py", "100"), application("waiting", suspend=True)
    for app in (short.apply(), waiting.apply()):
        app.wait_until("it is known", lambda status: status, 60)
    asked = {"ours": True, "removeWhenDone": True}
    block("of-short", applications=[f"{JOBS}/short"], **asked)
    block("of-waiting", seconds=300, applications=[f"{JOBS}/waiting"], **asked)
    block("of-person", seconds=5)
    wait_for_marks({WORKER: MARKED})
    wait_for("of-short", "NodeBlocked")
    short.wait_for("COMPLETED", "FAILED")
    until(
        "one is left in force", lambda: reasons() == {"of-waiting": "NodeBlocked", "of-person": "Over"}, 30, tell=told
    )
    assert marks() == {WORKER: MARKED}
    waiting.delete()
    until("none is left in force", lambda: (reasons(), marks()) == ({"of-person": "Over"}, {}), 30, tell=told)


def test_drivers_block_nothing_and_the_operator_deletes_no_node(ghost, block):
    """Who tries is told that it is forbidden."""
    wanted = block("by-admin", ghost)
    wait_for_marks({ghost: MARKED})
    driver, operator = f"{JOBS}:spark", f"{NAMESPACE}:{RELEASE}"
    forbidden(driver, 'create resource "nodeblocks"', "create", "-f", "-", text=manifest("by-driver", WORKER, 60))
    forbidden(driver, 'patch resource "nodeblocks"', "apply", "--server-side", "-f", "-", text=wanted)
    forbidden(driver, 'patch resource "nodes"', "apply", "--server-side", "-f", "-", text=a_node(ghost))
    forbidden(driver, 'delete resource "nodeblocks"', "delete", "nodeblock", "by-admin")
    forbidden(operator, 'delete resource "nodes"', "delete", "node", ghost)


def forbidden(account: str, what: str, *command: str, text: Object | None = None) -> None:
    with pytest.raises(Failed, match=f'User "system:serviceaccount:{account}" cannot {what}'):
        kubectl(*command, f"--as=system:serviceaccount:{account}", text=json.dumps(text) if text else None)


@pytest.mark.requirement("S3-9")
def test_a_dry_run_takes_marks_off_and_another_effect_is_put_on(installed, application, block):
    """With a label alone drivers and executors of ours stay away all the same."""
    block("tried")
    wait_for_marks({WORKER: MARKED})
    try:
        deployment.install(installed, "nodeBlocks.dryRun=true")
        wait_for("tried", "DryRun")
        assert marks() == {}
        deployment.install(installed, "nodeBlocks.taintEffect=PreferNoSchedule")
        wait_for_marks({WORKER: ("true", ["PreferNoSchedule"])})
        deployment.install(installed, "nodeBlocks.taintEffect=None")
        wait_for_marks({WORKER: ("true", [])})
        one, other = application("its-driver", driver=ON_WORKER), application("its-executor", executor=ON_WORKER)
        one.apply()
        other.apply()
        until("a driver without a node", lambda: has_no_node(one.driver()), 60, tell=one.tell)
        until("an executor without a node", lambda: any(map(has_no_node, other.executors())), 60, tell=other.tell)
        kubectl("delete", "nodeblock", "tried")
        until("the driver's node", lambda: node_of(one.driver()) == WORKER, 30, tell=one.tell)
        until("the executor's node", lambda: WORKER in map(node_of, other.executors()), 30, tell=other.tell)
    finally:
        deployment.install(installed)


def has_no_node(pod: Object | None) -> bool:
    """The scheduler has looked for one, and there is none that the pod may have."""
    conditions = pod["status"].get("conditions", ()) if pod else ()
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def node_of(pod: Object | None) -> str | None:
    return pod["spec"].get("nodeName") if pod else None
