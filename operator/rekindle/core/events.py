"""What may happen to a job. The driver's journal is a list of these, so each has a record of JSON types.

All times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import JobEdge, JobGraph, JobVertex
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.core.records import decode, encode


class FailureKind(StrEnum):
    """What a failed attempt failed of."""

    TASK = "TASK"
    """Its own code, or something unknown."""
    INFRASTRUCTURE = "INFRASTRUCTURE"
    """Its executor, node or connection was lost; not held against the task."""
    PARTITION = "PARTITION"
    """A partition it reads is lost or corrupt (S7-14)."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why an attempt failed; `partition` is the one that could not be read, of PARTITION only."""

    kind: FailureKind
    message: str
    partition: ResultPartitionID | None = None


@dataclass(frozen=True, slots=True)
class PartitionOutput:
    """What an attempt wrote. Without a digest it cannot be compared with what another attempt writes."""

    rows: int
    bytes: int
    digest: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """The job begins."""


@dataclass(frozen=True, slots=True)
class OptionsGiven:
    """What a driver was told, from now on; `speculative`: the job vertices that may be copied.

    It is an event because a later driver, which may have been told otherwise, replays what this one did.
    """

    speculation: SpeculationOptions
    failover: FailoverOptions
    blocklist: BlocklistOptions
    speculative: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobGraphChanged:
    """The job's vertices and exchanges from now on: a new driver has another pipeline, and nothing runs yet."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    def __post_init__(self) -> None:
        self.job_graph("")

    @classmethod
    def to(cls, graph: JobGraph) -> JobGraphChanged:
        return cls(graph.vertices, graph.edges)

    def job_graph(self, name: str) -> JobGraph:
        """Raises ValueError where it is none."""
        return JobGraph(name, self.vertices, self.edges)


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """The nodes that exist now, blocked ones included."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptDeployed:
    """An attempt was handed to an executor on `node`; `started_at` is its DEPLOYING timestamp (S1-18).

    `input_bytes` is how much it has to read, None where that is not known.
    """

    attempt: ExecutionAttemptID
    node: str
    started_at: float
    input_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """An attempt has committed its partition."""

    attempt: ExecutionAttemptID
    finished_at: float
    output: PartitionOutput


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    attempt: ExecutionAttemptID
    cause: FailureCause


@dataclass(frozen=True, slots=True)
class AttemptCanceled:
    """An attempt runs no more, and not because of an error."""

    attempt: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class PartitionsLost:
    """Partitions cannot be read any more. Those that nobody needs cost nothing."""

    partitions: tuple[ResultPartitionID, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone, and with it what ran there and the EPHEMERAL and CACHED results made there."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class DriverLost:
    """A new driver begins: what had not finished is gone, and so are all EPHEMERAL and CACHED results."""

    reason: str


@dataclass(frozen=True, slots=True)
class SlowTasksFound:
    """What a slow-task detector found: (vertex, its slow attempts, the evidence in words) each.

    It is told when nothing is slow, too (S1-29).
    """

    slow: tuple[tuple[ExecutionVertexID, tuple[ExecutionAttemptID, ...], str], ...]

    @property
    def num_vertices(self) -> int:
        """How many execution vertices are slow; one may be named for several nodes (S2-40)."""
        return len({vertex_id for vertex_id, _, _ in self.slow})


@dataclass(frozen=True, slots=True)
class NodeBlockRequested:
    """A person or the operator wants `node` blocked until `until` (infinity: until further notice)."""

    node: str
    until: float
    cause: str


@dataclass(frozen=True, slots=True)
class NodeUnblockRequested:
    """A person or the operator wants `node` used again, whoever had it blocked. A task that is slow there, and is found
    so again, blocks it again."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class RerunRequested:
    """A person wants all that a job vertex has made, or is making, made again, and what was made from it."""

    vertex: str
    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: blocks may have come to their end."""


Event = (
    JobSubmitted
    | OptionsGiven
    | JobGraphChanged
    | NodesChanged
    | AttemptDeployed
    | AttemptFinished
    | AttemptFailed
    | AttemptCanceled
    | PartitionsLost
    | NodeLost
    | DriverLost
    | SlowTasksFound
    | NodeBlockRequested
    | NodeUnblockRequested
    | RerunRequested
    | Tick
)

EVENT_TYPES: dict[str, type[Event]] = {
    event.__name__: event
    for event in (
        JobSubmitted,
        OptionsGiven,
        JobGraphChanged,
        NodesChanged,
        AttemptDeployed,
        AttemptFinished,
        AttemptFailed,
        AttemptCanceled,
        PartitionsLost,
        NodeLost,
        DriverLost,
        SlowTasksFound,
        NodeBlockRequested,
        NodeUnblockRequested,
        RerunRequested,
        Tick,
    )
}


def to_record(event: Event) -> dict[str, Any]:
    """{"type": "AttemptDeployed", "attempt": "delays[3]#1", ...}; `from_record` reads it back, equal."""
    return {"type": type(event).__name__, **encode(event)}


def from_record(record: dict[str, Any]) -> Event:
    """The event of a record. Raises ValueError when its type or a field is unknown, missing or wrong."""
    if not isinstance(record, dict):
        raise ValueError(f"an event's record must be an object, and is {record!r}")
    name = record.get("type")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"unknown event {name!r}; this version knows {', '.join(EVENT_TYPES)}")
    event: Event = decode(kind, {key: value for key, value in record.items() if key != "type"}, str(name))
    return event
