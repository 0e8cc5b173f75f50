"""The recovery of a pipeline in the life of its application: planned when the next driver begins, over when that tells.

Meanwhile the condition `Recovering` holds; the application has not failed (S6-21).
"""

from dataclasses import replace

from rekindle.api.application_status import MOST_COUNTED, ApplicationStatus, RecoveryStatus, RecoverySummary
from rekindle.api.job_report import JobReport, WireRecovery
from rekindle.api.storage import volume_of
from rekindle.controller.clock import parse_time
from rekindle.controller.decision import Decision, View
from rekindle.controller.recovery.planning import confirmed, job_of, planned, told
from rekindle.controller.status import with_condition

RECOVERING = "Recovering"

_GOES_ON = ("RerunStarted", "Resumed")
"""Why an attempt begins that finds what the one before has stored, as far as the operator knows of the same program.
That it is another one under the same spec, only its driver can tell."""

_NOTHING_KEPT = (
    "NothingKept",
    "the manifest names no place where results outlive a driver (spec.recovery.storage, or a store in a bucket): all "
    "of it runs again, unless the program is a pipeline that names one itself",
)
_NOT_TOLD = (
    "NotTold",
    "of no job it is known what is there: a pipeline goes on with what is stored, another program runs again",
)


def begin_recovery(view: View, before: ApplicationStatus, decision: Decision, reason: str) -> Decision:
    """`decision` begins the next attempt of what `before` tells of: with the plan, where there is something to recover.

    The plan is written before anything is done.
    """
    assert view.application is not None
    status = end_recovery(decision.status, view.now, reason)
    if reason not in _GOES_ON:
        return replace(decision, status=without_job(status))
    has_completed = bool(before.transitions) and before.transitions[-1].reason == "Completed"
    if has_completed or not (before.driver_info.pod_uid or before.recovery.job):  # nothing has been lost
        return replace(decision, status=status)
    emptied = _emptied(view, before)
    cause = _cause(view, before, emptied)
    if None in emptied:
        said = f"{cause}; the journal was on it: a pipeline begins anew"
        anew = with_condition(without_job(status), RECOVERING, "False", view.now, "ResultsLost", said)
        return replace(decision, status=anew).saying("Warning", "ResultsLost", said)
    if not view.application.spec.settings().recovery.outlives_driver:
        return replace(decision, status=with_condition(status, RECOVERING, "False", view.now, *_NOTHING_KEPT))
    plan = _plan(view, before, status.attempt, cause, emptied)
    if plan is None:
        return replace(decision, status=with_condition(status, RECOVERING, "False", view.now, *_NOT_TOLD))
    if reason == "RerunStarted":
        plan = _noticed(plan, before)
    status = _with_last(status, plan)
    status = with_condition(status, RECOVERING, "True", view.now, "RecoveryPlanned", f"planned: {told(plan)}")
    said = f"attempt {plan.attempt}: {told(plan)}; some {plan.expected_task_seconds} task seconds are left"
    return replace(decision, status=status).saying("Normal", "RecoveryPlanned", said)


def _plan(
    view: View, before: ApplicationStatus, attempt: int, cause: str, emptied: set[int | None]
) -> RecoverySummary | None:
    """None where nobody has told of a job that can be planned for."""
    assert view.application is not None
    job = _last_told(view, before)
    if job is None:
        return None
    settings = view.application.spec.settings()
    volumes = settings.recovery.volumes
    is_lost = (lambda subtask: volume_of(subtask, volumes) in emptied) if emptied else None
    return planned(job, settings.to_core(), attempt, cause, view.now, is_lost)


def _last_told(view: View, before: ApplicationStatus) -> JobReport | None:
    """The job as the lost driver told it last: while it lived the status was not written at each change. None after a
    success, which leaves no stages in the status."""
    if view.job is None or not before.recovery.stages:
        return job_of(before.recovery)
    return job_of(RecoveryStatus(job=view.job.job))


def _emptied(view: View, before: ApplicationStatus) -> set[int | None]:
    """The volumes of the store that had something on them, and are empty now."""
    return view.volumes.emptied(before.recovery.claims) if view.volumes is not None else set()


