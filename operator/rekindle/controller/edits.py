"""What a person's edit of the spec does to an attempt."""

from rekindle.api.application_status import ApplicationState, ApplicationStatus, RestartCounts
from rekindle.controller.decision import Decision, View
from rekindle.controller.fencing import ending
from rekindle.controller.recovery.recovering import end_recovery
from rekindle.controller.status import enter


def intervention(view: View, status: ApplicationStatus) -> Decision | None:
    """The decision for an attempt whose spec was edited; None where it may go on."""
    assert view.application is not None
    if view.application.spec.suspend:
        return suspend(view, status)
    if not is_edited(view, status):
        return None
    message = "the spec was edited: the attempt is stopped, and the next runs the new spec"
    stopped = end_recovery(status.model_copy(update={"restarts": RestartCounts()}), view.now, "SpecEdited")
    stopped = enter(stopped, ApplicationState.INVALIDATING, view.now, "SpecEdited", message)
    return Decision(stopped, ending(view), delay=0.0).saying("Normal", "SparkApplicationSpecUpdated", message)


def is_edited(view: View, status: ApplicationStatus) -> bool:
    """Whether somebody changed what an attempt depends on. A newer CRD's defaults change the digest, not the
    generation."""
    return view.digest != status.submitted_digest and view.generation != status.submitted_generation


def suspend(view: View, status: ApplicationStatus) -> Decision:
    message = "spec.suspend is true: the driver is stopped"
    status = end_recovery(status, view.now, "Suspending")
    stopped = enter(status, ApplicationState.SUSPENDING, view.now, "Suspending", message)
    return Decision(stopped, ending(view), delay=0.0).saying("Normal", "SparkApplicationSuspending", message)
