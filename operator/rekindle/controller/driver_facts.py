"""What a driver's pod and its node say about the driver: a pure reading of two objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rekindle.api.application_status import FailureCause
from rekindle.api.connector_report import WireSink
from rekindle.api.last_words import LastWords, decode_last_words
from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object, condition_of, uid_of
from rekindle.controller.submission.driver_pod import CONTAINER

_KILLED = {137: "SIGKILL", 143: "SIGTERM"}
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
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

    ended: float | None = None
    """When it ended, or its node fell silent, epoch seconds; None where it runs, and where nothing tells."""

    is_terminating: bool = False
    grace: float = 0.0
    """Seconds that it has to end once it is told to."""

    is_lingering: bool = False
    """The driver has ended, and other containers keep its pod running."""

    sinks: tuple[WireSink, ...] = ()
    """What it told of them at its end."""

    silent_since: float | None = None
    """Since when its node has not answered, epoch seconds: what it does is not known. None where the node answers."""

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
    facts = _ended(pod) or _never_placed(pod) or (_lost(pod, node) if lost else None) or _alive(pod, node)
    return _with_identity(facts, pod)


def vanished(name: str, uid: str, node: Object | None) -> DriverFacts:
    """A driver whose pod was there and is not any more; on a node that does not answer it may still run."""
    gone = replace(GONE, pod_name=name, pod_uid=uid)
    if node is None or _out_of_service(node) or (since := _node_silent_since(node)) is None:
        return gone
    message = f"{gone.message}, and its node {node['metadata']['name']} does not answer"
    return replace(gone, message=message, proven_gone=False, silent_since=since)


def is_well(node: Object) -> bool:
    """Whether the node answers and nobody has called it out of service."""
    return _node_silent_since(node) is None and not _out_of_service(node)


def _ended(pod: Object) -> DriverFacts | None:
    status = pod.get("status") or {}
    terminated = (_container(status).get("state") or {}).get("terminated")
    phase = status.get("phase")
    if terminated is None and phase not in ("Failed", "Succeeded"):
        return None
    exit_code = None if terminated is None else int(terminated["exitCode"])
    words = decode_last_words((terminated or {}).get("message") or "")
    if exit_code == 0 or (exit_code is None and phase == "Succeeded"):
        said = "the driver ended with exit code 0"
        return DriverFacts(DriverPhase.SUCCEEDED, "Completed", said, True, exit_code=0, sinks=words.sinks)
    reason, message, cause = _why(pod, terminated or {}, exit_code, words)
    at = (terminated or {}).get("finishedAt")
    ended = parse_time(at) if at else None
    return DriverFacts(
        DriverPhase.FAILED, reason, message, True, cause, exit_code=exit_code, ended=ended, sinks=words.sinks
    )


def _why(
    pod: Object, terminated: Mapping[str, Any], exit_code: int | None, words: LastWords
) -> tuple[str, str, FailureCause]:
    """Reason, message and cause of a driver that failed."""
    status, disrupted = pod.get("status") or {}, condition_of(pod, "DisruptionTarget")
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
        return "DriverLost", "the driver's pod failed and tells of no container's end", FailureCause.INFRASTRUCTURE
    if terminated.get("reason") == "OOMKilled":
        return "OOMKilled", "the driver used more memory than its limit (OOMKilled)", FailureCause.APPLICATION
    if exit_code in _KILLED:
        said = f"the driver was killed ({_KILLED[exit_code]}, exit code {exit_code})"
        return "Killed", said, FailureCause.INFRASTRUCTURE
    said = f": {words.said}" if words.said else ""
    if terminated.get("reason") in ("StartError", "ContainerCannotRun"):
        return "StartError", f"the driver's container did not start{said}", FailureCause.SUBMISSION
    return "Error", f"the driver ended with exit code {exit_code}{said}", FailureCause.APPLICATION


def _never_placed(pod: Object) -> DriverFacts | None:
    """A pod that is deleted is not given a node any more, however long a finalizer keeps it.

    Who may write its status may say that it runs, and is believed: one driver too few is better than two.
    """
    placed = bool(pod["spec"].get("nodeName")) or _runs(pod)
    return GONE if "deletionTimestamp" in pod["metadata"] and not placed else None


def _runs(pod: Object) -> bool:
    return (_container(pod.get("status") or {}).get("state") or {}).get("running") is not None


def _lost(pod: Object, node: Object | None) -> DriverFacts:
    name = pod["spec"]["nodeName"]
    what = "is gone" if node is None else "is out of service"
    message = f"the driver's node {name} {what}"
    ended = None if node is None else _node_silent_since(node)
    return DriverFacts(DriverPhase.FAILED, "NodeLost", message, True, FailureCause.INFRASTRUCTURE, ended=ended)


def _alive(pod: Object, node: Object | None) -> DriverFacts:
    since = _silent_since(pod, node)
    if not _runs(pod):
        reason, message = _waits_for(pod)
        return DriverFacts(DriverPhase.PENDING, reason, message, silent_since=since)
    if since is None:
        return DriverFacts(DriverPhase.RUNNING, "DriverRunning", "the driver runs")
    message = f"the driver's node {pod['spec']['nodeName']} does not answer"
    return DriverFacts(DriverPhase.RUNNING, "NodeNotReady", message, silent_since=since)


def _silent_since(pod: Object, node: Object | None) -> float | None:
    """By the node where it is known; else by its pod, of which Kubernetes then says that it is not ready."""
    if node is not None:
        return _node_silent_since(node)
    ready = condition_of(pod, "Ready")  # a kubelet that calls its pod not ready also says that its containers are not
    silent = ready.get("status") == "False" and condition_of(pod, "ContainersReady").get("status") == "True"
    if not silent or pod["spec"].get("readinessGates"):
        return None
    return parse_time(ready.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])


def _node_silent_since(node: Object) -> float | None:
    ready = condition_of(node, "Ready")
    if ready.get("status") == "True":
        return None
    return parse_time(ready.get("lastTransitionTime") or node["metadata"]["creationTimestamp"])


def _waits_for(pod: Object) -> tuple[str, str]:
    """Why a driver does not run yet."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, said, name = waiting.get("reason"), waiting.get("message"), container.get("name")
        whose = "the driver's" if name == CONTAINER else f"container {name}'s"
        if reason in _PULL:
            return reason, f"{whose} image cannot be pulled: {said or reason}"
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            what = "the driver's container" if name == CONTAINER else f"container {name}"
            return reason, f"{what} waits: {reason}: {said or 'no message'}"
    scheduled = condition_of(pod, "PodScheduled")
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
        grace=float(metadata.get("deletionGracePeriodSeconds") or 0),
        is_lingering=facts.has_ended and _is_kept_running(pod),
    )


def _is_kept_running(pod: Object) -> bool:
    """By sidecars, to which nobody says that Spark has ended."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in containers if one.get("name") != CONTAINER)


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of Spark's container: with sidecars a pod may run on when the driver has ended."""
    found = (item for item in status.get("containerStatuses") or () if item.get("name") == CONTAINER)
    return next(found, {})


def _out_of_service(node: Object) -> bool:
    return any(taint.get("key") == _OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
