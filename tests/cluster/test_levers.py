"""What an application stands on is taken away: an executor, a node, the API server; and its image was never there."""

import time

import pytest

from tests.cluster import operators
from tests.cluster.api import evict, get, kill, there, until
from tests.cluster.marks import beside, needs_nodes
from tests.cluster.node_blocks import MARKED, marks, reasons, told
from tests.kind import levers
from tests.kind.cluster import WORKERS
from tests.kind.kubectl import kubectl

pytestmark = [pytest.mark.timeout(600)]

SLOW = ("1000", "3", "8")
SOME = {"resources": {"requests": {"storage": "1Gi"}}}


@beside
def test_an_executor_that_is_evicted_or_killed_is_replaced_and_the_driver_goes_on(application):
    app = application("executor-killed", "pi.py", *SLOW).apply()
    app.wait_for_executor()
    [first] = app.executors()
    evict(first)
    second = until("a second executor", lambda: other_executor(app, first), 120, tell=app.tell)
    kill(app.namespace, second["metadata"]["name"])
    app.wait_for("COMPLETED", "FAILED", seconds=180)
    assert app.state == "COMPLETED", app.tell()
    assert app.status["attempt"] == 1
    assert "counted 1000" in app.log()


def other_executor(app, first):
    """One that runs."""
    pods = [pod for pod in app.executors() if pod["status"]["phase"] == "Running"]
    return next((pod for pod in pods if pod["metadata"]["uid"] != first["metadata"]["uid"]), None)


@needs_nodes
@pytest.mark.requirement("S3-8", "S3-13")
def test_an_api_server_that_is_away_ends_nothing_but_a_block_whose_end_has_come(application, ghost, block):
    app = application("api-away", "pi.py", "1000", "5", "8").apply()
    app.wait_for_executor()
    before = app.driver()["metadata"]["uid"]
    block("sooner", seconds=20)
    until("a marked node", lambda: marks() == {WORKERS[0]: MARKED}, 30, tell=told)
    later = block("later", ghost)
    until("one too many", lambda: reasons().get("later") == "TooManyBlocked", 10, tell=told)
    with levers.without_api_server():
        time.sleep(30)  # and half a minute more until it answers again
    until("the other node's turn", lambda: marks() == {ghost: MARKED}, 90, tell=told)
    assert there("nodeblock", "later", "default")["spec"]["end"] == later["spec"]["end"]
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert [pod["metadata"]["uid"] for pod in app.drivers()] == [before]


def operators_node() -> str:
    [pod] = operators.pods()
    return str(pod["spec"]["nodeName"])


@needs_nodes
def test_a_silent_node_starts_no_second_driver_and_a_dead_one_does(application):
    """Silent is not dead: the node may come back. That it is out of service somebody has to say.

    The operator dies with the node: it is made again on another, long before the node could be given up.
    """
    node = operators_node()
    app = application("node-killed", "pi.py", "1000", "4", "12")
    with levers.cordoned(*(worker for worker in WORKERS if worker != node)):
        app.apply().wait_for_executor()
    assert app.driver()["spec"]["nodeName"] == node
    with levers.killed(node):
        app.wait_until("the node is noticed", lambda status: status["applicationState"].get("errorMessage"), 240)
        assert operators_node() != node
        assert app.status["applicationState"]["errorMessage"] == f"the driver's node {node} does not answer"
        assert app.condition("DriverRunning")["status"] == "Unknown"
        time.sleep(15)  # longer than a restart would wait
        assert (app.state, len(app.drivers())) == ("RUNNING", 1)
        taint = "node.kubernetes.io/out-of-service=nodeshutdown"
        kubectl("taint", "node", node, f"{taint}:NoExecute")
        try:
            app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
            app.wait_for("COMPLETED", "FAILED", seconds=240)
        finally:
            kubectl("taint", "node", node, f"{taint}:NoExecute-")
    assert app.state == "COMPLETED", app.tell()
    assert "counted 1000" in app.log()
    assert f"the driver's node {node} is out of service" in [one["message"] for one in app.status["transitions"]]


@needs_nodes
def test_a_node_that_was_deleted_is_gone_for_good(application):
    """Who deletes a Node says that its machine is dead: nothing waits for proof any more."""
    app = application("node-deleted", "pi.py", "1000", "4", "12")
    with levers.cordoned(operators_node()):
        app.apply().wait_for_executor()
    node = app.driver()["spec"]["nodeName"]
    with levers.gone(node):
        app.wait_until("the second attempt", lambda status: status.get("attempt") == 2, 60)
        assert f"the driver's node {node} is gone" in [one["message"] for one in app.status["transitions"]]
        app.wait_for_executor()


