"""What is done next for an application: state, spec and facts in, the next status and steps out. No I/O, no clock.

Exactly one driver: an attempt is begun by writing it into the status, before any object of it is made; its
objects have names made from it, so that making them again is finding them; and the next attempt begins only when
the driver of this one is proven gone (its pod terminal, or its node gone or declared out of service).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rekindle.api.application_status import ApplicationState, ApplicationStatus, Condition, FailureCause, RestartCounts
from rekindle.api.spark_application import SparkApplication
from rekindle.controller.clock import format_time, parse_time
from rekindle.controller.driver_facts import GONE, DriverFacts, DriverPhase
from rekindle.controller.executor_facts import ExecutorFacts
from rekindle.controller.restarts import Again, after_failure, after_success
from rekindle.controller.status import enter, new_attempt, with_condition, with_driver, with_error
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.text import end_of

State = ApplicationState

_LOOK_AGAIN = 5.0
"""Seconds after which what was made must be seen: no event may come."""

_DELETION_PATIENCE = 60.0
"""Seconds after which a deleted application goes although its driver is not proven gone."""

_TOLD_OF_LOG = 700
"""Bytes of a failed driver's log in the event: an event holds a thousand."""

_KEPT_DRIVERS = 3
"""Ended drivers of earlier attempts whose pods are kept for their logs."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Make the objects of the current attempt, those that are not there."""


