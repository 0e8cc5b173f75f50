"""Edits and deletions in every state. The drivers find no node: the test says of them what a kubelet would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.api import Application, get, until
from tests.kind import kubelet
from tests.kind.kubectl import kubectl

pytestmark = pytest.mark.timeout(300)

NOWHERE = {"nodeSelector": {"there-is": "no-such-node"}}
PATIENT = {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 3600}
HOLD = "rekindle.test/hold"


def say(app: Application, status: dict[str, Any]) -> None:
    """What a kubelet would of the driver's pod."""
    pod = until("a driver", app.driver, 30, tell=app.tell)["metadata"]["name"]
    patch(app, pod, {"status": status}, "--subresource=status")


def patch(app: Application, pod: str, change: dict[str, Any], *options: str) -> None:
    kubectl("patch", "pod", pod, "-n", app.namespace, "--type=merge", "-p", json.dumps(change), *options)


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
    running(app)
    hold(app, [HOLD])
    app.edit(suspend=True)
    app.wait_for("SUSPENDING", seconds=30)


def hold(app: Application, finalizers: list[str]) -> None:
    pod = until("a driver", app.driver, 30, tell=app.tell)["metadata"]["name"]
    patch(app, pod, {"metadata": {"finalizers": finalizers}})


def suspended(app: Application) -> None:
    app.edit(suspend=True)
    app.wait_for("SUSPENDED", seconds=30)


def invalidating(app: Application) -> None:
    running(app)
    hold(app, [HOLD])
    app.edit(arguments=["before"])
    app.wait_for("INVALIDATING", seconds=30)


def completed(app: Application) -> None:
    ended(app, 0, "COMPLETED")


def failed(app: Application) -> None:
    ended(app, 1, "FAILED")


STATES = [submitted, running, pending_rerun, suspending, suspended, invalidating, completed, failed]


@pytest.fixture(params=STATES, ids=[state.__name__ for state in STATES])
def placed(request, application):
    """An application in each of its states."""
    name = request.param.__name__.replace("_", "-")
    app = application(f"{request.node.originalname.split('_')[1]}-{name}", restartPolicy=PATIENT, driver=NOWHERE)
    app.apply()
    request.param(app)
    yield app
    pods = kubectl("get", "pods", "-n", app.namespace, "-l", f"rekindle.dev/application={app.name}", "-o", "name")
    for pod in pods.split():
        kubectl("patch", pod, "-n", app.namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_edited_it_runs_the_new_spec(placed):
    """At once, unless it is suspended, or its driver is not gone: then as soon as it may."""
    attempt, state = placed.status["attempt"], placed.state
    placed.edit(arguments=["after"])
    if state in ("SUSPENDING", "INVALIDATING"):
        placed.wait_until("the edit is seen", lambda now: now["observedGeneration"] == placed.generation, 30)
        assert (placed.state, placed.status["attempt"], len(placed.drivers())) == (state, attempt, 1)
        hold(placed, [])
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
        hold(placed, [])
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
