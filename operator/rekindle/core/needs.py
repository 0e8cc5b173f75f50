"""Which result partitions somebody still needs, and which nobody does any more."""

from __future__ import annotations

from rekindle.core.execution_job_vertex import ExecutionVertices
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, ResultKind
from rekindle.core.sparing import DigestSparing

_PASSING = (ResultKind.EPHEMERAL, ResultKind.CACHED)


class PartitionNeeds:
    """Who still needs what, worked out from the executions and never kept."""

    def __init__(self, job_graph: JobGraph, vertices: ExecutionVertices, held: DigestSparing) -> None:
        self._graph, self._vertices, self._held = job_graph, vertices, held

    def is_needed(self, vertex: str, subtask: int, done: set[str]) -> bool:
        """A result of the job itself, what an unfinished consumer reads that is not `done`, and what will show
        whether finished ones must restart."""
        if self._held.awaits(vertex, subtask):
            return True
        edges = self._graph.outputs(vertex)
        return not edges or any(edge.consumer not in done and self._is_unread(edge, subtask) for edge in edges)

    def _is_unread(self, edge: JobEdge, subtask: int) -> bool:
        """Whether a consumer of a partition has not finished."""
        consumer = self._vertices[edge.consumer]
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            return not consumer.is_finished
        return any(reader not in consumer.finished for reader in self._graph.consumers(edge, subtask))

    def done(self) -> set[str]:
        """Job vertices that need not run any more, as things are.

        They have finished, with no subtask held back; or their results are not stored and all who read them
        are done with these: a shuffle is of no use after its stage.
        """
        done: set[str] = set()
        for name in reversed(self._graph.order):
            edges = self._graph.outputs(name)
            passing = edges and all(edge.kind in _PASSING and self._has_done_with(edge, done) for edge in edges)
            if (passing or self._vertices[name].is_finished) and not self._held.holds_any_of(name):
                done.add(name)
        return done

    def _has_done_with(self, edge: JobEdge, done: set[str]) -> bool:
        """Whether the consumer is done; or has finished, and is held back over other exchanges only: should it have
        to restart, what it reads here is made again with it."""
        finished = self._vertices[edge.consumer].is_finished
        return edge.consumer in done or (finished and not self._held.holds(edge))

    def may_restart(self) -> set[str]:
        """Job vertices that a failure may still restart (S7-23).

        Those that are not done; those whose results they read, for a lost partition is made again; what reads
        those, for consumers restart along (S7-5); and whoever made a result that is not stored for one that
        may restart. Losing at once what two generations of finished vertices wrote may reach further: then
        what was released is computed again.
        """
        done = self.done()
        open_ = [name for name in self._graph.order if name not in done]
        todo = [*open_, *(edge.producer for name in open_ for edge in self._graph.inputs(name))]
        found: dict[str, None] = {}
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = None
                todo += (edge.consumer for edge in self._graph.outputs(name))
                todo += (edge.producer for edge in self._graph.inputs(name) if not edge.kind.is_stored)
        return set(found)

    def releasable(self) -> list[str]:
        """Job vertices with BLOCKING results that no consumer needs, nor can need after a failure."""
        over = self.over()
        stored = {edge.producer for edge in self._graph.edges if edge.kind.is_stored}
        return [name for name in self._graph.order if name in over & stored]

    def over(self) -> set[str]:
        """Job vertices that no failure can make run again, and whose results none can make needed again."""
        open_ = self.may_restart()
        return {
            name
            for name in self._graph.order
            if name not in open_ and all(edge.consumer not in open_ for edge in self._graph.outputs(name))
        }