def _cause(view: View, before: ApplicationStatus, emptied: set[int | None]) -> str:
    """Why another attempt begins, and which volumes are gone."""
    cause = before.transitions[-1].message if before.transitions else ""
    says = view.volumes.says if view.volumes is not None else ""
    if emptied and not says:
        names = ", ".join(sorted("that of the journal" if one is None else str(one) for one in emptied))
        says = f"volumes of the store are new: {names}"
    return "; ".join(dict.fromkeys(part for part in (cause, says) if part))


def see_recovery(view: View, decision: Decision) -> Decision:
    """The driver that follows may have told what it did."""
    status, job = decision.status, view.job
    last = status.recovery.last
    if job is None or last is None or last.attempt != status.attempt:
        return decision
    if last.as_planned is not None:
        return _see_first_task(decision, last, job.recovery)
    if not job.is_told:
        return replace(decision, status=end_recovery(status, view.now, "NotTold"))
    if job.recovery is None:
        nothing = {"as_planned": False, "restarted": {}, "restarted_vertices": 0, "reused_partitions": 0}
        nothing["saved_task_seconds"] = 0
        over = last.model_copy(update=nothing)
        said = "the driver has found nothing to go on with, and begins anew"
    else:
        over = confirmed(last, job.recovery)
        said = told(over) if over.as_planned else f"{told(over)}; planned was: {told(last)}"
    status = with_condition(_with_last(status, over), RECOVERING, "False", view.now, "Recovered", said)
    recovered = replace(decision, status=status).saying("Normal", "JobRecovered", said)
    return _see_first_task(recovered, over, job.recovery)


def see_driver_runs(status: ApplicationStatus, now: float) -> ApplicationStatus:
    """The driver that follows runs now."""
    last = status.recovery.last
    if last is None or last.attempt != status.attempt or last.lost_at is None:
        return status
    return _with_last(status, last.model_copy(update={"driver_after_seconds": _since(last.lost_at, now)}))


def _see_first_task(decision: Decision, last: RecoverySummary, told: WireRecovery | None) -> Decision:
    """And so does its first task."""
    if last.lost_at is None or last.first_task_after_seconds is not None or told is None or told.first_task_at is None:
        return decision
    seconds = _since(last.lost_at, told.first_task_at)
    said = (
        f"the first task of attempt {last.attempt} began {seconds} s after the driver before was lost: noticed after "
        f"{last.noticed_after_seconds} s, the next driver ran after {last.driver_after_seconds} s"
    )
    after = last.model_copy(update={"first_task_after_seconds": seconds})
    return replace(decision, status=_with_last(decision.status, after)).saying("Normal", "TasksResumed", said)


def _noticed(plan: RecoverySummary, before: ApplicationStatus) -> RecoverySummary:
    """With when the driver was lost, where its pod or its node has told, and how long that was not known."""
    lost = before.driver_info.ended_at
    if lost is None or not before.transitions:
        return plan
    noticed = _since(lost, parse_time(before.transitions[-1].at))
    return plan.model_copy(update={"lost_at": lost, "noticed_after_seconds": noticed})


def _since(lost_at: str, moment: float) -> int:
    """Whole seconds, as pods tell them. Clocks of several machines are compared, so that it might be less than none."""
    return min(MOST_COUNTED, max(0, round(moment - parse_time(lost_at))))


def _with_last(status: ApplicationStatus, last: RecoverySummary) -> ApplicationStatus:
    return status.model_copy(update={"recovery": status.recovery.model_copy(update={"last": last})})


def end_recovery(status: ApplicationStatus, now: float, reason: str) -> ApplicationStatus:
    """Nobody recovers any more: the attempt that did is over, or will not tell."""
    condition = status.condition(RECOVERING)
    if condition is None or condition.status != "True":
        return status
    return with_condition(status, RECOVERING, "False", now, reason)


def without_job(status: ApplicationStatus) -> ApplicationStatus:
    """What follows begins anew: what there was of the job says nothing of it."""
    kept = RecoveryStatus(last=status.recovery.last)
    return status.model_copy(update={"recovery": kept, "sources": [], "sinks": []})
