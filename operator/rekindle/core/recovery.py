"""Carrying out a failover: who is reset, who is only tried again, and what that voids.

A *restart* resets vertices: their attempts end, what they wrote is void, and they begin a new version. A
*retry* only makes a new attempt of the same version. It is enough where a task failed alone: nothing else
has to restart with it, so nothing has read what it had written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rekindle.core.actions import Action, Cancel, Restart, Spare
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex, ExecutionVertices
from rekindle.core.failover import FailoverStrategy, Reach
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import JobGraph
from rekindle.core.metrics import Counters
from rekindle.core.needs import PartitionNeeds
from rekindle.core.partitions import ResultPartitions
from rekindle.core.regions import Subtasks, in_order, together
from rekindle.core.sparing import DigestSparing


@dataclass
class Recovery:
    """Restarts and retries, and the counters they move.

    Attributes:
        released: job vertices whose partitions were given up and not made again since.
    """

    job_graph: JobGraph
    vertices: ExecutionVertices
    partitions: ResultPartitions
    needs: PartitionNeeds
    sparing: DigestSparing
    strategy: FailoverStrategy
    counters: Counters
    released: set[str] = field(default_factory=set)

    def recover(self, failed: Subtasks, cause: str, now: float) -> list[Action]:
        """Of vertices that cannot finish: retry those that failed alone, restart the rest.

        What nobody needs is left: it counts as missing, and is made when it is needed.
        """
        alone: Subtasks = {}
        with_others: Subtasks = {}
        done = self.needs.done()
        for vertex, subtasks in failed.items():
            if vertex in done:
                self.partitions.lose(vertex, subtasks)
            elif self.strategy.reach({vertex: subtasks}).restart == {vertex: subtasks}:
                alone[vertex] = subtasks
            else:
                with_others[vertex] = subtasks
        actions = self.restart(with_others, cause, now) if with_others else []
        self._retry(alone, now)
        return actions

    def restart(
        self, failed: Subtasks, cause: str, now: float, *, changed: bool = False, anew: Subtasks | None = None
    ) -> list[Action]:
        """Reset `failed` and whatever else the strategy says.

        Args:
            changed: what they read is not what it was.
            anew: these begin anew for the same cause: there is nothing to reset.
        """
        reach = self.strategy.reach(failed, changed=changed)
        again = together(reach.restart, anew or {})
        if not again:
            return []
        self.sparing.commit(reach.restart, reach.held)
        canceled = self._reset(reach, now)
        restarted = in_order(self.job_graph, again)
        self.counters.add(num_restarts=1, num_restarted_vertices=len(restarted))
        actions: list[Action] = [Cancel(canceled, f"restart: {cause}")] if canceled else []
        return [*actions, Restart(restarted, cause, self.partitions.available)]

    def lose(self, partitions: Iterable[ResultPartitionID]) -> Subtasks:
        """These cannot be read any more. Returns who must make them again: those that somebody needs."""
        done = self.needs.done()
        needed: Subtasks = {}
        for partition in partitions:
            if self._lose(partition) and self.needs.is_needed(partition.vertex, partition.subtask, done):
                needed.setdefault(partition.vertex, set()).add(partition.subtask)
        return needed

    def _lose(self, partition: ResultPartitionID) -> bool:
        """Whether there was anything to lose: a partition, or an attempt whose output goes as it comes."""
        if self.vertices.find(ExecutionVertexID(partition.vertex, partition.subtask)) is None:
            return False
        vertex, subtask = self.vertices[partition.vertex], partition.subtask
        made = subtask in vertex.finished
        if not made and (self.job_graph.is_stored(partition.vertex) or subtask in vertex.pending):
            return False
        self.partitions.lose(partition.vertex, [subtask])
        return True

    def compare(self, made: ExecutionVertexID, digest: str | None, now: float) -> list[Action]:
        """A partition was made: where a lost one with another digest was awaited, its readers restart."""
        differing = self.sparing.finished(made.vertex, made.subtask, digest)
        cause = f"{ResultPartitionID(made.vertex, made.subtask)} differs from the lost one"
        actions = self.restart(differing, cause, now, changed=True) if differing else []
        spared = in_order(self.job_graph, self.sparing.proven())
        if spared:
            self.counters.add(num_spared_vertices=len(spared))
            actions.append(Spare(spared, "what they read was made again, with equal digests"))
        return actions

    def _retry(self, alone: Subtasks, now: float) -> None:
        for vertex, subtasks in alone.items():
            for subtask in subtasks - self.vertices[vertex].pending:
                self.vertices[vertex].retry(subtask, now)
                self.counters.add(num_retries=1)

    def _reset(self, reach: Reach, now: float) -> tuple[ExecutionAttemptID, ...]:
        """Returns the attempts that still ran."""
        canceled: list[ExecutionAttemptID] = []
        for name, subtasks in reach.restart.items():
            vertex = self.vertices[name]
            self.partitions.invalidate(name, subtasks)
            self.released.discard(name)
            for subtask in sorted(subtasks):
                canceled += (one.attempt_id for one in vertex.tasks[subtask].live)
                self._take_off_effective(vertex, subtask)
                vertex.reset(subtask, now)
        return tuple(sorted(canceled))

    def _take_off_effective(self, vertex: ExecutionJobVertex, subtask: int) -> None:
        representative = vertex.tasks[subtask].representative
        if representative.speculative and representative.state is ExecutionState.FINISHED:
            self.counters.add(num_effective_speculative_executions=-1)
