"""What is said of an application's own store, and done about it: whether all of its volumes are there."""

from dataclasses import replace

from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.decision import Decision, View
from rekindle.controller.status import says_the_same, with_condition

STORAGE_READY = "StorageReady"

LOOK_AGAIN = 30.0
"""Seconds for which an executor may wait beside a claim that is going before it is plain that none will start."""


def with_volumes(view: View, status: ApplicationStatus, decision: Decision) -> Decision:
    """Say of a store of the application's own whether all of it is there; `status` is the one before."""
    if view.volumes is None or view.driver is None or status.application_state.state.is_terminal:
        return decision
    says = view.volumes.says
    reason = "VolumeLost" if view.volumes.lost else "ClaimDeleted" if says else "VolumesThere"
    after = with_condition(decision.status, STORAGE_READY, "False" if says else "True", view.now, reason, says)
    said = replace(decision, status=after)
    if not says or says_the_same(status.condition(STORAGE_READY), after.condition(STORAGE_READY)):
        return said
    return said.saying("Warning", reason, says)


def cannot_go_on(view: View) -> bool:
    """Whether the present attempt is of no more use: its pods, and those that come, would not see the same files; or it
    waits for pods that cannot start beside a claim that is going."""
    if view.volumes is None or view.driver is None:
        return False
    if view.volumes.lost:
        return True
    waits_since = view.driver.created if not view.driver.node_name else _waits_for_executors_since(view)
    return bool(view.volumes.going) and waits_since is not None and waits_since + LOOK_AGAIN <= view.now


def _waits_for_executors_since(view: View) -> float | None:
    """Since when no executor runs and one waits; None where any runs."""
    return None if view.executors.able else view.executors.oldest_pending
