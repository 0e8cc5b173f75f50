"""What a decision about an application is made of, and what it is: the next status, steps and events. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rekindle.api.application_status import ApplicationStatus, SpeculationStatus
from rekindle.api.spark_application import SparkApplication
from rekindle.controller.driver_facts import DriverFacts
from rekindle.controller.executor_facts import ExecutorFacts
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.recovery.volume_facts import VolumeFacts
from rekindle.controller.submission.names import AttemptNames


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
class DropStore:
    """Delete these claims that were made for the application."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseFinalizer:
    """Let the application go."""


@dataclass(frozen=True, slots=True)
class DeleteApplication:
    """Its time to live is over."""


Step = Submit | DeleteDriver | CleanUp | ForgetDrivers | DropStore | ReleaseFinalizer | DeleteApplication


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

    unbound_claims: Sequence[str] = ()
    """Why claims of the store cannot be mounted, while the driver waits for a volume."""

    volumes: VolumeFacts | None = None
    """What the claims of the application's own store tell; None where it has none."""

    suspend: bool = False
    """`spec.suspend`, also of a spec that cannot be used."""

    executors: ExecutorFacts = field(default_factory=ExecutorFacts)
    speculation: SpeculationStatus | None = None
    """What is known of slow tasks; None where nobody looks for them."""

    job: JobFacts | None = None
    """What the job master of the present driver told last; None where it told nothing."""

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
