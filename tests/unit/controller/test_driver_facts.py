"""What pods and nodes say about a driver, in the words that users see."""

import pytest

from rekindle.api.application_status import FailureCause
from rekindle.controller.driver_facts import DriverPhase, driver_facts, vanished
from tests.unit.controller.world import RUNNING, SUCCEEDED, beside_a_sidecar, container, driver, failed, node

OUT_OF_SERVICE = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]
APPLICATION, INFRASTRUCTURE = FailureCause.APPLICATION, FailureCause.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({}, "DriverPending", "the driver's pod is starting"),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/4 nodes are available: 4 Insufficient memory.",
                    }
                ]
            },
            "Unschedulable",
            "the driver's pod is not scheduled: 0/4 nodes are available: 4 Insufficient memory.",
        ),
        (
            {"containerStatuses": container(waiting={"reason": "ImagePullBackOff", "message": 'image "x:1"'})},
            "ImagePullBackOff",
            'the driver\'s image cannot be pulled: image "x:1"',
        ),
        (
            {"containerStatuses": container(waiting={"reason": "CreateContainerConfigError", "message": "no secret"})},
            "CreateContainerConfigError",
            "the driver's container waits: CreateContainerConfigError: no secret",
        ),
        (
            {"containerStatuses": container(waiting={"reason": "ContainerCreating"})},
            "DriverPending",
            "the driver's pod is starting",
        ),
    ],
)
def test_a_driver_that_does_not_run_says_what_it_waits_for(status, reason, message):
    facts = driver_facts(driver(**status), node())
    assert (facts.phase, facts.reason, facts.message) == (DriverPhase.PENDING, reason, message)
    assert not facts.proven_gone


@pytest.mark.parametrize(
    ("status", "reason", "message", "cause"),
    [
        (failed(3), "Error", "the driver ended with exit code 3", APPLICATION),
        (failed(137), "Killed", "the driver was killed (SIGKILL, exit code 137)", INFRASTRUCTURE),
        (failed(143), "Killed", "the driver was killed (SIGTERM, exit code 143)", INFRASTRUCTURE),
        (
            failed(137, "OOMKilled"),
            "OOMKilled",
            "the driver used more memory than its limit (OOMKilled)",
            APPLICATION,
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            "Evicted",
            "the driver's pod failed: Evicted: The node was low on resource: memory.",
            INFRASTRUCTURE,
        ),
        (
            failed(
                143,
                conditions=[
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "EvictionByEvictionAPI",
                        "message": "Eviction API: evicting",
                    }
                ],
            ),
            "EvictionByEvictionAPI",
            "the driver was disrupted: EvictionByEvictionAPI: Eviction API: evicting",
            INFRASTRUCTURE,
        ),
        (
            {"phase": "Failed"},
            "DriverLost",
            "the driver's pod failed and tells of no container's end",
            INFRASTRUCTURE,
        ),
        (
            {
                "phase": "Failed",
                "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 7}}}],
            },
            "InitContainerFailed",
            "init container fetch ended with exit code 7",
            APPLICATION,
        ),
        (
            failed(128, "StartError"),
            "StartError",
            "the driver's container did not start",
            FailureCause.SUBMISSION,
        ),
    ],
)
def test_a_driver_that_failed_says_why_and_whose_fault_it_is(status, reason, message, cause):
    facts = driver_facts(driver(**status), node())
    assert facts.phase is DriverPhase.FAILED
    assert (facts.reason, facts.message, facts.cause) == (reason, message, cause)
    assert facts.proven_gone


def test_a_driver_ends_with_its_container_although_a_sidecar_goes_on():
    pod = driver(**beside_a_sidecar(terminated={"exitCode": 0}))
    facts = driver_facts(pod, node())
    assert (facts.phase, facts.exit_code, facts.proven_gone) == (DriverPhase.SUCCEEDED, 0, True)
    assert facts.is_lingering
    assert not driver_facts(driver(**SUCCEEDED), node()).is_lingering


def test_a_running_driver_is_not_proven_gone_while_its_node_is_silent():
    facts = driver_facts(driver(**RUNNING), node(ready="Unknown"))
    assert (facts.phase, facts.reason) == (DriverPhase.RUNNING, "NodeNotReady")
    assert facts.message == "the driver's node n1 does not answer"
    assert facts.silent_since == 1000
    assert not facts.proven_gone


@pytest.mark.parametrize(
    ("ready", "containers", "silent"), [("True", "True", False), ("False", "False", False), ("False", "True", True)]
)
def test_without_the_right_to_read_nodes_the_pod_tells_of_a_silent_node(ready, containers, silent):
    """The node controller says of a pod only that it is not ready; a kubelet would say it of its containers too."""
    said = [
        {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:20:00Z"},
        {"type": "ContainersReady", "status": containers},
    ]
    facts = driver_facts(driver(**RUNNING, conditions=said), None, node_known=False)
    assert facts.silent_since == (1200 if silent else None)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (None, "the driver's node n1 is gone"),
        (node(ready="Unknown", taints=OUT_OF_SERVICE), "the driver's node n1 is out of service"),
    ],
)
def test_a_driver_is_proven_gone_with_its_node(there, message):
    facts = driver_facts(driver(**RUNNING), there)
    assert (facts.phase, facts.reason, facts.message) == (DriverPhase.FAILED, "NodeLost", message)
    assert facts.proven_gone
    assert facts.cause is INFRASTRUCTURE


def test_without_the_right_to_read_nodes_no_driver_is_called_lost():
    facts = driver_facts(driver(**RUNNING), None, node_known=False)
    assert facts.phase is DriverPhase.RUNNING


def test_a_success_is_not_undone_by_its_node_going_later():
    assert driver_facts(driver(**SUCCEEDED), None).phase is DriverPhase.SUCCEEDED


@pytest.mark.parametrize(
    ("there", "is_proof"),
    [
        (None, True),
        (node(), True),
        (node(ready="Unknown", taints=OUT_OF_SERVICE), True),
        (node(ready="Unknown"), False),
    ],
)
def test_that_a_pod_is_not_there_proves_nothing_of_a_node_that_does_not_answer(there, is_proof):
    """Who deletes a pod by force only takes its object away."""
    facts = vanished("pi-driver", "u", there)
    assert (facts.phase, facts.proven_gone) == (DriverPhase.GONE, is_proof)
    assert ("its node n1 does not answer" in facts.message) is not is_proof


@pytest.mark.parametrize(
    ("there", "ended"),
    [
        (node(ready="Unknown", taints=OUT_OF_SERVICE, since=1500.0), 1500.0),
        (node(taints=OUT_OF_SERVICE), None),
        (None, None),
    ],
)
def test_a_driver_whose_node_is_lost_has_ended_when_that_fell_silent(there, ended):
    facts = driver_facts(driver(**RUNNING), there)
    assert (facts.reason, facts.ended) == ("NodeLost", ended)


@pytest.mark.parametrize("at", [None, 1234.0])
def test_a_driver_has_ended_when_its_container_did_if_that_is_told(at):
    assert driver_facts(driver(**failed(137, at=at)), node()).ended == at