@dataclass(frozen=True, slots=True)
class DeleteDriver:
    """Delete the driver's pod; `at_once` without waiting for a kubelet that will not answer any more."""

    pod_name: str
    pod_uid: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Delete what an ended attempt leaves: its executors, service and ConfigMap."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ForgetDrivers:
    """Delete the pods of ended drivers of attempts up to this one."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ReleaseFinalizer:
    """Let the application go."""


@dataclass(frozen=True, slots=True)
class DeleteApplication:
    """Its time to live is over."""


Step = Submit | DeleteDriver | CleanUp | ForgetDrivers | ReleaseFinalizer | DeleteApplication


@dataclass(frozen=True, slots=True)
class Said:
    """An event: `Normal` or `Warning`, a reason in one word and a message."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision is made of."""

    name: str
    namespace: str
    uid: str
    generation: int
    status: ApplicationStatus
    """As it is stored; as if there were none where what is stored cannot be read."""

    application: SparkApplication | None
    """None where the spec cannot be used; then `problems` says why."""

    problems: Sequence[str] = ()
    digest: str = ""
    """Of the part of the spec that a running attempt depends on."""

    driver: DriverFacts | None = None
    """The driver of the current attempt; None where its pod is not there."""

    others: Sequence[DriverFacts] = ()
    """Drivers of other attempts that are not proven gone."""

    last_attempt: int = 0
    """The last attempt that left a driver's pod, whatever the status knows of it."""

    status_problem: str = ""
    """Why the stored status cannot be read."""

    suspend: bool = False
    """`spec.suspend`, also of a spec that cannot be used."""

    executors: ExecutorFacts = field(default_factory=ExecutorFacts)
    submission_error: str = ""
    """What the API server answered when the attempt's objects were made; empty if nothing was wrong."""

    log_tail: str = ""
    deleted_at: float | None = None
    now: float = 0.0
    next_word: str = ""
    """What nobody can guess, for the names of the next attempt."""

    def names(self, attempt: int) -> AttemptNames:
        """Of the present attempt."""
        return AttemptNames(self.name, self.uid, attempt, self.status.attempt_word)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next status, what to do once it is written, what to say, and when to look again (seconds)."""

    status: ApplicationStatus
    steps: tuple[Step, ...] = ()
    events: tuple[Said, ...] = ()
    delay: float | None = None

    def saying(self, type_: str, reason: str, message: str) -> "Decision":
        return replace(self, events=(*self.events, Said(type_, reason, message)))


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
    return _without_strays(view, _STEPS[state](view, status))


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
    return _begin(view, status, "SubmissionStarted", "the first attempt begins")


def _begin(view: View, status: ApplicationStatus, reason: str, message: str) -> Decision:
    """Write the next attempt down; its objects are made once that is stored."""
    if not _is_gone(view):
        return _waiting_for_proof(view, status)
    if view.others:  # the status was lost, or is older than the objects: no second driver beside one that may run
        return _waiting_for_proof(replace(view, driver=view.others[0]), status)
    names = AttemptNames(view.name, view.uid, max(status.attempt, view.last_attempt) + 1, view.next_word)
    begun = new_attempt(status, names, view.namespace, view.digest, view.now)
    begun = enter(begun, State.SUBMITTED, view.now, reason, message)
    begun = with_condition(begun, "DriverRunning", "False", view.now, "Submitted")
    begun = with_condition(begun, "Succeeded", "Unknown", view.now, "Submitted")
    steps: list[Step] = [CleanUp(status.attempt)] if status.attempt else []
    if names.attempt > _KEPT_DRIVERS + 1:
        steps.append(ForgetDrivers(names.attempt - _KEPT_DRIVERS - 1))
    steps.append(Submit())
    said = f"attempt {names.attempt}: {message}; driver pod {names.driver_pod}"
    return Decision(begun, tuple(steps), delay=_LOOK_AGAIN).saying("Normal", "SparkApplicationSubmitted", said)


def _submitted(view: View, status: ApplicationStatus) -> Decision:
    if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
        return _ended(view, status, view.driver)  # what is done is done, whatever was edited meanwhile
    if (intervention := _intervention(view, status)) is not None:
        return intervention
    driver = view.driver
    if view.submission_error:
        return _failed(view, status, FailureCause.SUBMISSION, "SubmissionRefused", view.submission_error)
    if driver is None:
        if not status.driver_info.pod_uid:
            return _unmade(view, status)
        driver = GONE
    if driver.has_ended:
        return _ended(view, status, driver)
    if driver.phase is DriverPhase.RUNNING:
        return _started(view, status, driver)
    return _pending(view, status, driver)


def _unmade(view: View, status: ApplicationStatus) -> Decision:
    """Its pod is not there yet: what is missing is made again and again, but not for ever."""
    assert view.application is not None
    limit = view.application.spec.timeouts.driver_start
    began = status.last_submission_attempt_time
    if began is None or parse_time(began) + limit > view.now:
        return Decision(status, (Submit(),), delay=_LOOK_AGAIN)
    what = f"the driver's pod could not be made within {limit:g} s (spec.timeouts.driverStart); the events tell why"
    return _failed(view, status, FailureCause.SUBMISSION, "SubmissionTimedOut", what)


def _pending(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    assert view.application is not None
    limit = view.application.spec.timeouts.driver_start
    left = driver.created + limit - view.now
    if left <= 0:
        what = f"the driver did not start within {limit:g} s (spec.timeouts.driverStart): {driver.message}"
        return _failed(view, status, FailureCause.INFRASTRUCTURE, "DriverStartTimedOut", what)
    waiting = driver.reason != "DriverPending"
    before = status.application_state.error_message
    status = with_error(status, driver.message if waiting else "")
    told = status.application_state.error_message == before
    status = with_condition(status, "DriverRunning", "False", view.now, driver.reason, driver.message)
    decision = Decision(status, delay=left)
    return decision.saying("Warning", driver.reason, driver.message) if waiting and not told else decision


def _started(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    message = f"driver pod {driver.pod_name} runs on node {driver.node_name}"
    running = status.model_copy(
        update={"running_since": format_time(view.now), "execution_attempts": status.execution_attempts + 1}
    )
    running = enter(running, State.RUNNING, view.now, "DriverRunning", message)
    running = with_condition(running, "DriverRunning", "True", view.now, "DriverRunning", message)
    return _watched(view, running).saying("Normal", "SparkDriverRunning", message)


def _running(view: View, status: ApplicationStatus) -> Decision:
    if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
        return _ended(view, status, view.driver)
    if (intervention := _intervention(view, status)) is not None:
        return intervention
    driver = view.driver or GONE
    if driver.has_ended:
        return _ended(view, status, driver)
    if driver.silent_since is not None:
        return _unreachable(view, status, driver)
    status = with_error(status, "")
    return _watched(view, with_condition(status, "DriverRunning", "True", view.now, "DriverRunning", "the driver runs"))


def _unreachable(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    """Nothing is done but said, until the node is back, gone or declared out of service, or a person chose Assume."""
    assert view.application is not None
    known = (said := status.condition("DriverRunning")) is not None and said.reason == driver.reason
    status = with_error(status, driver.message)
    status = with_condition(status, "DriverRunning", "Unknown", view.now, driver.reason, driver.message)
    left = _silence_left(view, driver)
    if left is not None and left <= 0:
        patience = view.application.spec.recovery.fencing_timeout_seconds
        what = f"{driver.message}; taken for dead after {patience} s (recovery.fencing: Assume)"
        return _failed(view, status, FailureCause.INFRASTRUCTURE, "DriverAssumedDead", what, at_once=True)
    decision = Decision(status, delay=left)
    if known:
        return decision
    advice = "a new driver starts when the node is back, deleted, or tainted node.kubernetes.io/out-of-service"
    return decision.saying("Warning", driver.reason, f"{driver.message}: {advice}")


def _watched(view: View, status: ApplicationStatus) -> Decision:
    """A running driver: are its executors coming?"""
    assert view.application is not None
    limit = view.application.spec.timeouts.executor_start
    if view.executors.counts.ever_started:
        return Decision(status)
    pending = view.executors.oldest_pending
    if pending is None:
        return _without_executors(view, status, limit)
    left = pending + limit - view.now
    if left > 0:
        return Decision(status, delay=left)
    what = f"no executor started within {limit:g} s (spec.timeouts.executorStart): {view.executors.waits_for}"
    return _failed(view, status, FailureCause.INFRASTRUCTURE, "ExecutorsStartTimedOut", what)


def _without_executors(view: View, status: ApplicationStatus, limit: float) -> Decision:
    """No executor's pod at all. That is only said: the program may not want any yet."""
    assert view.application is not None
    if status.running_since is None or view.application.spec.allocates_dynamically:
        return Decision(status)
    left = parse_time(status.running_since) + limit - view.now
    if left > 0:
        return Decision(status, delay=left)
    what = (
        f"no executor's pod in {limit:g} s: the program has not asked for any, or they are refused (a quota, a missing "
        "right); the driver's log tells"
    )
    told = (said := view.status.condition("DriverRunning")) is not None and said.reason == "NoExecutors"
    decision = Decision(with_condition(status, "DriverRunning", "True", view.now, "NoExecutors", what))
    return decision if told else decision.saying("Warning", "NoExecutors", what)


