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

from rekindle.core.execution_job_vertex import ExecutionVertices
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, ResultKind
from rekindle.core.partitions import ResultPartitions
from rekindle.core.regions import PipelinedRegions, Subtasks, together
from rekindle.core.sparing import DigestSparing


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a failover reaches.

    Attributes:
        restart: the execution vertices to reset.
        held: finished consumers, by exchange, that restart only if the second run differs; unless `restart` has them.
    """

    restart: Subtasks = field(default_factory=dict)
    held: dict[JobEdge, set[int]] = field(default_factory=dict)


class FailoverStrategy(Protocol):
    def reach(self, failed: Subtasks, *, changed: bool = False) -> Reach:
        """What to restart when `failed` must; vertices that were never deployed are left alone.

        Args:
            changed: what `failed` read is not what it was, so no promise holds that they make the same rows again.
        """
        ...


@dataclass(frozen=True, slots=True)
class RestartAllStrategy:
    """Restarts every vertex that was deployed (S6-13)."""

    vertices: ExecutionVertices

    def reach(self, failed: Subtasks, *, changed: bool = False) -> Reach:
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

    def reach(self, failed: Subtasks, *, changed: bool = False) -> Reach:
        walk = _Walk(self)
        for vertex, subtasks in failed.items():
            walk.visit(vertex, subtasks, changed=changed)
        walk.run()
        return walk.result()


class _Walk:
    """One walk. Each region is visited once, and once more when it turns out that what it reads may change, so it
    ends (S7-11); the state it judges by does not change meanwhile (S7-12)."""

    def __init__(self, strategy: RestartPipelinedRegionStrategy) -> None:
        self._strategy, self._graph = strategy, strategy.job_graph
        self._restart: Subtasks = {}
        self._changed: Subtasks = {}
        self._frontier: Subtasks = {}
        self._passing: Subtasks = {}
        self._held: dict[JobEdge, set[int]] = {}

    def visit(self, vertex: str, subtasks: Iterable[int], *, changed: bool) -> None:
        """Rule 1: their regions restart, but for those that are not deployed (S7-9).

        Where what they read has `changed`, or may, they can make other rows even if they are deterministic. It may
        for those that are held: what they have read is being made again.
        """
        for name, members in self._strategy.regions.expand(vertex, subtasks).items():
            waiting = members & self._strategy.vertices[name].waiting_again
            members = members - self._strategy.vertices[name].pending
            if changed:
                self._pass_over(name, waiting)
            doubtful = members if changed else members & self._strategy.sparing.held_of(name)
            known = self._restart.setdefault(name, set())
            new = (members - known) | (doubtful - self._changed.get(name, set()))
            known.update(new)
            self._changed.setdefault(name, set()).update(doubtful)
            if new:
                self._frontier.setdefault(name, set()).update(new)

    def run(self) -> None:
        while self._frontier or self._passing:
            if self._frontier:
                vertex, subtasks = self._frontier.popitem()
                self._visit_missing_inputs(vertex, subtasks)
            else:
                vertex, subtasks = self._passing.popitem()
            self._visit_consumers(vertex, subtasks)

    def result(self) -> Reach:
        return Reach(together(self._restart), self._held)

    def _visit_missing_inputs(self, vertex: str, subtasks: set[int]) -> None:
        """Rule 2."""
        for edge in self._graph.inputs(vertex):
            missing = self._strategy.partitions.missing(edge.producer)
            if missing:  # over a PIPELINED exchange the producer restarts already, being of the same region
                self.visit(edge.producer, self._across(edge, self._graph.producers, subtasks, missing), changed=False)

    def _visit_consumers(self, vertex: str, subtasks: set[int]) -> None:
        """Rule 3."""
        for edge in self._graph.outputs(vertex):
            if edge.kind is not ResultKind.PIPELINED:
                consumer = self._strategy.vertices[edge.consumer]
                left = consumer.started - self._changed.get(edge.consumer, set())
                readers = self._across(edge, self._graph.consumers, subtasks, left)
                self._pass_on(edge, subtasks)
                again = readers & self._restart.get(edge.consumer, set())
                spared = self._spared(edge, subtasks, (readers - again) & consumer.finished)
                # who restarts anyway reads what may have changed, unless it would have been spared for that
                self.visit(edge.consumer, readers - spared - self._unchanged(edge, subtasks, again), changed=True)

    def _pass_on(self, edge: JobEdge, producers: set[int]) -> None:
        """Consumers that wait to run again will read what may have changed: those spared for their sake, on a
        promise, are looked at again."""
        again = self._strategy.vertices[edge.consumer].waiting_again
        if not again or self._strategy.sparing.is_promised(edge, changed=self._any_changed(edge.producer, producers)):
            return
        self._pass_over(edge.consumer, self._across(edge, self._graph.consumers, producers, again))

    def _pass_over(self, vertex: str, waiting: set[int]) -> None:
        """These need no restart, and may make other rows than before."""
        known = self._changed.setdefault(vertex, set())
        new = waiting - known
        known.update(new)
        if new:
            self._passing.setdefault(vertex, set()).update(new)

    def _unchanged(self, edge: JobEdge, producers: set[int], again: set[int]) -> set[int]:
        """Of consumers that restart anyway: those that will read the rows they have read before."""
        promised = self._strategy.sparing.is_promised(edge, changed=self._any_changed(edge.producer, producers))
        return again if promised else set()

    def _any_changed(self, vertex: str, subtasks: set[int]) -> bool:
        return bool(subtasks & self._changed.get(vertex, set()))

    def _spared(self, edge: JobEdge, producers: set[int], finished: set[int]) -> set[int]:
        """Of finished consumers that would not restart otherwise."""
        changed = self._any_changed(edge.producer, producers)
        sparing = self._strategy.sparing.judge(edge, producers, finished, changed=changed)
        if sparing.held and not self._will_be_made(edge, finished - sparing.spared - sparing.held):
            return set(sparing.spared)
        if sparing.held:
            self._held.setdefault(edge, set()).update(sparing.held)
        return sparing.spared | sparing.held

    def _will_be_made(self, edge: JobEdge, restarting: set[int]) -> bool:
        """Whether the second run takes place that a digest is to come from: a shuffle is made only for tasks of
        its stage that run."""
        if edge.kind is not ResultKind.EPHEMERAL or restarting or edge.consumer in self._restart:
            return True
        return not self._strategy.vertices[edge.consumer].is_finished

    def _across(
        self, edge: JobEdge, side: Callable[[JobEdge, int], range], subtasks: set[int], among: set[int]
    ) -> set[int]:
        """Of `among`, the subtasks on the other side of `edge` that some of `subtasks` are connected with."""
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            return set(among)
        return among.intersection(*[{one for subtask in subtasks for one in side(edge, subtask)}])
