"""What a failover will do, worked out before anybody does it: shown at once, and compared with what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.core.actions import DRIVER_LOST, EDITED, Action, Edited, Restart
from rekindle.core.events import DriverLost, PartitionOutput, PartitionsLost
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ResultPartitionID
from rekindle.core.ranges import Ranges, ranges_of


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a failover restarts and what it keeps.

    Attributes:
        restart: the subtasks that begin again, by job vertex, producers first.
        reused: result partitions that stay.
        left: how many subtasks are still to run, by job vertex: those that restart, and those that had not begun.
        why: what there was besides the loss of a driver; of two plans that are the same it may differ.
    """

    restart: Mapping[str, Ranges] = field(default_factory=dict)
    reused: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    why: tuple[str, ...] = field(default=(), compare=False)


def plan_driver_lost(
    graph: ExecutionGraph, reason: str, now: float, is_lost: Callable[[int], bool] | None = None
) -> RecoveryPlan:
    """The plan for a job whose driver is gone, and with it the stored partitions of those subtasks. Changes `graph`."""
    lost = tuple(_on_lost(graph, is_lost)) if is_lost is not None else ()
    actions = graph.handle(PartitionsLost(lost, reason), now) if lost else []
    return plan_of(graph, [*actions, *graph.handle(DriverLost(reason), now)])


def plan_of(graph: ExecutionGraph, actions: Iterable[Action]) -> RecoveryPlan:
    """The plan that the graph's answers are; the first of them may be of a graph that it has no more."""
    actions, again = tuple(actions), dict[str, set[int]]()
    for restart in (action for action in actions if isinstance(action, Restart)):
        for vertex in restart.vertices:
            again.setdefault(vertex.vertex, set()).add(vertex.subtask)
    there = {one: again.get(one, set()) & set(graph.unfinished(one)) for one in graph.job_graph.order}
    restarted = {name: ranges_of(subtasks) for name, subtasks in there.items() if subtasks}
    return RecoveryPlan(restarted, graph.available(), graph.left(), tuple(dict.fromkeys(_why(actions))))


def _why(actions: Iterable[Action]) -> Iterator[str]:
    for action in actions:
        if isinstance(action, Edited):
            yield EDITED
        elif isinstance(action, Restart) and not action.cause.startswith(DRIVER_LOST):
            yield action.cause


def _on_lost(graph: ExecutionGraph, is_lost: Callable[[int], bool]) -> Iterator[ResultPartitionID]:
    """Of an empty partition there is nothing on any volume."""
    for partition, output in stored_partitions(graph).items():
        if output.bytes and is_lost(partition.subtask):
            yield partition


def stored_partitions(graph: ExecutionGraph) -> dict[ResultPartitionID, PartitionOutput]:
    """Stored partitions that are there, as far as the graph knows: where a driver begins, it looks for these."""
    found: dict[ResultPartitionID, PartitionOutput] = {}
    for vertex in filter(graph.job_graph.is_stored, graph.job_graph.order):
        unfinished = set(graph.unfinished(vertex))
        for subtask in range(graph.job_graph.vertex(vertex).parallelism):
            partition = ResultPartitionID(vertex, subtask)
            output = graph.output(partition) if subtask not in unfinished else None
            if output is not None:
                found[partition] = output
    return found