def _ended(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    assert view.application is not None
    if driver.phase is not DriverPhase.SUCCEEDED:
        assert driver.cause is not None
        return _failed(view, status, driver.cause, driver.reason, driver.message)
    status = with_condition(status, "DriverRunning", "False", view.now, "Completed", driver.message)
    following = after_success(view.application.spec.restart_policy)
    if isinstance(following, Again):
        return _again(view, status, following, "Completed", driver.message, _ending(view))
    return _completed(view, status, driver)


def _completed(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    done = status.model_copy(update={"termination_time": format_time(view.now)})
    done = enter(done, State.COMPLETED, view.now, "Completed", driver.message)
    done = with_condition(done, "Succeeded", "True", view.now, "Completed", driver.message)
    return Decision(done, (*_ending(view), CleanUp(done.attempt)), delay=0.0).saying(
        "Normal", "SparkApplicationCompleted", driver.message
    )


def _failed(
    view: View, status: ApplicationStatus, cause: FailureCause, reason: str, message: str, *, at_once: bool = False
) -> Decision:
    """An attempt is over. Its driver, if it may still run, is told to end."""
    assert view.application is not None
    ran = view.now - parse_time(status.running_since) if status.running_since else 0.0
    following = after_failure(view.application.spec.restart_policy, cause, status.restarts, ran)
    status = _with_log(view, status)
    status = with_condition(status, "DriverRunning", "False", view.now, reason, message)
    steps = _ending(view, at_once=at_once)
    if isinstance(following, Again):
        return _again(view, status, following, reason, message, steps)
    said = f"{message}; {following.why}" if following.why else message
    over = status.model_copy(update={"termination_time": format_time(view.now)})
    over = enter(over, State.FAILED, view.now, reason, said, error=said)
    over = with_condition(over, "Succeeded", "False", view.now, reason, said)
    tail = f"\n{end_of(view.log_tail, _TOLD_OF_LOG)}" if view.log_tail else ""
    return Decision(over, (*steps, CleanUp(over.attempt)), delay=0.0).saying(
        "Warning", "SparkApplicationFailed", f"attempt {over.attempt}: {said}{tail}"
    )


def _with_log(view: View, status: ApplicationStatus) -> ApplicationStatus:
    info = status.driver_info.model_copy(update={"log_tail": view.log_tail})
    return status.model_copy(update={"driver_info": info}) if view.log_tail else status


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
    waiting = enter(waiting, State.PENDING_RERUN, view.now, reason, message, error=error)
    said = f"attempt {status.attempt}: {message}; the next begins in {following.delay:g} s"
    type_ = "Warning" if error else "Normal"
    return Decision(waiting, (*steps, CleanUp(status.attempt)), delay=at - view.now).saying(
        type_, "SparkApplicationPendingRerun", said
    )


def _ending(view: View, *, at_once: bool = False) -> tuple[Step, ...]:
    """What is deleted of the driver: a pod that has ended stays for its log, unless its node is gone."""
    driver = view.driver
    if driver is None or driver.phase is DriverPhase.GONE:
        return ()
    at_once = at_once or driver.reason == "NodeLost"
    is_kept = driver.has_ended and not driver.is_lingering
    if (is_kept or driver.is_terminating) and not at_once:
        return ()
    return (DeleteDriver(driver.pod_name, driver.pod_uid, at_once=at_once),)


def _pending_rerun(view: View, status: ApplicationStatus) -> Decision:
    assert view.application is not None
    if view.application.spec.suspend:
        return _suspend(view, status)
    if not _is_gone(view):
        return _waiting_for_proof(view, status)
    if _is_edited(view, status):
        fresh = status.model_copy(update={"restarts": RestartCounts()})
        return _begin(view, fresh, "SpecEdited", "the edited spec is submitted")
    left = parse_time(status.next_attempt_time) - view.now if status.next_attempt_time else 0.0
    if left > 0:
        return Decision(status, delay=left)
    last = status.transitions[-1].message if status.transitions else "a rerun"
    return _begin(view, status, "RerunStarted", f"a rerun after: {last}")


def _is_gone(view: View) -> bool:
    """Proven; or somebody chose not to wait for a proof, and nothing is left to delete."""
    if view.driver is None or view.driver.proven_gone:
        return True
    left = _silence_left(view, view.driver)
    return view.driver.phase is DriverPhase.GONE and left is not None and left <= 0


def _waiting_for_proof(view: View, status: ApplicationStatus) -> Decision:
    driver = view.driver
    assert driver is not None
    what = f"waiting until driver pod {driver.pod_name} is gone: {driver.message}"
    before = status.condition("DriverRunning")
    status = with_condition(status, "DriverRunning", "Unknown", view.now, "WaitingForDriverToEnd", what)
    told = _says_the_same(before, status.condition("DriverRunning"))
    left = _silence_left(view, driver)
    if left is not None and left <= 0:
        steps: tuple[Step, ...] = (DeleteDriver(driver.pod_name, driver.pod_uid, at_once=True),)
        return Decision(status, steps, delay=5.0).saying(
            "Warning", "DriverAssumedDead", f"{driver.message}; taken for dead (recovery.fencing: Assume)"
        )
    decision = Decision(status, _ending(view), delay=5.0)
    if told:
        return decision
    return decision.saying("Normal" if driver.silent_since is None else "Warning", "WaitingForDriverToEnd", what)


def _says_the_same(before: Condition | None, after: Condition | None) -> bool:
    """As stored: long texts are cut there."""
    return before is not None and after is not None and (before.status, before.message) == (after.status, after.message)


def _silence_left(view: View, driver: DriverFacts) -> float | None:
    """Seconds until a driver of which nothing is heard counts as dead; None where nobody chose `fencing: Assume`."""
    if view.application is None or driver.silent_since is None:
        return None
    recovery = view.application.spec.recovery
    return driver.silent_since + recovery.fencing_timeout_seconds - view.now if recovery.fencing == "Assume" else None


def _intervention(view: View, status: ApplicationStatus) -> Decision | None:
    """What a person's edit of the spec does to a running attempt."""
    assert view.application is not None
    if view.application.spec.suspend:
        return _suspend(view, status)
    if not _is_edited(view, status):
        return None
    message = "the spec was edited: the attempt is stopped, and the next runs the new spec"
    stopped = status.model_copy(update={"restarts": RestartCounts()})
    stopped = enter(stopped, State.INVALIDATING, view.now, "SpecEdited", message)
    return Decision(stopped, _ending(view), delay=0.0).saying("Normal", "SparkApplicationSpecUpdated", message)


def _is_edited(view: View, status: ApplicationStatus) -> bool:
    """Whether somebody changed what an attempt depends on. A newer CRD's defaults change the digest, not the
    generation."""
    return view.digest != status.submitted_digest and view.generation != status.submitted_generation


def _suspend(view: View, status: ApplicationStatus) -> Decision:
    message = "spec.suspend is true: the driver is stopped"
    stopped = enter(status, State.SUSPENDING, view.now, "Suspending", message)
    return Decision(stopped, _ending(view), delay=0.0).saying("Normal", "SparkApplicationSuspending", message)


def _invalidating(view: View, status: ApplicationStatus) -> Decision:
    if not _is_gone(view):
        return _waiting_for_proof(view, status)
    return _begin(view, status, "SpecEdited", "the edited spec is submitted")


def _suspending(view: View, status: ApplicationStatus) -> Decision:
    if not _is_gone(view):
        return _waiting_for_proof(view, status)
    status = with_condition(status, "DriverRunning", "False", view.now, "Suspended")
    suspended = enter(status, State.SUSPENDED, view.now, "Suspended", "the driver is gone")
    return Decision(suspended, (CleanUp(status.attempt),)).saying(
        "Normal", "SparkApplicationSuspended", "suspended: the driver is gone"
    )


def _suspended(view: View, status: ApplicationStatus) -> Decision:
    assert view.application is not None
    if view.application.spec.suspend:
        return Decision(status)
    return _begin(view, status, "Resumed", "spec.suspend is false again")


def _over(view: View, status: ApplicationStatus) -> Decision:
    """COMPLETED or FAILED: an edit begins anew, and the time to live ends it."""
    assert view.application is not None
    if not _is_gone(view):
        if _is_edited(view, status):
            return _waiting_for_proof(view, status)
        return Decision(status, _ending(view), delay=30.0)
    if _is_edited(view, status) and not view.application.spec.suspend:
        fresh = status.model_copy(update={"restarts": RestartCounts(), "submission_attempts": 0})
        return _begin(view, fresh, "SpecEdited", "the edited spec is submitted")
    ttl = view.application.spec.time_to_live_seconds
    if ttl is None or status.termination_time is None:
        return Decision(status, _ending(view))
    left = parse_time(status.termination_time) + ttl - view.now
    if left > 0:
        return Decision(status, _ending(view), delay=left)
    return Decision(status, (DeleteApplication(),)).saying(
        "Normal", "SparkApplicationExpired", f"deleted: it ended {ttl} s ago (spec.timeToLiveSeconds)"
    )


def _unusable(view: View, status: ApplicationStatus) -> Decision:
    """The spec cannot be used: what runs goes on, what does not run does not start; both are said."""
    what = "; ".join(view.problems)
    before = status.condition("Accepted")
    status = with_condition(status, "Accepted", "False", view.now, "SpecInvalid", what)
    known = _says_the_same(before, status.condition("Accepted"))
    state = status.application_state.state
    if state in (State.SUBMITTED, State.RUNNING):
        status = _with_facts(view, status)
        if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
            return _completed(view, status, view.driver)
        if view.suspend:
            return _suspend(view, status)
        if view.driver is not None and view.driver.has_ended:
            what = f"{view.driver.message}; and the spec cannot be used: {what}"
    decision = Decision(status)
    if not state.is_terminal and (state is State.NEW or _is_gone(view)):
        status = status.model_copy(update={"termination_time": format_time(view.now), "submitted_digest": view.digest})
        status = enter(_with_log(view, status), State.FAILED, view.now, "SpecInvalid", what, error=what)
        status = with_condition(status, "Succeeded", "False", view.now, "SpecInvalid", what)
        if status.attempt:
            status = with_condition(status, "DriverRunning", "False", view.now, "SpecInvalid")
        decision = Decision(status, (CleanUp(status.attempt),) if status.attempt else ())
    elif state in (State.INVALIDATING, State.SUSPENDING, State.PENDING_RERUN):
        decision = Decision(status, _ending(view), delay=5.0)
    return decision if known else decision.saying("Warning", "SparkApplicationInvalid", what)


def _deleted(view: View, status: ApplicationStatus) -> Decision:
    """The driver ends first, but a node that is gone holds nobody up for ever."""
    assert view.deleted_at is not None
    if _is_gone(view):
        return Decision(status, (ReleaseFinalizer(),))
    driver = view.driver
    assert driver is not None
    grace = driver.grace if driver.silent_since is None else 0.0
    left = view.deleted_at + _DELETION_PATIENCE + grace - view.now
    if left <= 0:
        what = f"deleted although driver pod {driver.pod_name} is not proven gone: {driver.message}"
        return Decision(status, (ReleaseFinalizer(),)).saying("Warning", "DriverNotProvenGone", what)
    return Decision(status, _ending(view), delay=min(left, 5.0))


def _with_facts(view: View, status: ApplicationStatus) -> ApplicationStatus:
    if view.driver is not None:
        status = with_driver(status, view.driver)
    update = {"executors": view.executors.counts, "executor_state": view.executors.states}
    return status.model_copy(update=update)


_STEPS: dict[State, Callable[[View, ApplicationStatus], Decision]] = {
    State.NEW: _new,
    State.SUBMITTED: _submitted,
    State.RUNNING: _running,
    State.PENDING_RERUN: _pending_rerun,
    State.INVALIDATING: _invalidating,
    State.SUSPENDING: _suspending,
    State.SUSPENDED: _suspended,
    State.COMPLETED: _over,
    State.FAILED: _over,
}
