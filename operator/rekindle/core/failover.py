"""Failover strategies: which execution vertices restart when some have failed (FLIP-1).

The region strategy keeps to three rules:

1. The region of a failed vertex restarts (S7-2).
2. The region that made a partition which a restarting region reads, and which is missing, restarts
   (S7-3, S7-4).
3. The regions that read what a restarting region makes restart (S7-5), for its second run may give other
   rows; unless `core.sparing` can tell that it will not.

It is one breadth-first walk. What is visited is kept as sets of subtasks for each job vertex, and an
all-to-all exchange is looked at as a whole: the cost is that of the vertices, not of the edges. A strategy
decides and acts on nothing (S7-9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rekindle.core.execution import ExecutionVertices
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, ResultKind
from rekindle.core.partitions import ResultPartitions
from rekindle.core.regions import PipelinedRegions, Subtasks
from rekindle.core.sparing import DigestSparing


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a failover reaches.

    Attributes:
        restart: the execution vertices to reset.
        held: finished consumers, by exchange, that restart only if the second run differs.
    """

    restart: Subtasks = field(default_factory=dict)
    held: dict[JobEdge, set[int]] = field(default_factory=dict)


class FailoverStrategy(Protocol):
    def reach(self, failed: Subtasks) -> Reach:
        """What to restart when `failed` must; vertices that were never deployed are left alone."""
        ...


@dataclass(frozen=True, slots=True)
class RestartAllStrategy:
    """Restarts every vertex that was deployed (S6-13)."""

    vertices: ExecutionVertices

    def reach(self, failed: Subtasks) -> Reach:
        if not any(failed.values()):
            return Reach()
        started = {vertex.job_vertex.name: vertex.started for vertex in self.vertices}
        return Reach({name: subtasks for name, subtasks in started.items() if subtasks})


@dataclass(frozen=True, slots=True)
class RestartPipelinedRegionStrategy:
    """Restarts the failed regions, and what the three rules add (S6-15)."""

    job_graph: JobGraph
    regions: PipelinedRegions
    vertices: ExecutionVertices
    partitions: ResultPartitions
    sparing: DigestSparing

    def reach(self, failed: Subtasks) -> Reach:
        walk = _Walk(self)
        for vertex, subtasks in failed.items():
            walk.visit(vertex, subtasks)
        walk.run()
        return walk.result()


class _Walk:
    """One walk. Each region is visited once, so it ends (S7-11); the state it judges by does not change
    meanwhile (S7-12)."""

    def __init__(self, strategy: RestartPipelinedRegionStrategy) -> None:
        self._strategy, self._graph = strategy, strategy.job_graph
        self._restart: Subtasks = {}
        self._frontier: Subtasks = {}
        self._held: dict[JobEdge, set[int]] = {}

    def visit(self, vertex: str, subtasks: Iterable[int]) -> None:
        """Rule 1: their regions restart, but for those that were never deployed (S7-9)."""
        for name, members in self._strategy.regions.expand(vertex, subtasks).items():
            new = members - self._strategy.vertices[name].pending - self._restart.get(name, set())
            if new:
                self._restart.setdefault(name, set()).update(new)
                self._frontier.setdefault(name, set()).update(new)

    def run(self) -> None:
        while self._frontier:
            vertex = next(iter(self._frontier))
            subtasks = self._frontier.pop(vertex)
            self._visit_missing_inputs(vertex, subtasks)
            self._visit_consumers(vertex, subtasks)

    def result(self) -> Reach:
        held = {edge: readers - self._restart.get(edge.consumer, set()) for edge, readers in self._held.items()}
        return Reach(self._restart, {edge: readers for edge, readers in held.items() if readers})

    def _visit_missing_inputs(self, vertex: str, subtasks: set[int]) -> None:
        """Rule 2."""
        for edge in self._graph.inputs(vertex):
            missing = self._strategy.partitions.missing(edge.producer)
            if missing and edge.kind is not ResultKind.PIPELINED:
                self.visit(edge.producer, self._across(edge, self._graph.producers, subtasks, missing))

    def _visit_consumers(self, vertex: str, subtasks: set[int]) -> None:
        """Rule 3."""
        for edge in self._graph.outputs(vertex):
            if edge.kind is not ResultKind.PIPELINED:
                consumer = self._strategy.vertices[edge.consumer]
                left = consumer.started - self._restart.get(edge.consumer, set())
                readers = self._across(edge, self._graph.consumers, subtasks, left)
                self.visit(edge.consumer, readers - self._spared(edge, subtasks, readers & consumer.finished))

    def _spared(self, edge: JobEdge, producers: set[int], finished: set[int]) -> set[int]:
        sparing = self._strategy.sparing.judge(edge, producers, finished)
        if sparing.held:
            self._held.setdefault(edge, set()).update(sparing.held)
        return sparing.spared | sparing.held

    def _across(
        self, edge: JobEdge, side: Callable[[JobEdge, int], range], subtasks: set[int], among: set[int]
    ) -> set[int]:
        """Of `among`, the subtasks on the other side of `edge` that some of `subtasks` are connected with."""
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            return set(among)
        return among.intersection(*[{one for subtask in subtasks for one in side(edge, subtask)}])
