"""An attempt that is SUBMITTED or RUNNING: is its driver coming, does it run, and are its executors coming?"""

from dataclasses import replace

from rekindle.api.application_status import ApplicationState, ApplicationStatus, FailureCause
from rekindle.controller.attempts import ended, failed, unmade
from rekindle.controller.clock import format_time, parse_time
from rekindle.controller.decision import Decision, View
from rekindle.controller.driver_facts import GONE, DriverFacts, DriverPhase
from rekindle.controller.edits import intervention
from rekindle.controller.fencing import silence_left
from rekindle.controller.recovery.recovering import see_driver_runs, see_recovery
from rekindle.controller.recovery.volumes import LOOK_AGAIN, cannot_go_on
from rekindle.controller.status import enter, with_condition, with_error


def submitted(view: View, status: ApplicationStatus) -> Decision:
    if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
        return ended(view, status, view.driver)  # what is done is done, whatever was edited meanwhile
    if (stopped := intervention(view, status)) is not None:
        return stopped
    driver = view.driver
    if view.submission_error:
        return failed(view, status, FailureCause.SUBMISSION, "SubmissionRefused", view.submission_error)
    if driver is None:
        if not status.driver_info.pod_uid:
            return unmade(view, status)
        driver = GONE
    if driver.has_ended:
        return ended(view, status, driver)
    if cannot_go_on(view):
        return _without_volume(view, status)
    if driver.phase is DriverPhase.RUNNING:
        return _started(view, status, driver)
    return _in_time(view, _pending(view, status, driver))


def _pending(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    assert view.application is not None
    limit = view.application.spec.timeouts.driver_start
    left = driver.created + limit - view.now
    message = "; ".join([driver.message, *view.unbound_claims])
    if left <= 0:
        what = f"the driver did not start within {limit:g} s (spec.timeouts.driverStart): {message}"
        return failed(view, status, FailureCause.INFRASTRUCTURE, "DriverStartTimedOut", what)
    waiting = driver.reason != "DriverPending"
    before = status.application_state.error_message
    status = with_error(status, message if waiting else "")
    told = status.application_state.error_message == before
    status = with_condition(status, "DriverRunning", "False", view.now, driver.reason, message)
    decision = Decision(status, delay=left)
    return decision.saying("Warning", driver.reason, message) if waiting and not told else decision


def _started(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    message = f"driver pod {driver.pod_name} runs on node {driver.node_name}"
    begun = status.model_copy(
        update={"running_since": format_time(view.now), "execution_attempts": status.execution_attempts + 1}
    )
    begun = enter(begun, ApplicationState.RUNNING, view.now, "DriverRunning", message)
    begun = with_condition(begun, "DriverRunning", "True", view.now, "DriverRunning", message)
    begun = see_driver_runs(begun, view.now)
    return _watched(view, begun).saying("Normal", "SparkDriverRunning", message)


def running(view: View, status: ApplicationStatus) -> Decision:
    if view.driver is not None and view.driver.phase is DriverPhase.SUCCEEDED:
        return ended(view, status, view.driver)
    if (stopped := intervention(view, status)) is not None:
        return stopped
    driver = view.driver or GONE
    if driver.has_ended:
        return ended(view, status, driver)
    if driver.silent_since is not None:
        return _unreachable(view, status, driver)
    if cannot_go_on(view):
        return _without_volume(view, status)
    status = with_error(status, "")
    status = with_condition(status, "DriverRunning", "True", view.now, "DriverRunning", "the driver runs")
    return _in_time(view, see_recovery(view, _watched(view, status)))


def _without_volume(view: View, status: ApplicationStatus) -> Decision:
    """The end of an attempt one of whose volumes is gone: the next one gets another."""
    assert view.volumes is not None
    return failed(view, status, FailureCause.INFRASTRUCTURE, "VolumeLost", view.volumes.says)


def _in_time(view: View, decision: Decision) -> Decision:
    """With a look soon where a claim is going: nothing else may come to tell that pods wait in vain."""
    if view.volumes is None or not view.volumes.going:
        return decision
    return replace(decision, delay=min(LOOK_AGAIN, LOOK_AGAIN if decision.delay is None else decision.delay))


def _unreachable(view: View, status: ApplicationStatus, driver: DriverFacts) -> Decision:
    """Nothing is done but said, until the node is back, gone or declared out of service, or a person chose Assume."""
    assert view.application is not None
    known = (said := status.condition("DriverRunning")) is not None and said.reason == driver.reason
    status = with_error(status, driver.message)
    status = with_condition(status, "DriverRunning", "Unknown", view.now, driver.reason, driver.message)
    left = silence_left(view, driver)
    if left is not None and left <= 0:
        patience = view.application.spec.recovery.fencing_timeout_seconds
        what = f"{driver.message}; taken for dead after {patience} s (recovery.fencing: Assume)"
        return failed(view, status, FailureCause.INFRASTRUCTURE, "DriverAssumedDead", what, at_once=True)
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
    return failed(view, status, FailureCause.INFRASTRUCTURE, "ExecutorsStartTimedOut", what)


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
