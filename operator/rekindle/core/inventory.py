"""The inventory of a job: which result partitions there are and what runs, in groups of subtasks that are alike.

It is what the operator keeps of a job, which it can neither replay nor read the store of. A graph that is restored from
it decides about a lost driver as the job master itself would (S7-9); it knows of no attempt, and of digests only
whether there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from rekindle.core.events import PartitionOutput
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.job_graph import JobEdge
from rekindle.core.job_state import JobState
from rekindle.core.ranges import Ranges, check_ranges, ranges_of, subtasks_of

_SOME_DIGEST = "?"


class Reached(StrEnum):
    """How far a subtask is."""

    WAITING = "WAITING"
    """Nothing is deployed of it."""
    DEPLOYED = "DEPLOYED"
    FINISHED = "FINISHED"


@dataclass(frozen=True, slots=True, order=True)
class Alike:
    """What subtasks of one group have in common.

    Attributes:
        version: of the partition that is there, or being made.
        missing: the partition was made and cannot be read: it is lost, or was released.
        comparable: it has, or had, a digest.
        awaited: finished consumers restart if it comes out differently from the one before.
        empty: it has no rows, and so nothing that a volume could lose.
    """

    reached: Reached = Reached.WAITING
    version: int = 1
    missing: bool = False
    comparable: bool = False
    awaited: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Subtasks of a job vertex that are alike."""

    alike: Alike
    subtasks: Ranges


@dataclass(frozen=True, slots=True)
class JobInventory:
    """Of all job vertices.

    Attributes:
        groups: by job vertex; subtasks that are in none wait, of version 1.
        held: finished subtasks that restart if what they read comes out differently, by exchange.
        released: job vertices whose results were given up.
    """

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    held: Mapping[JobEdge, Ranges] = field(default_factory=dict)
    released: frozenset[str] = frozenset()


def take_inventory(state: JobState) -> JobInventory:
    """The inventory of a job as it is now."""
    expected = state.sparing.expected
    groups = {
        vertex.job_vertex.name: tuple(_groups(state, vertex, expected.get(vertex.job_vertex.name, {})))
        for vertex in state.vertices
    }
    return JobInventory(
        {name: some for name, some in groups.items() if some},
        {edge: ranges_of(subtasks) for edge, subtasks in state.sparing.held.items()},
        frozenset(state.recovery.released),
    )


def restore(state: JobState, inventory: JobInventory) -> None:
    """Bring a job that has not begun to where the inventory says it is.

    Raises ValueError for a vertex, an exchange or a subtask that is not of the job.
    """
    state.submitted = state.changed = True
    awaited: dict[str, dict[int, str]] = {}
    for name, groups in inventory.groups.items():
        if name not in state.job_graph:
            raise ValueError(f"inventory: {name} is no vertex of job graph {state.job_graph.name}")
        vertex = state.vertices[name]
        check_ranges(name, vertex.parallelism, chain.from_iterable(group.subtasks for group in groups))
        for group in groups:
            for subtask in subtasks_of(group.subtasks):
                _put(state, vertex, subtask, group.alike)
            if group.alike.awaited:
                awaited.setdefault(name, {}).update(dict.fromkeys(subtasks_of(group.subtasks), _SOME_DIGEST))
    for edge, ranges in inventory.held.items():
        if edge not in state.job_graph.edges:
            raise ValueError(f"inventory: {edge} is no exchange of job graph {state.job_graph.name}")
        check_ranges(edge.consumer, state.vertices[edge.consumer].parallelism, ranges)
    state.sparing.restore({edge: set(subtasks_of(one)) for edge, one in inventory.held.items()}, awaited)
    state.recovery.released.update(inventory.released)


def _groups(state: JobState, vertex: ExecutionJobVertex, awaited: Mapping[int, str]) -> Iterator[Group]:
    name = vertex.job_vertex.name
    missing = state.partitions.missing(name)
    alike: dict[Alike, list[int]] = {}
    for subtask, task in enumerate(vertex.tasks):
        content = state.partitions.content(name, subtask)
        one = Alike(
            _reached(vertex, subtask),
            task.version,
            subtask in missing,
            content is not None and content.digest is not None,
            subtask in awaited,
            content is not None and not content.bytes,
        )
        alike.setdefault(one, []).append(subtask)
    alike.pop(Alike(), None)
    return (Group(one, ranges_of(subtasks)) for one, subtasks in sorted(alike.items()))


def _reached(vertex: ExecutionJobVertex, subtask: int) -> Reached:
    if subtask in vertex.finished:
        return Reached.FINISHED
    return Reached.WAITING if subtask in vertex.pending else Reached.DEPLOYED


def _put(state: JobState, vertex: ExecutionJobVertex, subtask: int, alike: Alike) -> None:
    name, task = vertex.job_vertex.name, vertex.tasks[subtask]
    task.version = alike.version
    if alike.reached is not Reached.WAITING:
        vertex.pending.discard(subtask)
        reached = ExecutionState.SCHEDULED
        if alike.reached is Reached.FINISHED:
            reached = ExecutionState.FINISHED
            vertex.finished.add(subtask)
        task.put(Execution(ExecutionAttemptID(task.id, 0), reached, 0.0, finished_at=0.0))
    if alike.reached is Reached.FINISHED or alike.comparable:
        digest = _SOME_DIGEST if alike.comparable else None
        state.partitions.add(name, subtask, PartitionOutput(0, 0 if alike.empty else 1, digest))
    if alike.missing:
        state.partitions.lose(name, [subtask])
