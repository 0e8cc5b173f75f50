"""How an attempt begins, and how it ends: well, for good, or to be made once more."""

import math
from dataclasses import replace

from rekindle.api.application_status import ApplicationState, ApplicationStatus, FailureCause
from rekindle.controller.clock import format_time, parse_time
from rekindle.controller.decision import CleanUp, Decision, ForgetDrivers, Step, Submit, View
from rekindle.controller.driver_facts import DriverFacts, DriverPhase
from rekindle.controller.fencing import ending, is_gone, waiting_for_proof
from rekindle.controller.recovery.recovering import begin_recovery, end_recovery, see_recovery, without_job
from rekindle.controller.restarts import Again, after_failure, after_success
from rekindle.controller.status import enter, new_attempt, with_condition
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.speculation import overridden
from rekindle.controller.text import end_of

_LOOK_AGAIN = 5.0
"""Seconds after which what was made must be seen: no event may come."""

_TOLD_OF_LOG = 700
"""Bytes of a failed driver's log in the event: an event holds a thousand."""

_KEPT_DRIVERS = 3
"""Ended drivers of earlier attempts whose pods are kept for their logs."""


def begin(view: View, status: ApplicationStatus, reason: str, message: str) -> Decision:
    """Write the next attempt down; its objects are made once that is stored."""
    if not is_gone(view):
        return waiting_for_proof(view, status)
    if view.others:  # the status was lost, or is older than the objects: no second driver beside one that may run
        return waiting_for_proof(replace(view, driver=view.others[0]), status)
    names = AttemptNames(view.name, view.uid, max(status.attempt, view.last_attempt) + 1, view.next_word)
    begun = new_attempt(status, names, view.namespace, view.digest, view.now)
    begun = enter(begun, ApplicationState.SUBMITTED, view.now, reason, message)
    begun = with_condition(begun, "DriverRunning", "False", view.now, "Submitted")
    begun = with_condition(begun, "Succeeded", "Unknown", view.now, "Submitted")
    steps: list[Step] = [CleanUp(status.attempt)] if status.attempt else []
    if names.attempt > _KEPT_DRIVERS + 1:
        steps.append(ForgetDrivers(names.attempt - _KEPT_DRIVERS - 1))
    steps.append(Submit())
    said = f"attempt {names.attempt}: {message}; driver pod {names.driver_pod}"
    decision = Decision(begun, tuple(steps), delay=_LOOK_AGAIN).saying("Normal", "SparkApplicationSubmitted", said)
    assert view.application is not None
    if keys := overridden(view.application.spec):
        told = f"spec.sparkConf decides, and not spec.speculation, of {', '.join(keys)}"
        decision = decision.saying("Normal", "SpeculationOverridden", told)
    return begin_recovery(view, status, decision, reason)


def unmade(view: View, status: ApplicationStatus) -> Decision:
    """Its pod is not there yet: what is missing is made again and again, but not for ever."""
    assert view.application is not None
    limit = view.application.spec.timeouts.driver_start
    began = status.last_submission_attempt_time
    if began is None or parse_time(began) + limit > view.now:
        return Decision(status, (Submit(),), delay=_LOOK_AGAIN)
    what = f"the driver's pod could not be made within {limit:g} s (spec.timeouts.driverStart); the events tell why"
    return failed(view, status, FailureCause.SUBMISSION, "SubmissionTimedOut", what)


def ended(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    """It may have told something of its recovery in its last seconds."""
    last = see_recovery(view, Decision(status))
    decision = _ended(view, last.status, driver)
    return replace(decision, events=(*last.events, *decision.events))


def _ended(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    assert view.application is not None
    if driver.phase is not DriverPhase.SUCCEEDED:
        assert driver.cause is not None
        return failed(view, status, driver.cause, driver.reason, driver.message)
    status = with_condition(status, "DriverRunning", "False", view.now, "Completed", driver.message)
    following = after_success(view.application.spec.restart_policy)
    if isinstance(following, Again):
        return _again(view, without_job(status), following, "Completed", driver.message, ending(view))
    return completed(view, status, driver)


def completed(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    done = status.model_copy(update={"termination_time": format_time(view.now)})
    done = enter(done, ApplicationState.COMPLETED, view.now, "Completed", driver.message)
    done = with_condition(done, "Succeeded", "True", view.now, "Completed", driver.message)
    done = end_recovery(done, view.now, "Completed")
    return Decision(done, (*ending(view), CleanUp(done.attempt)), delay=0.0).saying(
        "Normal", "SparkApplicationCompleted", driver.message
    )


def failed(
    view: View, status: ApplicationStatus, cause: FailureCause, reason: str, message: str, *, at_once: bool = False
) -> Decision:
    """An attempt is over. Its driver, if it may still run, is told to end."""
    assert view.application is not None
    ran = view.now - parse_time(status.running_since) if status.running_since else 0.0
    following = after_failure(view.application.spec.restart_policy, cause, status.restarts, ran)
    status = with_log(view, status)
    status = with_condition(status, "DriverRunning", "False", view.now, reason, message)
    steps = ending(view, at_once=at_once)
    if isinstance(following, Again):
        return _again(view, status, following, reason, message, steps)
    said = f"{message}; {following.why}" if following.why else message
    over = status.model_copy(update={"termination_time": format_time(view.now)})
    over = enter(over, ApplicationState.FAILED, view.now, reason, said, error=said)
    over = with_condition(over, "Succeeded", "False", view.now, reason, said)
    over = end_recovery(over, view.now, reason)
    tail = f"\n{end_of(view.log_tail, _TOLD_OF_LOG)}" if view.log_tail else ""
    return Decision(over, (*steps, CleanUp(over.attempt)), delay=0.0).saying(
        "Warning", "SparkApplicationFailed", f"attempt {over.attempt}: {said}{tail}"
    )


def _again(
    view: View,
    status: ApplicationStatus,
    following: Again,
    reason: str,
    message: str,
    steps: tuple[Step, ...] = (),
) -> Decision:
    at = math.ceil(view.now + following.delay)  # times are stored in whole seconds
    waiting = status.model_copy(update={"next_attempt_time": format_time(at), "restarts": following.counts})
    error = "" if reason == "Completed" else message
    waiting = end_recovery(waiting, view.now, reason)
    waiting = enter(waiting, ApplicationState.PENDING_RERUN, view.now, reason, message, error=error)
    said = f"attempt {status.attempt}: {message}; the next begins in {following.delay:g} s"
    type_ = "Warning" if error else "Normal"
    return Decision(waiting, (*steps, CleanUp(status.attempt)), delay=at - view.now).saying(
        type_, "SparkApplicationPendingRerun", said
    )


def with_log(view: View, status: ApplicationStatus) -> ApplicationStatus:
    info = status.driver_info.model_copy(update={"log_tail": view.log_tail})
    return status.model_copy(update={"driver_info": info}) if view.log_tail else status
