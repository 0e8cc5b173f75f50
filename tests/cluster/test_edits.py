"""Edits and deletions in every state. The drivers find no node, or one without a kubelet where they are not to end: the
test says of them what a kubelet would.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.api import Application, apply, get, kill, until
from tests.cluster.marks import beside, needs_nodes
from tests.kind import kubelet
from tests.kind.kubectl import kubectl

pytestmark = [pytest.mark.timeout(600), beside]

NOWHERE = {"nodeSelector": {"there-is": "no-such-node"}}
PATIENT = {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 3600}


def say(app: Application, status: dict[str, Any]) -> None:
    """What a kubelet would of the driver's pod."""
    patch("pod", driver_pod(app), {"status": status}, "-n", app.namespace, "--subresource=status")


def driver_pod(app: Application) -> str:
    return str(until("a driver", app.driver, 30, tell=app.tell)["metadata"]["name"])


def patch(kind: str, name: str, change: dict[str, Any], *options: str) -> None:
    kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change), *options)


def submitted(app: Application) -> None:
    app.wait_for("SUBMITTED", seconds=30)


def running(app: Application) -> None:
    say(app, kubelet.running())
    app.wait_for("RUNNING", seconds=30)


def pending_rerun(app: Application) -> None:
    ended(app, 137, "PENDING_RERUN")


def ended(app: Application, exit_code: int, state: str) -> None:
    running(app)
    say(app, kubelet.ended(exit_code))
    app.wait_for(state, seconds=30)


def suspending(app: Application) -> None:
    """A pod that is told to end and does not."""
    place(app)
    running(app)
    app.edit(suspend=True)
    app.wait_for("SUSPENDING", seconds=30)


def place(app: Application) -> None:
    """Put the driver on a node without a kubelet, as a scheduler would: what is told to end there does not."""
    node = node_of(app)
    apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"unschedulable": True}})
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    patch("node", node, {"status": {"conditions": [ready]}}, "--subresource=status")
    pod = driver_pod(app)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    path = f"/api/v1/namespaces/{app.namespace}/pods/{pod}/binding"
    kubectl("create", "--raw", path, "-f", "-", text=json.dumps(binding))


def node_of(app: Application) -> str:
    """Its own: of a name that it has heard of before, Kubernetes may think that it is silent."""
    return f"nobody-{app.body['metadata']['uid']}"


def let_go(app: Application) -> None:
    """What was told to end has ended, as a kubelet would confirm it."""
    kill(app.namespace, "-l", f"rekindle.dev/application={app.name}")


def suspended(app: Application) -> None:
    app.edit(suspend=True)
    app.wait_for("SUSPENDED", seconds=30)


def invalidating(app: Application) -> None:
    place(app)
    running(app)
    app.edit(arguments=["before"])
    app.wait_for("INVALIDATING", seconds=30)


def completed(app: Application) -> None:
    ended(app, 0, "COMPLETED")


def failed(app: Application) -> None:
    ended(app, 1, "FAILED")


STATES = [submitted, running, pending_rerun, suspended, completed, failed]
NOT_ENDING = [suspending, invalidating]


@pytest.fixture(
    params=[*STATES, *(pytest.param(state, marks=needs_nodes) for state in NOT_ENDING)],
    ids=[state.__name__ for state in STATES + NOT_ENDING],
)
def placed(request, application):
    """An application in each of its states."""
    name = request.param.__name__.replace("_", "-")
    app = application(f"{request.node.originalname.split('_')[1]}-{name}", restartPolicy=PATIENT, driver=NOWHERE)
    node = node_of(app.apply())
    try:
        request.param(app)
        yield app
    finally:
        try:
            let_go(app)
        finally:
            kubectl("delete", "node", node, "--ignore-not-found")


def test_edited_it_runs_the_new_spec(placed):
    """At once, unless it is suspended, or its driver is not gone: then as soon as it may."""
    attempt, state = placed.status["attempt"], placed.state
    placed.edit(arguments=["after"])
    if state in ("SUSPENDING", "INVALIDATING"):
        placed.wait_until("the edit is seen", lambda now: now["observedGeneration"] == placed.generation, 30)
        assert (placed.state, placed.status["attempt"], len(placed.drivers())) == (state, attempt, 1)
        let_go(placed)
    if state in ("SUSPENDING", "SUSPENDED"):
        placed.wait_for("SUSPENDED", seconds=30)
        assert (placed.status["attempt"], placed.drivers()) == (attempt, [])
        placed.edit(suspend=False)
    placed.wait_until("the next attempt", lambda now: now["attempt"] == attempt + 1, 30)
    driver = until("its driver", placed.driver, 30)
    arguments = next(one["args"] for one in driver["spec"]["containers"] if one["name"] == kubelet.DRIVER)
    assert arguments[-1] == "after"


def test_deleted_it_goes_and_leaves_nothing(placed):
    uid, state = placed.body["metadata"]["uid"], placed.state
    placed.delete(wait=False)
    if state in ("SUSPENDING", "INVALIDATING"):
        assert len(placed.drivers()) == 1  # it waits for its driver
        let_go(placed)
    placed.delete()
    mine = f"rekindle.dev/application-uid={uid}"
    until(
        "nothing is left",
        lambda: not kubectl("get", "pods,services,configmaps", "-n", placed.namespace, "-l", mine, "-o", "name"),
        60,
    )


def test_its_time_to_live_ends_it(application):
    app = application("expired", driver=NOWHERE, timeToLiveSeconds=1).apply()
    running(app)
    say(app, kubelet.ended(0))
    until("it is gone", lambda: get("sparkapplication", app.name, app.namespace) is None, 30)
