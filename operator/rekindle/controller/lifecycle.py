"""What is done next for an application: state, spec and facts in, the next status and steps out. No I/O, no clock.

Exactly one driver: an attempt is begun by writing it into the status, before any object of it is made; its
objects have names made from it, so that making them again is finding them; and the next attempt begins only when
the driver of this one is proven gone (its pod terminal, or its node gone or declared out of service).
"""

import math
from collections.abc import Callable
from dataclasses import replace

from rekindle.api.application_status import ApplicationState, ApplicationStatus, RestartCounts
from rekindle.controller.attempts import begin, completed, with_log
from rekindle.controller.clock import format_time, parse_time
from rekindle.controller.decision import (
    CleanUp,
    Decision,
    DeleteApplication,
    DeleteDriver,
    ReleaseFinalizer,
    View,
)
from rekindle.controller.driver_facts import DriverPhase
from rekindle.controller.edits import is_edited, suspend
from rekindle.controller.fencing import ending, is_gone, waiting_for_proof
from rekindle.controller.live_attempt import running, submitted
from rekindle.controller.recovery.connector_facts import at_their_end
from rekindle.controller.recovery.job_facts import with_facts
from rekindle.controller.recovery.recovering import end_recovery
from rekindle.controller.recovery.volumes import drop_store, with_volumes
from rekindle.controller.restarts import longest_wait
from rekindle.controller.sink_events import saying_sinks
from rekindle.controller.status import enter, says_the_same, with_condition, with_driver

State = ApplicationState

_DELETION_PATIENCE = 60.0
"""Seconds after which a deleted application goes although its driver is not proven gone."""


def decide(view: View) -> Decision:
    """The decision for the application as it is now."""
    decision = _decided(view)
    if view.status_problem:
        said = f"the stored status cannot be read, and is made anew from the pods: {view.status_problem}"
        decision = decision.saying("Warning", "StatusUnreadable", said)
    return decision


def _decided(view: View) -> Decision:
    status = view.status.model_copy(update={"observed_generation": view.generation})
    if view.digest == status.submitted_digest:
        status = status.model_copy(update={"submitted_generation": view.generation})
    if view.deleted_at is not None:
        return _deleted(view, status)
    if view.application is None:
        return _unusable(view, status)
    status = with_condition(status, "Accepted", "True", view.now, "SpecAccepted")
    state = status.application_state.state
    if state in (State.SUBMITTED, State.RUNNING):
        status = _with_facts(view, status)
    decision = saying_sinks(view.status.sinks, with_volumes(view, _STEPS[state](view, status)))
    return _without_strays(view, decision)


def _without_strays(view: View, decision: Decision) -> Decision:
    """A driver of another attempt ends: an operator that had lost the Lease may have asked for it long ago."""
    for stray in view.others:
        step = DeleteDriver(stray.pod_name, stray.pod_uid)
        if not stray.is_terminating and step not in decision.steps:
            said = f"driver pod {stray.pod_name} is not of attempt {decision.status.attempt}: it is deleted"
            decision = replace(decision, steps=(*decision.steps, step)).saying("Warning", "StrayDriver", said)
    return decision


def _new(view: View, status: ApplicationStatus) -> Decision:
    assert view.application is not None
    if view.application.spec.suspend:
        suspended = enter(status, State.SUSPENDED, view.now, "Suspended", "spec.suspend is true")
        return Decision(suspended).saying("Normal", "SparkApplicationSuspended", "not submitted: spec.suspend is true")
    return begin(view, status, "SubmissionStarted", "the first attempt begins")


def _pending_rerun(view: View, status: ApplicationStatus) -> Decision:
    assert view.application is not None
    if view.application.spec.suspend:
        return suspend(view, status)
    if not is_gone(view):
        return waiting_for_proof(view, status)
    if is_edited(view, status):
        fresh = status.model_copy(update={"restarts": RestartCounts()})
        return begin(view, fresh, "SpecEdited", "the edited spec is submitted")
    left = parse_time(status.next_attempt_time) - view.now if status.next_attempt_time else 0.0
    longest = longest_wait(view.application.spec.restart_policy)
    if left > longest:  # somebody has changed it, or the clock that it was written by was wrong
        left, due = longest, {"next_attempt_time": format_time(view.now + longest)}
        status = status.model_copy(update=due)
    if left > 0:
        return Decision(status, delay=left)
    last = status.transitions[-1].message if status.transitions else "a rerun"
    return begin(view, status, "RerunStarted", f"a rerun after: {last}")


def _invalidating(view: View, status: ApplicationStatus) -> Decision:
    if not is_gone(view):
        return waiting_for_proof(view, status)
    return begin(view, status, "SpecEdited", "the edited spec is submitted")


def _suspending(view: View, status: ApplicationStatus) -> Decision:
    if not is_gone(view):
        return waiting_for_proof(view, status)
    status = with_condition(status, "DriverRunning", "False", view.now, "Suspended")
    suspended = enter(status, State.SUSPENDED, view.now, "Suspended", "the driver is gone")
    return Decision(suspended, (CleanUp(status.attempt),)).saying(
        "Normal", "SparkApplicationSuspended", "suspended: the driver is gone"
    )


