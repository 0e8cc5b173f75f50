"""What a failover will do, worked out before anybody does it: shown at once, and compared with what is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.core.actions import Action, Restart
from rekindle.core.events import DriverLost
from rekindle.core.graph import ExecutionGraph
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


def plan_driver_lost(graph: ExecutionGraph, reason: str, now: float) -> RecoveryPlan:
    """The plan for a job whose driver is gone. Changes `graph`."""
    return plan_of(graph, graph.handle(DriverLost(reason), now))


def plan_of(graph: ExecutionGraph, actions: Iterable[Action]) -> RecoveryPlan:
    """The plan that the graph's answers are."""
    again: dict[str, set[int]] = {}
    for restart in (action for action in actions if isinstance(action, Restart)):
        for vertex in restart.vertices:
            again.setdefault(vertex.vertex, set()).add(vertex.subtask)
    order = graph.job_graph.order
    restarted = {name: ranges_of(again[name]) for name in order if name in again}
    return RecoveryPlan(restarted, graph.available(), graph.left())
