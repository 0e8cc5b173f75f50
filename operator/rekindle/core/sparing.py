"""Sparing finished consumers: a second run that gives the same rows costs no one else a restart (S7-7).

Consumers of a restarted producer restart (S7-5), because a second run may put other rows into its partitions.
Where the lost partitions have digests, that can be seen instead of assumed: a finished consumer is *held*
until the producer has run again. Equal digests, all of them: it is spared. One that differs: it restarts, as
it would have at once.

Consumers are held for each exchange apart, as several producers may be running again. One is spared when no
exchange holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rekindle.core.execution_job_vertex import ExecutionVertices
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph
from rekindle.core.partitions import ResultPartitions
from rekindle.core.regions import PipelinedRegions, Subtasks


@dataclass(frozen=True, slots=True)
class Sparing:
    """Of some finished consumers: who need not restart, and who may have to once the digests are known."""

    spared: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)


class DigestSparing:
    """Who is held, and for which digests.

    Invariant: an exchange holds consumers if and only if digests of its producer are expected.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        regions: PipelinedRegions,
        vertices: ExecutionVertices,
        partitions: ResultPartitions,
    ) -> None:
        self._graph, self._regions, self._vertices, self._partitions = (
            job_graph,
            regions,
            vertices,
            partitions,
        )
        self._held: dict[JobEdge, set[int]] = {}
        self._expected: dict[str, dict[int, str]] = {}  # [producer -> its subtask -> digest that was lost]

    def holds_any_of(self, vertex: str) -> bool:
        return any(edge.consumer == vertex for edge in self._held)

    def holds(self, edge: JobEdge) -> bool:
        """Whether somebody is held who has read the producer over this exchange."""
        return edge in self._held

    def held_of(self, vertex: str) -> set[int]:
        """Finished subtasks of the vertex that may have to restart."""
        return {one for edge, readers in self._held.items() if edge.consumer == vertex for one in readers}

    def awaits(self, vertex: str, subtask: int) -> bool:
        return subtask in self._expected.get(vertex, ())

    @property
    def is_waiting(self) -> bool:
        """Whether anybody is held."""
        return bool(self._held)

    @property
    def held(self) -> dict[JobEdge, frozenset[int]]:
        return {edge: frozenset(consumers) for edge, consumers in self._held.items()}

    @property
    def expected(self) -> dict[str, dict[int, str]]:
        return {vertex: dict(digests) for vertex, digests in self._expected.items()}

    def is_promised(self, edge: JobEdge, *, changed: bool) -> bool:
        """Whether the producer promises to make the same rows again. From what has changed nobody can."""
        return bool(self._graph.vertex(edge.producer).deterministic) and not changed

    def judge(self, edge: JobEdge, producers: set[int], consumers: set[int], *, changed: bool = False) -> Sparing:
        """Who of `consumers`, which have finished, are spared the restart of `producers`; changes nothing.

        Args:
            changed: what some of the producers read may have changed.
        """
        deterministic = self._graph.vertex(edge.producer).deterministic
        if deterministic is False or not consumers or not self._regions.is_alone(edge.consumer):
            return Sparing()
        if self.is_promised(edge, changed=changed):
            return Sparing(spared=set(consumers))
        return Sparing(held=self._comparable(edge, producers, consumers))

    def restore(self, held: dict[JobEdge, set[int]], expected: dict[str, dict[int, str]]) -> None:
        """As it was in another graph of the same job."""
        self._held, self._expected = held, expected

    def commit(self, restart: Subtasks, held: dict[JobEdge, set[int]]) -> None:
        """A failover was decided: `restart` runs again, `held` wait for it. Call it before the reset."""
        for edge, consumers in held.items():
            self._held.setdefault(edge, set()).update(consumers)
        for edge in list(self._held):
            self._held[edge] -= restart.get(edge.consumer, set())
            if not self._held[edge]:
                del self._held[edge]
        producers = {edge.producer for edge in self._held}
        for vertex in producers & restart.keys():
            self._expect(vertex, restart[vertex])
        for vertex in self._expected.keys() - producers:
            del self._expected[vertex]

    def finished(self, vertex: str, subtask: int, digest: str | None) -> Subtasks:
        """A partition was made (again). Returns the consumers to restart since it differs, normally none."""
        expected = self._expected.get(vertex, {}).pop(subtask, None)
        if expected is None or expected == digest:
            return {}
        differing: Subtasks = {}
        for edge in self._graph.outputs(vertex):
            readers = self._held.get(edge, set()) & set(self._graph.consumers(edge, subtask))
            differing.setdefault(edge.consumer, set()).update(readers)
        return {consumer: readers for consumer, readers in differing.items() if readers}

    def proven(self) -> Subtasks:
        """Consumers that nothing holds any more: all they had read was made again, equal. Told once."""
        free = [edge for edge in self._held if not self._expected.get(edge.producer)]
        let_go: Subtasks = {}
        for edge in free:
            self._expected.pop(edge.producer, None)
            let_go.setdefault(edge.consumer, set()).update(self._held.pop(edge))
        for edge, consumers in self._held.items():
            let_go.get(edge.consumer, set()).difference_update(consumers)
        return {vertex: subtasks for vertex, subtasks in let_go.items() if subtasks}

    def _comparable(self, edge: JobEdge, producers: set[int], consumers: set[int]) -> set[int]:
        """Consumers for which every digest is known that the second run must give."""
        already = self._held.get(edge, set())
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            new = consumers - already if self._fit(edge.producer, producers, None) else set()
            kept = consumers & already if self._expectable(edge.producer, producers) else set()
            return new | kept
        fit: set[int] = set()
        for consumer in consumers:
            read = self._graph.producers(edge, consumer)
            lost = producers.intersection(read)
            holds = self._expectable if consumer in already else lambda v, s, r=read: self._fit(v, s, r)
            if holds(edge.producer, lost):
                fit.add(consumer)
        return fit

    def _fit(self, vertex: str, lost: set[int], read: Iterable[int] | None) -> bool:
        """A consumer not held yet: it read finished partitions only, and the lost ones have digests."""
        finished = self._vertices[vertex].finished
        whole = self._vertices[vertex].is_finished if read is None else finished.issuperset(read)
        return whole and all(self._digest(vertex, subtask) is not None for subtask in lost)

    def _expectable(self, vertex: str, lost: Iterable[int]) -> bool:
        """A consumer that is held: each lost partition has a digest, or its digest is expected already."""
        expected = self._expected.get(vertex, {})
        return all(subtask in expected or self._digest(vertex, subtask) is not None for subtask in lost)

    def _expect(self, vertex: str, subtasks: Iterable[int]) -> None:
        for subtask in subtasks:
            digest = self._digest(vertex, subtask)
            if digest is not None:
                self._expected.setdefault(vertex, {})[subtask] = digest

    def _digest(self, vertex: str, subtask: int) -> str | None:
        content = self._partitions.content(vertex, subtask)
        return content.digest if content is not None else None
