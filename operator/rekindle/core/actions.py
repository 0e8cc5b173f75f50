"""What the core wants done. Whoever drives it carries these out in order, after the event is durable."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID

EDITED = "the pipeline was edited"
DRIVER_LOST = "the driver was lost"
"""How causes of a Restart begin."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt to deploy; it writes version `version` of its partition (S7-17)."""

    attempt: ExecutionAttemptID
    version: int
    speculative: bool


@dataclass(frozen=True, slots=True)
class Deploy:
    """Deploy these attempts, if it can be on no node of `avoid_nodes`: blocked ones, and a copy's siblings' (S2-45)."""

    deployments: tuple[Deployment, ...]
    avoid_nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Cancel:
    """End these attempts, whether they run or wait for a slot (S2-26). Answer with AttemptCanceled."""

    attempts: tuple[ExecutionAttemptID, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """MARK_BLOCKED: no new tasks on `node`; running ones go on (S3-3). Told once; a renewal is not told."""

    node: str
    until: float
    cause: str


@dataclass(frozen=True, slots=True)
class Unblock:
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class BlockRefused:
    """`node` would be one blocked node too many."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restart:
    """These vertices were reset, or begin anew in another job graph, producers first; what they had written is void.

    Their Deploy follows when their inputs are there. A plain retry of a failed task is no restart.

    Attributes:
        reused: finished result partitions of the job that stay.
    """

    vertices: tuple[ExecutionVertexID, ...]
    cause: str
    reused: int


@dataclass(frozen=True, slots=True)
class Edited:
    """The job has another graph. What had begun and is made again for that, a Restart names."""


@dataclass(frozen=True, slots=True)
class Spare:
    """These finished vertices were to restart, and need not: what they read was made again, equal (S7-7)."""

    vertices: tuple[ExecutionVertexID, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Release:
    """All BLOCKING partitions of job vertex `vertex` may go: no consumer needs them (S7-22, S7-23)."""

    vertex: str


@dataclass(frozen=True, slots=True)
class Finish:
    """All results are there."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The job has used up a failure budget (S6-24)."""

    cause: str


Action = Deploy | Cancel | Block | Unblock | BlockRefused | Restart | Edited | Spare | Release | Finish | Fail
