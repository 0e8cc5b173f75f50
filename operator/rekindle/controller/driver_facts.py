"""What a driver's pod and its node say about the driver: a pure reading of two objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rekindle.api.application_status import FailureCause
from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object, uid_of
from rekindle.controller.submission.driver_pod import CONTAINER

_KILLED = {137: "SIGKILL", 143: "SIGTERM"}
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_INFRASTRUCTURE = FailureCause.INFRASTRUCTURE
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


class DriverPhase(StrEnum):
    """How far a driver is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    GONE = "Gone"
    """Its pod was there and is not any more."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """A driver as its pod and its node tell of it."""

    phase: DriverPhase
    reason: str
    """One word: ImagePullBackOff, Unschedulable, OOMKilled, Evicted, NodeLost, Error …"""

    message: str
    """The same in a sentence."""

    proven_gone: bool = False
    """Whether it cannot run any more: terminal, or its node is gone or declared out of service."""

    cause: FailureCause | None = None
    pod_name: str = ""
    pod_uid: str = ""
    node_name: str = ""
    exit_code: int | None = None
    created: float = 0.0
    """Epoch seconds."""

    is_terminating: bool = False
    is_unreachable: bool = False
    """Its node does not answer: what it does is not known."""

    @property
    def has_ended(self) -> bool:
        return self.phase in (DriverPhase.SUCCEEDED, DriverPhase.FAILED, DriverPhase.GONE)


GONE = DriverFacts(
    DriverPhase.GONE,
    "DriverPodGone",
    "the driver's pod was deleted",
    proven_gone=True,
    cause=FailureCause.INFRASTRUCTURE,
)


def driver_facts(pod: Object, node: Object | None, *, node_known: bool = True) -> DriverFacts:
    """Read a driver's pod. `node` is its node's object, None where there is none; `node_known` whether that is sure."""
    lost = node_known and bool(pod["spec"].get("nodeName")) and (node is None or _out_of_service(node))
    facts = _ended(pod) or (_lost(pod, node) if lost else None) or _alive(pod, node)
    return _with_identity(facts, pod)


def _ended(pod: Object) -> DriverFacts | None:
    status = pod.get("status") or {}
    terminated = (_container(status).get("state") or {}).get("terminated")
    phase = status.get("phase")
    if terminated is None and phase not in ("Failed", "Succeeded"):
        return None
    exit_code = None if terminated is None else int(terminated["exitCode"])
    if exit_code == 0 or (exit_code is None and phase == "Succeeded"):
        return DriverFacts(DriverPhase.SUCCEEDED, "Completed", "the driver ended with exit code 0", True, exit_code=0)
    reason, message, cause = _why(status, terminated or {}, exit_code)
    return DriverFacts(DriverPhase.FAILED, reason, message, True, cause, exit_code=exit_code)


def _why(
    status: Mapping[str, Any], terminated: Mapping[str, Any], exit_code: int | None
) -> tuple[str, str, FailureCause]:
    """Reason, message and cause of a driver that failed."""
    disrupted = _condition(status, "DisruptionTarget")
    if status.get("reason"):  # Evicted, NodeShutdown, OutOfcpu …: the kubelet's or the node controller's word
        said = status.get("message") or "no message"
        return status["reason"], f"the driver's pod failed: {status['reason']}: {said}", FailureCause.INFRASTRUCTURE
    if disrupted.get("status") == "True":
        said = disrupted.get("message") or "no message"
        reason = disrupted.get("reason") or "DisruptionTarget"
        return reason, f"the driver was disrupted: {reason}: {said}", FailureCause.INFRASTRUCTURE
    for one in status.get("initContainerStatuses") or ():
        if code := ((one.get("state") or {}).get("terminated") or {}).get("exitCode"):
            said = f"init container {one.get('name')} ended with exit code {code}"
            return "InitContainerFailed", said, FailureCause.APPLICATION
    if exit_code is None:
        return "DriverLost", "the driver's pod failed and tells of no container's end", _INFRASTRUCTURE
    if terminated.get("reason") == "OOMKilled":
        return "OOMKilled", "the driver used more memory than its limit (OOMKilled)", FailureCause.APPLICATION
    if exit_code in _KILLED:
        return "Killed", f"the driver was killed ({_KILLED[exit_code]}, exit code {exit_code})", _INFRASTRUCTURE
    said = f": {terminated['message']}" if terminated.get("message") else ""
    if terminated.get("reason") in ("StartError", "ContainerCannotRun"):
        return "StartError", f"the driver's container did not start{said}", FailureCause.SUBMISSION
    return "Error", f"the driver ended with exit code {exit_code}{said}", FailureCause.APPLICATION


def _lost(pod: Object, node: Object | None) -> DriverFacts:
    name = pod["spec"]["nodeName"]
    what = "is gone" if node is None else "is out of service"
    return DriverFacts(DriverPhase.FAILED, "NodeLost", f"the driver's node {name} {what}", True, _INFRASTRUCTURE)


def _alive(pod: Object, node: Object | None) -> DriverFacts:
    status = pod.get("status") or {}
    unreachable = node is not None and _condition(node.get("status") or {}, "Ready").get("status") != "True"
    if (_container(status).get("state") or {}).get("running") is None:
        reason, message = _waits_for(status)
        return DriverFacts(DriverPhase.PENDING, reason, message, is_unreachable=unreachable)
    if unreachable:
        name = pod["spec"]["nodeName"]
        return DriverFacts(
            DriverPhase.RUNNING, "NodeNotReady", f"the driver's node {name} does not answer", is_unreachable=True
        )
    return DriverFacts(DriverPhase.RUNNING, "DriverRunning", "the driver runs")


def _waits_for(status: Mapping[str, Any]) -> tuple[str, str]:
    """Why a driver does not run yet."""
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, said, name = waiting.get("reason"), waiting.get("message"), container.get("name")
        whose = "the driver's" if name == CONTAINER else f"container {name}'s"
        if reason in _PULL:
            return reason, f"{whose} image cannot be pulled: {said or reason}"
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            what = "the driver's container" if name == CONTAINER else f"container {name}"
            return reason, f"{what} waits: {reason}: {said or 'no message'}"
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        reason = scheduled.get("reason") or "Unschedulable"
        return reason, f"the driver's pod is not scheduled: {scheduled.get('message') or reason}"
    return "DriverPending", "the driver's pod is starting"


def _with_identity(facts: DriverFacts, pod: Object) -> DriverFacts:
    metadata = pod["metadata"]
    return replace(
        facts,
        pod_name=metadata["name"],
        pod_uid=uid_of(pod),
        node_name=pod["spec"].get("nodeName") or "",
        created=parse_time(metadata["creationTimestamp"]),
        is_terminating="deletionTimestamp" in metadata,
    )


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of Spark's container: with sidecars a pod may run on when the driver has ended."""
    found = (item for item in status.get("containerStatuses") or () if item.get("name") == CONTAINER)
    return next(found, {})


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((item for item in status.get("conditions") or () if item.get("type") == kind), {})


def _out_of_service(node: Object) -> bool:
    return any(taint.get("key") == _OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
