"""The status of a SparkApplication: Kubeflow's fields, and beside them what was decided and why."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from rekindle.api.model import ApiModel

MOST_COUNTED = 10**12


def _is_time(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a time without its zone")
    return value


def _is_count(value: int) -> int:
    if not 0 <= value <= MOST_COUNTED:
        raise ValueError(f"a number from 0 to {MOST_COUNTED}")
    return value


Time = Annotated[str, AfterValidator(_is_time)]
"""RFC 3339 in UTC."""

Count = Annotated[int, AfterValidator(_is_count)]
"""What is counted on: what somebody else may write into a status must not keep the operator from going on."""


class ApplicationState(StrEnum):
    """Where an application is. The names are Kubeflow's, so that what reads them goes on working."""

    NEW = ""
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    PENDING_RERUN = "PENDING_RERUN"
    INVALIDATING = "INVALIDATING"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing runs and nothing will, unless the spec is edited."""
        return self in (ApplicationState.COMPLETED, ApplicationState.FAILED)


class FailureCause(StrEnum):
    """What ended an attempt; each cause has a budget of its own."""

    SUBMISSION = "Submission"
    """The API server refused an object of the attempt, or the spec cannot be used."""

    APPLICATION = "Application"
    """The driver ran and ended with an error of its own."""

    INFRASTRUCTURE = "Infrastructure"
    """Node lost, evicted, killed, image not pulled, not scheduled, not started in time."""


class StatusModel(ApiModel):
    """A part of the status; what a newer operator wrote into it is left out, not refused."""

    model_config = ConfigDict(extra="ignore")


class StateReport(StatusModel):
    """The application's state and, where something is wrong, what."""

    state: ApplicationState = ApplicationState.NEW
    """SUBMITTED, RUNNING, PENDING_RERUN, INVALIDATING, SUSPENDING, SUSPENDED, COMPLETED or FAILED."""

    error_message: str = ""
    """What failed, in a sentence; empty while nothing has."""


class DriverInfo(StatusModel):
    """The driver of the current attempt."""

    pod_name: str = ""
    """Its pod."""

    pod_uid: str = ""
    """The pod's uid, once it has been seen: a pod of that name with another uid is not this driver."""

    node_name: str = ""
    """The node it was placed on."""

    web_ui_service_name: str = Field(default="", alias="webUIServiceName")
    """The service in front of the driver."""

    web_ui_port: int = Field(default=0, alias="webUIPort")
    """The port of the driver's UI at that service."""

    web_ui_address: str = Field(default="", alias="webUIAddress")
    """Host and port of the driver's UI inside the cluster."""

    exit_code: int | None = None
    """The exit code of the driver's container, once it has ended."""

    ended_at: Time | None = None
    """When it ended, or its node fell silent; unset while it runs, and where nothing tells."""

    log_tail: str = ""
    """The last lines of a failed driver's log."""


class Transition(StatusModel):
    """One change of state."""

    state: ApplicationState
    """The state that was entered."""

    at: str
    """When, RFC 3339 in UTC."""

    attempt: int
    """The attempt, from 1; 0 before the first."""

    reason: str
    """Why, in one word."""

    message: str = ""
    """Why, in a sentence."""


