"""What is said of an application's own store, and done about it: whether all of its volumes are there, and how long."""

from dataclasses import replace

from rekindle.controller.decision import Decision, DropStore, ForgetDrivers, View
from rekindle.controller.status import says_the_same, with_condition

STORAGE_READY = "StorageReady"

LOOK_AGAIN = 30.0
"""Seconds for which an executor may wait beside a claim that is going before it is plain that none will start."""


def with_volumes(view: View, decision: Decision) -> Decision:
    """Say of a store of the application's own whether all of it is there."""
    if view.volumes is None or view.driver is None or view.status.application_state.state.is_terminal:
        return decision
    says = view.volumes.says
    reason = "VolumeLost" if view.volumes.lost else "ClaimDeleted" if says else "VolumesThere"
    after = with_condition(decision.status, STORAGE_READY, "False" if says else "True", view.now, reason, says)
    said = replace(decision, status=after)
    if not says or says_the_same(view.status.condition(STORAGE_READY), after.condition(STORAGE_READY)):
        return said
    return said.saying("Warning", reason, says)


def drop_store(view: View, decision: Decision) -> Decision:
    """Of an application that is COMPLETED, `decision` has no more use for its store: it goes, where that is wanted."""
    assert view.application is not None
    storage, volumes = view.application.spec.recovery.storage, view.volumes
    if storage is None or storage.when_completed != "Delete" or volumes is None:
        return decision
    if not volumes.own:
        return decision
    says = "recovery.storage.whenCompleted is Delete: its claims were deleted, and the pods of its drivers"
    steps = (*decision.steps, ForgetDrivers(decision.status.attempt), DropStore(volumes.own))
    after = with_condition(decision.status, STORAGE_READY, "False", view.now, "StoreDropped", says)
    delay = LOOK_AGAIN if decision.delay is None else min(LOOK_AGAIN, decision.delay)
    dropped = replace(decision, status=after, steps=steps, delay=delay)
    if says_the_same(view.status.condition(STORAGE_READY), after.condition(STORAGE_READY)):
        return dropped
    return dropped.saying("Normal", "StoreDropped", says)


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
