"""What a failover will do, worked out before anybody does it: shown at once, and compared with what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.core.actions import Action, Restart
from rekindle.core.events import DriverLost, PartitionsLost
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ResultPartitionID
from rekindle.core.job_graph import JobGraph, ResultKind
from rekindle.core.ranges import Ranges, ranges_of


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a failover restarts and what it keeps.

    Attributes:
        restart: the subtasks that begin again, by job vertex, producers first.
        reused: result partitions that stay.
        left: how many subtasks are still to run, by job vertex: those that restart, and those that had not begun.
    """

    restart: Mapping[str, Ranges] = field(default_factory=dict)
    reused: int = 0
    left: Mapping[str, int] = field(default_factory=dict)


def plan_driver_lost(
    graph: ExecutionGraph, reason: str, now: float, is_lost: Callable[[int], bool] = lambda subtask: False
) -> RecoveryPlan:
    """The plan for a job whose driver is gone, and with it the stored partitions of those subtasks. Changes `graph`.

    Readers come first: what they have to read again may be lost, too.
    """
    actions = [
        action
        for vertex in reversed(graph.job_graph.order)
        if (lost := _lost(graph, vertex, is_lost))
        for action in graph.handle(PartitionsLost(lost, reason), now)
    ]
    return plan_of(graph, [*actions, *graph.handle(DriverLost(reason), now)])


def plan_of(graph: ExecutionGraph, actions: Iterable[Action]) -> RecoveryPlan:
    """The plan that the graph's answers are."""
    again: dict[str, set[int]] = {}
    for restart in (action for action in actions if isinstance(action, Restart)):
        for vertex in restart.vertices:
            again.setdefault(vertex.vertex, set()).add(vertex.subtask)
    order = graph.job_graph.order
    restarted = {name: ranges_of(again[name]) for name in order if name in again}
    return RecoveryPlan(restarted, graph.available(), graph.left())


def may_be_read(graph: ExecutionGraph, vertex: str) -> bool:
    """Whether somebody will read what the vertex stores, so that a driver that begins looks whether it is there."""
    job = graph.job_graph
    edges = job.outputs(vertex)
    if not all(edge.kind.is_stored for edge in edges):
        return False
    return not edges or any(_may_read(graph, _stage_of(job, edge.consumer)) for edge in edges)


def _lost(graph: ExecutionGraph, vertex: str, is_lost: Callable[[int], bool]) -> tuple[ResultPartitionID, ...]:
    """What of a vertex is lost. The shuffle that it was made of goes with the driver."""
    if not may_be_read(graph, vertex):
        return ()
    parallelism = graph.job_graph.vertex(vertex).parallelism
    made = set(range(parallelism)) - set(graph.unfinished(vertex))
    return tuple(ResultPartitionID(vertex, subtask) for subtask in sorted(made) if is_lost(subtask))


def _stage_of(job: JobGraph, vertex: str) -> str:
    """The vertex whose map side `vertex` is; itself where it is none."""
    readers = [edge.consumer for edge in job.outputs(vertex) if edge.kind is ResultKind.EPHEMERAL]
    return readers[0] if readers else vertex


def _may_read(graph: ExecutionGraph, vertex: str) -> bool:
    is_stored = all(edge.kind.is_stored for edge in graph.job_graph.outputs(vertex))
    return not is_stored or not graph.is_finished(vertex)