class Condition(StatusModel):
    """One aspect of the application, as `kubectl wait --for=condition=...` reads it."""

    type: str
    """Accepted, DriverRunning, Succeeded or Recovering."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    reason: str
    """Why, in one word."""

    message: str = ""
    """Why, in a sentence."""

    last_transition_time: str
    """When `status` last changed, RFC 3339 in UTC."""

    observed_generation: int = 0
    """The generation of the spec that this was said of."""


class ExecutorCounts(StatusModel):
    """How many executor pods of the current attempt are in each phase."""

    pending: int = 0
    """Not placed, or not started."""

    running: int = 0
    """Running."""

    succeeded: int = 0
    """Ended with exit code 0."""

    failed: int = 0
    """Ended otherwise."""

    ever_started: bool = False
    """Whether one has run in this attempt."""


class RestartCounts(StatusModel):
    """Restarts since the first submission or the last reset, by cause."""

    submission: Count = 0
    """After refused submissions."""

    application: Count = 0
    """After errors of the application."""

    infrastructure: Count = 0
    """After failures of the infrastructure."""


class SpeculationStatus(StatusModel):
    """What is slow in an application that runs, and what is done about it."""

    num_slow_execution_vertices: Count = 0
    """Tasks that are slow now; one with several slow attempts counts once."""

    slow_nodes: list[str] = Field(default_factory=list)
    """Nodes that make tasks of it slow now."""

    draining_executors: Count = 0
    """Executors on blocked nodes: they end what they run, and take nothing new."""

    duplicate_executors: Count = 0
    """Executors that the operator has made in place of slow ones, or beside them."""

    num_effective_speculative_executions: Count = 0
    """Tasks that a copy has finished first, since the application was first submitted."""

    wasted_task_seconds: Count = 0
    """Seconds for which attempts ran beside one that finished first, since the application was first submitted."""

    problem: str = ""
    """Why slow tasks cannot be seen; empty where they can."""


class SubtaskSplits(StatusModel):
    """Splits of one subtask of a source."""

    subtask: Count = 0
    """Which, from 0; of several the first."""

    splits: Count = 0
    """How many it has been assigned."""


class SourceStatus(StatusModel):
    """A source of a pipeline that is read by splits, as the driver told last. What is counted on it counts since it
    began."""

    name: str = ""
    """Its stage."""

    kind: str = ""
    """What it calls itself."""

    subtasks: Count = 0
    """Tasks that read it."""

    num_splits: Count = 0
    """Splits that there are."""

    num_assigned_splits: Count = 0
    """Splits that subtasks have, read or not."""

    num_finished_splits: Count = 0
    """Of those, which an attempt has read to the end."""

    num_reread_splits: Count = 0
    """How often a split was read by another attempt than its first."""

    num_returned_splits: Count = 0
    """Splits that were given back, as their subtask began anew."""

    registered_readers: Count = 0
    """Attempts that read now."""

    no_more_splits: Count = 0
    """Subtasks that were told that they get no more."""

    most: SubtaskSplits | None = None
    """Who has the most splits."""

    fewest: SubtaskSplits | None = None
    """Who has the fewest: it is slow, or there is one split for fewer subtasks."""

    num_records_in: Count | None = None
    """Rows of its partitions that are stored; unset where it is not stored."""

    concurrent_attempts: bool = True
    """Whether two attempts of a subtask may read at a time."""

    reason: str = ""
    """Why not."""


class SinkStatus(StatusModel):
    """A sink of a pipeline, as the driver told last."""

    name: str = ""
    """Its stage."""

    kind: str = ""
    """FileSink, SparkSink or DataSourceSink."""

    mode: str = ""
    """What becomes of what is there: error, overwrite or append."""

    concurrent_attempts: bool = False
    """Whether two attempts may write a partition at a time."""

    reason: str = ""
    """Why not."""

    num_partitions: Count = 0
    """Partitions that it has."""

    num_written_partitions: Count = 0
    """Partitions that are complete."""

    num_records_send: Count = 0
    """Rows of those."""

    num_aborted_attempts: Count = 0
    """Attempts that have made no partition: losers of a race, those that failed, and those that were cut off."""

    commit: str = ""
    """How far its result is from being seen: Pending, Committing, Committed, Refused, Failed or Unknown."""

    commit_reason: str = ""
    """Why it was refused, or has failed."""


class StageStatus(StatusModel):
    """A stage of a pipeline that runs, or the shuffle before it (`<stage>.map`)."""

    name: str = ""
    """The stage."""

    partitions: Count = 0
    """Result partitions that it makes."""

    finished: Count = 0
    """Partitions that it has made."""

    running: Count = 0
    """Partitions that are being made, or wait for a slot."""

    missing: Count = 0
    """Partitions that were made and are not there any more: lost, or not needed."""

    released: bool = False
    """Whether its result was removed, for nobody needs it any more."""


class RecoverySummary(StatusModel):
    """What the loss of a driver costs: as planned, and then as the driver that followed it did."""

    attempt: Count = 0
    """The attempt that recovers."""

    planned_at: Time | None = None
    """When, RFC 3339 in UTC."""

    cause: str = ""
    """What became of the driver before."""

    restarted: dict[str, str] = Field(default_factory=dict)
    """Partitions that are made again, by stage, such as `0-3,5`."""

    restarted_vertices: Count = 0
    """How many, of all stages."""

    reused_partitions: Count = 0
    """Result partitions that stay."""

    expected_task_seconds: Count = 0
    """Of the tasks that were still to run, by those that had finished; 0 where none had."""

    saved_task_seconds: Count = 0
    """Of the tasks that need not run again, likewise: what starting over would take on top. 0 where the driver did
    something else than planned: what that saved is not known."""

    as_planned: bool | None = None
    """Whether the driver did what was planned; unset until it tells. Where it did not, this is what it did."""

    why: str = ""
    """What the driver met with besides the loss: the pipeline was edited, a stage was to be made again, a result was
    gone; at most a thousand bytes."""

    lost_at: Time | None = None
    """When the driver before ended, or its node fell silent; unset where nothing tells. Seconds are since then."""

    noticed_after_seconds: Count | None = None
    """When the operator took it for lost."""

    driver_after_seconds: Count | None = None
    """When the driver that followed ran."""

    first_task_after_seconds: Count | None = None
    """When the first task of that began."""


class RecoveryStatus(StatusModel):
    """Of a pipeline: what there is of its results, and what its last recovery costs."""

    stages: list[StageStatus] = Field(default_factory=list)
    """Its stages, producers first; at most two hundred."""

    job: dict[str, Any] = Field(default_factory=dict)
    """The inventory as the job master told it, for the operator's plan; empty where it has more than 64 KiB."""

    claims: dict[str, str] = Field(default_factory=dict)
    """The uids of the claims on which that lies, by volume: `journal`, `0`, `1` and so on."""

    last: RecoverySummary | None = None
    """The last recovery."""