def _suspended(view: View, status: ApplicationStatus) -> Decision:
    assert view.application is not None
    if view.application.spec.suspend:
        return Decision(status)
    if is_edited(view, status):
        return begin(view, status, "SpecEdited", "the edited spec is submitted")
    return begin(view, status, "Resumed", "spec.suspend is false again")


def _over(view: View, status: ApplicationStatus) -> Decision:
    """COMPLETED or FAILED: an edit begins anew, and the time to live ends it."""
    assert view.application is not None
    if not is_gone(view):
        if is_edited(view, status):
            return waiting_for_proof(view, status)
        return Decision(status, ending(view), delay=30.0)
    if is_edited(view, status) and not view.application.spec.suspend:
        fresh = status.model_copy(update={"restarts": RestartCounts(), "submission_attempts": 0})
        return begin(view, fresh, "SpecEdited", "the edited spec is submitted")
    ttl = view.application.spec.time_to_live_seconds
    left = math.inf if ttl is None or status.termination_time is None else _left(status.termination_time, ttl, view.now)
    if left > 0:
        decision = Decision(status, ending(view), delay=None if math.isinf(left) else left)
        return drop_store(view, decision) if status.application_state.state is State.COMPLETED else decision
    return Decision(status, (DeleteApplication(),)).saying(
        "Normal", "SparkApplicationExpired", f"deleted: it ended {ttl} s ago (spec.timeToLiveSeconds)"
    )


def _left(ended: str, ttl: int, now: float) -> float:
    return parse_time(ended) + ttl - now


def _unusable(view: View, status: ApplicationStatus) -> Decision:
    """The spec cannot be used: what runs goes on, what does not run does not start; both are said."""
    what = "; ".join(view.problems)
    before = status.condition("Accepted")
    status = with_condition(status, "Accepted", "False", view.now, "SpecInvalid", what)
    known = says_the_same(before, status.condition("Accepted"))
    state = status.application_state.state
    if state in (State.SUBMITTED, State.RUNNING):
        status = _with_facts(view, status)
        if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
            return completed(view, status, view.driver)
        if view.suspend:
            return suspend(view, status)
        if view.driver is not None and view.driver.has_ended:
            what = f"{view.driver.message}; and the spec cannot be used: {what}"
    decision = Decision(status)
    if not state.is_terminal and (state is State.NEW or is_gone(view)):
        status = status.model_copy(update={"termination_time": format_time(view.now), "submitted_digest": view.digest})
        status = enter(with_log(view, status), State.FAILED, view.now, "SpecInvalid", what, error=what)
        status = with_condition(status, "Succeeded", "False", view.now, "SpecInvalid", what)
        status = end_recovery(status, view.now, "SpecInvalid")
        if status.attempt:
            status = with_condition(status, "DriverRunning", "False", view.now, "SpecInvalid")
        decision = Decision(status, (CleanUp(status.attempt),) if status.attempt else ())
    elif state in (State.INVALIDATING, State.SUSPENDING, State.PENDING_RERUN):
        decision = Decision(status, ending(view), delay=5.0)
    return decision if known else decision.saying("Warning", "SparkApplicationInvalid", what)


def _deleted(view: View, status: ApplicationStatus) -> Decision:
    """The driver ends first, but a node that is gone holds nobody up for ever."""
    assert view.deleted_at is not None
    if is_gone(view):
        return Decision(status, (ReleaseFinalizer(),))
    driver = view.driver
    assert driver is not None
    grace = driver.grace if driver.silent_since is None else 0.0
    left = view.deleted_at + _DELETION_PATIENCE + grace - view.now
    if left <= 0:
        what = f"deleted although driver pod {driver.pod_name} is not proven gone: {driver.message}"
        return Decision(status, (ReleaseFinalizer(),)).saying("Warning", "DriverNotProvenGone", what)
    return Decision(status, ending(view), delay=min(left, 5.0))


def _with_facts(view: View, status: ApplicationStatus) -> ApplicationStatus:
    if view.driver is not None:
        status = with_driver(status, view.driver)
    update: dict[str, object] = {"executors": view.executors.counts, "executor_state": view.executors.states}
    if view.speculation is not None:
        update["speculation"] = view.speculation
    if view.job is not None:
        update["recovery"] = with_facts(status.recovery, view.job, view.volumes)
        update |= {"sources": list(view.job.sources), "sinks": list(view.job.sinks)}
    status = status.model_copy(update=update)
    if view.driver is None or not view.driver.sinks:
        return status
    return status.model_copy(update={"sinks": at_their_end(status.sinks, view.driver.sinks, view.driver.message)})


_STEPS: dict[State, Callable[[View, ApplicationStatus], Decision]] = {
    State.NEW: _new,
    State.SUBMITTED: submitted,
    State.RUNNING: running,
    State.PENDING_RERUN: _pending_rerun,
    State.INVALIDATING: _invalidating,
    State.SUSPENDING: _suspending,
    State.SUSPENDED: _suspended,
    State.COMPLETED: _over,
    State.FAILED: _over,
}
