"""The executor pods of a running driver, as decisions about slow nodes take them."""

from collections.abc import Iterable
from dataclasses import dataclass

from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object, labels_of, uid_of
from rekindle.controller.speculation.clone import EXECUTOR_ID, LABEL_DUPLICATE

_PROFILE = "spark-exec-resourceprofile-id"

DRAIN_SECONDS = 3600
"""For so long the tasks of a drained executor may go on; Kubernetes ends it then."""

_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor's pod."""

    id: int
    pod: str
    uid: str
    node: str
    """Empty where it has none yet."""

    is_running: bool
    is_terminating: bool
    is_duplicate: bool
    profile: str = "0"
    """The id of its resource profile."""

    grace: int = 0
    """Seconds that it has to end, of one that is terminating."""

    told_at: float = 0.0
    """When it was told to end (epoch seconds), of one that is terminating."""

    @property
    def is_live(self) -> bool:
        """Whether it runs or will, and takes tasks."""
        return not self.is_terminating

    @property
    def is_drained(self) -> bool:
        """Whether the operator has told it to take no more tasks; drivers give less time."""
        return self.is_terminating and self.grace >= DRAIN_SECONDS


def executors_of(pods: Iterable[Object]) -> list[Executor]:
    """Those of `pods` that have not ended, by id; a pod whose id is no number is none of Spark's."""
    found = [_executor(pod) for pod in pods if _has_id(pod) and _phase(pod) in ("Pending", "Running")]
    return sorted(found, key=lambda one: one.id)


def _has_id(pod: Object) -> bool:
    said = labels_of(pod).get(EXECUTOR_ID, "")
    return said.isdecimal() and len(said) <= _MOST_DIGITS


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _executor(pod: Object) -> Executor:
    ends, grace = pod["metadata"].get("deletionTimestamp"), int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    return Executor(
        id=int(labels_of(pod)[EXECUTOR_ID]),
        pod=str(pod["metadata"]["name"]),
        uid=uid_of(pod),
        node=str(pod["spec"].get("nodeName") or ""),
        is_running=_phase(pod) == "Running",
        is_terminating="deletionTimestamp" in pod["metadata"],
        is_duplicate=LABEL_DUPLICATE in labels_of(pod),
        profile=labels_of(pod).get(_PROFILE, "0"),
        grace=grace,
        told_at=parse_time(ends) - grace if ends else 0.0,
    )
