"""The recovery of a pipeline in the life of its application: planned when the next driver begins, over when that tells.

Meanwhile the condition `Recovering` holds; the application has not failed (S6-21).
"""

from dataclasses import replace

from rekindle.api.application_status import ApplicationStatus, RecoveryStatus
from rekindle.api.job_report import JobReport
from rekindle.api.storage import volume_of
from rekindle.controller.decision import Decision, View
from rekindle.controller.recovery.planning import confirmed, job_of, planned, told
from rekindle.controller.status import with_condition

RECOVERING = "Recovering"

_GOES_ON = ("RerunStarted", "Resumed")
"""Why an attempt begins that finds what the one before has stored, of the same program."""

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
    settings = view.application.spec.settings()
    emptied = _emptied(view, before)
    cause = _cause(view, before, emptied)
    if None in emptied:
        said = f"{cause}; the journal was on it: a pipeline begins anew"
        anew = with_condition(without_job(status), RECOVERING, "False", view.now, "ResultsLost", said)
        return replace(decision, status=anew).saying("Warning", "ResultsLost", said)
    job, volumes = _last_told(view, before) if settings.recovery.outlives_driver else None, settings.recovery.volumes
    plan = None
    if job is not None:
        core = settings.to_core()
        is_lost = (lambda subtask: volume_of(subtask, volumes) in emptied) if emptied else None
        plan = planned(job, core, status.attempt, cause, view.now, is_lost)
    if plan is None:
        why = _NOT_TOLD if settings.recovery.outlives_driver else _NOTHING_KEPT
        return replace(decision, status=with_condition(status, RECOVERING, "False", view.now, *why))
    status = status.model_copy(update={"recovery": status.recovery.model_copy(update={"last": plan})})
    status = with_condition(status, RECOVERING, "True", view.now, "RecoveryPlanned", f"planned: {told(plan)}")
    said = f"attempt {plan.attempt}: {told(plan)}; some {plan.expected_task_seconds} task seconds are left"
    return replace(decision, status=status).saying("Normal", "RecoveryPlanned", said)


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
    if job is None or last is None or last.attempt != status.attempt or last.as_planned is not None:
        return decision
    if not job.is_told:
        return replace(decision, status=end_recovery(status, view.now, "NotTold"))
    if job.recovery is None:
        nothing = {"as_planned": False, "restarted": {}, "restarted_vertices": 0, "reused_partitions": 0}
        over = last.model_copy(update=nothing)
        said = "the driver has found nothing to go on with, and begins anew"
    else:
        over = confirmed(last, job.recovery)
        said = told(over) if over.as_planned else f"{told(over)}; planned was: {told(last)}"
    status = status.model_copy(update={"recovery": status.recovery.model_copy(update={"last": over})})
    status = with_condition(status, RECOVERING, "False", view.now, "Recovered", said)
    return replace(decision, status=status).saying("Normal", "JobRecovered", said)


def end_recovery(status: ApplicationStatus, now: float, reason: str) -> ApplicationStatus:
    """Nobody recovers any more: the attempt that did is over, or will not tell."""
    condition = status.condition(RECOVERING)
    if condition is None or condition.status != "True":
        return status
    return with_condition(status, RECOVERING, "False", now, reason)


def without_job(status: ApplicationStatus) -> ApplicationStatus:
    """What follows begins anew: what there was of the job says nothing of it."""
    return status.model_copy(update={"recovery": RecoveryStatus(last=status.recovery.last)})