class ApplicationStatus(StatusModel):
    """What the operator knows of an application. Written by the operator only."""

    observed_generation: int = 0
    """The generation of the spec that the operator last acted on."""

    application_state: StateReport = Field(default_factory=StateReport)
    """The state."""

    attempt: Count = 0
    """The current attempt, from 1; 0 before the first. It is written before any object of it is made."""

    attempt_word: str = ""
    """A random word of the current attempt: the names of its objects are made from it, too."""

    spark_application_id: str = ""
    """Spark's id of the current attempt (`spark.app.id`)."""

    submission_id: str = Field(default="", alias="submissionID")
    """The uid of this application and the attempt."""

    submitted_generation: int = 0
    """The generation of the spec that the current attempt runs."""

    submitted_digest: str = ""
    """Digest of what of the spec the current attempt depends on: an edit of anything else restarts nothing."""

    running_since: Time | None = None
    """When the current attempt's driver was first seen running, RFC 3339 in UTC."""

    submission_attempts: Count = 0
    """How often this run was submitted."""

    execution_attempts: Count = 0
    """How often a driver of it was started."""

    last_submission_attempt_time: Time | None = None
    """When the current attempt was begun, RFC 3339 in UTC."""

    termination_time: Time | None = None
    """When the application ended, RFC 3339 in UTC."""

    next_attempt_time: Time | None = None
    """While PENDING_RERUN: when the next attempt begins at the earliest, RFC 3339 in UTC."""

    restarts: RestartCounts = Field(default_factory=RestartCounts)
    """Restarts by cause."""

    driver_info: DriverInfo = Field(default_factory=DriverInfo)
    """The driver of the current attempt."""

    executors: ExecutorCounts = Field(default_factory=ExecutorCounts)
    """The executors of the current attempt, counted."""

    executor_state: dict[str, str] = Field(default_factory=dict)
    """Executor pod to PENDING, RUNNING, COMPLETED or FAILED; at most a hundred, the newest of those that run first."""

    speculation: SpeculationStatus = Field(default_factory=SpeculationStatus)
    """Slow tasks and nodes, with `spec.speculation.enabled`."""

    recovery: RecoveryStatus = Field(default_factory=RecoveryStatus)
    """Of a pipeline: its results, and its last recovery."""

    sources: list[SourceStatus] = Field(default_factory=list)
    """Of a pipeline: its sources that are read by splits; at most fifty."""

    sinks: list[SinkStatus] = Field(default_factory=list)
    """Of a pipeline: its sinks; at most fifty."""

    conditions: list[Condition] = Field(default_factory=list)
    """Accepted, DriverRunning, Succeeded, Recovering, StorageReady."""

    transitions: list[Transition] = Field(default_factory=list)
    """The last thirty-two changes of state, oldest first."""

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None where nothing has been said of it."""
        return next((condition for condition in self.conditions if condition.type == kind), None)
