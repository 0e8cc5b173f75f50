"""Never two drivers: whether the last one is proven gone, and what is done until it is."""

from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.decision import Decision, DeleteDriver, Step, View
from rekindle.controller.driver_facts import DriverFacts, DriverPhase
from rekindle.controller.status import says_the_same, with_condition


def is_gone(view: View) -> bool:
    """Proven; or somebody chose not to wait for a proof, and nothing is left to delete."""
    if view.driver is None or view.driver.proven_gone:
        return True
    left = silence_left(view, view.driver)
    return view.driver.phase is DriverPhase.GONE and left is not None and left <= 0


def waiting_for_proof(view: View, status: ApplicationStatus) -> Decision:
    driver = view.driver
    assert driver is not None
    what = f"waiting until driver pod {driver.pod_name} is gone: {driver.message}"
    before = status.condition("DriverRunning")
    status = with_condition(status, "DriverRunning", "Unknown", view.now, "WaitingForDriverToEnd", what)
    told = says_the_same(before, status.condition("DriverRunning"))
    left = silence_left(view, driver)
    if left is not None and left <= 0:
        steps: tuple[Step, ...] = (DeleteDriver(driver.pod_name, driver.pod_uid, at_once=True),)
        return Decision(status, steps, delay=5.0).saying(
            "Warning", "DriverAssumedDead", f"{driver.message}; taken for dead (recovery.fencing: Assume)"
        )
    decision = Decision(status, ending(view), delay=5.0)
    if told:
        return decision
    return decision.saying("Normal" if driver.silent_since is None else "Warning", "WaitingForDriverToEnd", what)


def silence_left(view: View, driver: DriverFacts) -> float | None:
    """Seconds until a driver of which nothing is heard counts as dead; None where nobody chose `fencing: Assume`."""
    if view.application is None or driver.silent_since is None:
        return None
    recovery = view.application.spec.recovery
    return driver.silent_since + recovery.fencing_timeout_seconds - view.now if recovery.fencing == "Assume" else None


def ending(view: View, *, at_once: bool = False) -> tuple[Step, ...]:
    """What is deleted of the driver: a pod that has ended stays for its log, unless its node is gone."""
    driver = view.driver
    if driver is None or driver.phase is DriverPhase.GONE:
        return ()
    at_once = at_once or driver.reason == "NodeLost"
    is_kept = driver.has_ended and not driver.is_lingering
    if (is_kept or driver.is_terminating) and not at_once:
        return ()
    return (DeleteDriver(driver.pod_name, driver.pod_uid, at_once=at_once),)
