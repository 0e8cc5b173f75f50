"""What is said of an application's own store: whether all of its volumes are there."""

from dataclasses import replace

from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.decision import Decision, View
from rekindle.controller.status import says_the_same, with_condition

STORAGE_READY = "StorageReady"


def with_volumes(view: View, status: ApplicationStatus, decision: Decision) -> Decision:
    """Say of a store of the application's own whether all of it is there; `status` is the one before."""
    if view.volumes is None:
        return decision
    says = view.volumes.says
    reason = "VolumeLost" if view.volumes.lost else "ClaimDeleted" if says else "VolumesThere"
    after = with_condition(decision.status, STORAGE_READY, "False" if says else "True", view.now, reason, says)
    said = replace(decision, status=after)
    if not says or says_the_same(status.condition(STORAGE_READY), after.condition(STORAGE_READY)):
        return said
    return said.saying("Warning", reason, says)
