"""What the executor pods of an attempt say, counted; a list of them in the status is bounded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.api.application_status import ExecutorCounts
from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object, condition_of

_MOST_NAMED = 100
_STATES = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"}
_RUNNING_FIRST = {"RUNNING": 0, "PENDING": 1, "FAILED": 2, "COMPLETED": 3}


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """The executors of one attempt."""

    counts: ExecutorCounts = field(default_factory=ExecutorCounts)
    states: dict[str, str] = field(default_factory=dict)
    """Pod to state; at most a hundred."""

    able: int = 0
    """How many run and are not told to end."""

    oldest_pending: float | None = None
    """When the oldest executor that does not run was made, epoch seconds."""

    waits_for: str = ""
    """Why the oldest of them does not run."""


def executor_facts(pods: Iterable[Object], ran_before: bool) -> ExecutorFacts:
    """Count `pods`. `ran_before`: an executor of the attempt has been seen running earlier."""
    found = sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    states = {pod["metadata"]["name"]: _STATES.get(_phase(pod), "UNKNOWN") for pod in found}
    tally = {name: sum(1 for state in states.values() if state == name) for name in _RUNNING_FIRST}
    pending = [pod for pod in found if _phase(pod) == "Pending"]
    newest_first = list(states.items())[::-1]
    kept = sorted(newest_first, key=lambda item: _RUNNING_FIRST.get(item[1], 9))[:_MOST_NAMED]
    return ExecutorFacts(
        counts=ExecutorCounts(
            pending=tally["PENDING"],
            running=tally["RUNNING"],
            succeeded=tally["COMPLETED"],
            failed=tally["FAILED"],
            ever_started=ran_before or any(map(_has_run, found)),
        ),
        states=dict(sorted(kept)),
        able=sum(_phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in found),
        oldest_pending=parse_time(pending[0]["metadata"]["creationTimestamp"]) if pending else None,
        waits_for=_waits_for(pending[0]) if pending else "",
    )


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _has_run(pod: Object) -> bool:
    """Not one that a kubelet refused for want of room: that has failed, too, and no container of it."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return _phase(pod) in ("Running", "Succeeded") or any("terminated" in (one.get("state") or {}) for one in statuses)


def _waits_for(pod: Object) -> str:
    status: Mapping[str, Any] = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for container in status.get("containerStatuses") or ():
        if (waiting := (container.get("state") or {}).get("waiting")) and waiting.get("reason"):
            return f"{name}: {waiting['reason']}: {waiting.get('message') or 'no message'}"
    if (scheduled := condition_of(pod, "PodScheduled")).get("status") == "False":
        return f"{name}: {scheduled.get('reason')}: {scheduled.get('message')}"
    return f"{name}: starting"