@beside
@pytest.mark.parametrize(
    ("name", "spec", "reason", "words"),
    [
        ("no-image", {"image": "nowhere.invalid/none:1"}, ("ErrImagePull", "ImagePullBackOff"), "cannot be pulled"),
        (
            "no-room",
            {"driver": {"coreRequest": "900"}},
            ("Unschedulable",),
            "the driver's pod is not scheduled: 0/",
        ),
        (
            "no-secret",
            {"driver": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]}},
            ("CreateContainerConfigError",),
            'secret "none" not found',
        ),
        (
            "no-class",
            {"recovery": {"storage": {"claimTemplate": {"storageClassName": "none", **SOME}}}},
            ("Unschedulable",),
            "(class none, ReadWriteMany, 1Gi) of spec.recovery.storage is Pending; ",
        ),
    ],
)
def test_what_a_driver_waits_for_is_said_and_ends_the_attempt(application, name, spec, reason, words):
    never = {"restartPolicy": {"type": "Never"}, "timeouts": {"driverStart": "30s"}}
    app = application(name, "pi.py", **spec, **never).apply()
    app.wait_until("a reason", lambda status: app.condition("DriverRunning").get("reason") in reason, 60)
    assert words in app.status["applicationState"]["errorMessage"]
    app.wait_for("FAILED", seconds=60)
    assert app.reasons[-1] == "DriverStartTimedOut"
    until("no driver's pod", lambda: app.drivers() == [], 60)


@beside
def test_a_driver_that_fails_leaves_its_last_words(application):
    app = application("failing", "fail.py").apply()
    app.wait_for("FAILED", seconds=120)
    status = app.status
    assert status["applicationState"]["errorMessage"] == "the driver ended with exit code 1"
    assert status["driverInfo"]["exitCode"] == 1
    assert "ValueError: no such thing" in status["driverInfo"]["logTail"]
    notes = [one["note"] for one in app.events() if one["reason"] == "SparkApplicationFailed"]
    assert len(notes) == 1
    assert notes[0].startswith("attempt 1: the driver ended with exit code 1")


@beside
def test_a_missing_service_account_is_a_refused_submission(application):
    policy = {"type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 1}
    app = application("no-account", "pi.py", driver={"serviceAccount": "nobody"}, restartPolicy=policy).apply()
    app.wait_for("FAILED", seconds=60)
    message = app.status["applicationState"]["errorMessage"]
    assert 'serviceaccount "nobody" not found' in message
    assert message.endswith("all 1 retries after failed submissions are used up")


@beside
def test_suspend_edit_and_delete_while_it_runs(application):
    app = application("edited", "pi.py", "1000", "60", "4").apply()
    app.wait_for_executor()
    app.edit(suspend=True)
    app.wait_for("SUSPENDED", seconds=90)
    until("no driver's pod", lambda: app.drivers() == [], 60)
    app.edit(suspend=False, arguments=["10", "0", "2"])
    app.wait_for("COMPLETED", seconds=180)
    assert "counted 10" in app.log()
    uid = app.body["metadata"]["uid"]
    app.delete()
    left = f"rekindle.dev/application-uid={uid}"
    until(
        "nothing is left",
        lambda: not kubectl("get", "pods,services,configmaps", "-n", app.namespace, "-l", left, "-o", "name").strip(),
        60,
    )


@needs_nodes
def test_a_cluster_restored_from_an_old_snapshot_comes_to_an_end_with_one_driver(application):
    """What happened since is forgotten by the API server alone: kubelets, drivers and the operator remember."""
    old = application("restored", "pi.py", "1000", "4", "12").apply()
    old.wait_for_executor()
    levers.save_etcd()
    young = application("forgotten", "pi.py", "1000", "4", "12").apply()
    kill(old.namespace, old.driver()["metadata"]["name"])
    old.wait_until("the second attempt runs", lambda status: (status["attempt"], old.state) == (2, "RUNNING"))
    young.wait_for("RUNNING")
    levers.restore_etcd()
    assert get("sparkapplication", young.name, young.namespace) is None
    old.wait_for("COMPLETED", "FAILED", seconds=300)
    assert old.state == "COMPLETED", old.tell()
