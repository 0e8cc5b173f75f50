"""How a status changes: pure functions from one ApplicationStatus to the next."""

from typing import Any, Literal

from rekindle.api.application_status import (
    ApplicationState,
    ApplicationStatus,
    Condition,
    DriverInfo,
    ExecutorCounts,
    SpeculationStatus,
    StateReport,
    Transition,
)
from rekindle.controller.clock import format_time
from rekindle.controller.driver_facts import DriverFacts
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.properties import UI_PORT
from rekindle.controller.text import shortened

_MOST_TRANSITIONS = 32
_MOST_MESSAGE = 2000
_MOST_REASON = 128

ConditionStatus = Literal["True", "False", "Unknown"]


def enter(
    status: ApplicationStatus, state: ApplicationState, now: float, reason: str, message: str = "", *, error: str = ""
) -> ApplicationStatus:
    """`status` in `state`, with the change in its history; `error` says what is wrong, empty that nothing is."""
    entered = Transition(
        state=state,
        at=format_time(now),
        attempt=status.attempt,
        reason=shortened(reason, _MOST_REASON),
        message=shortened(message, _MOST_MESSAGE),
    )
    if state not in (ApplicationState.SUBMITTED, ApplicationState.RUNNING):
        status = _without_executors(status)
    return status.model_copy(
        update={
            "application_state": StateReport(state=state, error_message=shortened(error, _MOST_MESSAGE)),
            "transitions": [*status.transitions, entered][-_MOST_TRANSITIONS:],
        }
    )


def _without_executors(status: ApplicationStatus) -> ApplicationStatus:
    """None runs for an attempt that is over."""
    ended = {name: state for name, state in status.executor_state.items() if state in ("COMPLETED", "FAILED")}
    counts = status.executors.model_copy(update={"running": 0, "pending": 0})
    before = status.speculation
    speculation = SpeculationStatus(
        num_effective_speculative_executions=before.num_effective_speculative_executions,
        wasted_task_seconds=before.wasted_task_seconds,
    )
    update = {"executors": counts, "executor_state": ended, "speculation": speculation}
    return status.model_copy(update=update)


def with_error(status: ApplicationStatus, message: str) -> ApplicationStatus:
    """`status` in the same state, with `message` as what is wrong."""
    report = status.application_state.model_copy(update={"error_message": shortened(message, _MOST_MESSAGE)})
    return status.model_copy(update={"application_state": report})


def with_condition(
    status: ApplicationStatus, kind: str, holds: ConditionStatus, now: float, reason: str, message: str = ""
) -> ApplicationStatus:
    """`status` with the condition of that type; its time changes only when it comes to hold or ceases to."""
    before = status.condition(kind)
    changed = before is None or before.status != holds
    condition = Condition(
        type=kind,
        status=holds,
        reason=shortened(reason, _MOST_REASON),
        message=shortened(message, _MOST_MESSAGE),
        last_transition_time=format_time(now) if before is None or changed else before.last_transition_time,
        observed_generation=status.observed_generation,
    )
    others = [one for one in status.conditions if one.type != kind]
    return status.model_copy(update={"conditions": sorted([*others, condition], key=lambda one: one.type)})


def with_driver(status: ApplicationStatus, facts: DriverFacts) -> ApplicationStatus:
    """`status` with what is known of the driver of its attempt."""
    known = status.driver_info.ended_at if facts.has_ended else None  # a pod that is gone does not tell any more
    ended = facts.ended if facts.ended is not None else facts.silent_since
    info = status.driver_info.model_copy(
        update={
            "ended_at": format_time(ended) if ended is not None else known,
            "pod_uid": facts.pod_uid or status.driver_info.pod_uid,
            "node_name": facts.node_name or status.driver_info.node_name,
            "exit_code": facts.exit_code if facts.exit_code is not None else status.driver_info.exit_code,
        }
    )
    return status.model_copy(update={"driver_info": info})


def says_the_same(before: Condition | None, after: Condition | None) -> bool:
    """As stored: long texts are cut there."""
    return before is not None and after is not None and (before.status, before.message) == (after.status, after.message)


def new_attempt(
    status: ApplicationStatus, names: AttemptNames, namespace: str, digest: str, now: float
) -> ApplicationStatus:
    """`status` at the beginning of the attempt of `names`: nothing of the one before is left in it."""
    return status.model_copy(
        update={
            "attempt": names.attempt,
            "attempt_word": names.word,
            "spark_application_id": names.spark_application_id,
            "submission_id": names.submission_id,
            "submitted_generation": status.observed_generation,
            "submitted_digest": digest,
            "running_since": None,
            "submission_attempts": status.submission_attempts + 1,
            "last_submission_attempt_time": format_time(now),
            "termination_time": None,
            "next_attempt_time": None,
            "executor_state": {},
            "executors": ExecutorCounts(),
            "driver_info": DriverInfo(
                pod_name=names.driver_pod,
                web_ui_service_name=names.service,
                web_ui_port=UI_PORT,
                web_ui_address=f"{names.service}.{namespace}.svc:{UI_PORT}",
            ),
        }
    )


def as_patch(before: dict[str, Any] | None, after: ApplicationStatus) -> dict[str, Any] | None:
    """What turns the stored status into `after` by a merge patch; None where they are equal."""
    wanted = after.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return merge_patch(before or {}, wanted) or None


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396: the keys that differ; those that are not wanted any more are null."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        there = before.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            if inner := merge_patch(there, value):
                patch[key] = inner
        elif there != value:
            patch[key] = value
    return patch
