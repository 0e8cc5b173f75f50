"""What becomes of a vertex when one of its attempts is deployed, finishes, fails or is cancelled (S2)."""

from __future__ import annotations

from rekindle.core.actions import Action
from rekindle.core.events import (
    AttemptCanceled,
    AttemptDeployed,
    AttemptFailed,
    AttemptFinished,
    FailureCause,
    FailureKind,
)
from rekindle.core.execution import Execution, ExecutionState, ExecutionVertex
from rekindle.core.ids import ExecutionAttemptID, ResultPartitionID
from rekindle.core.job_state import JobState
from rekindle.core.regions import together
from rekindle.core.speculation import FailureRule, rule_for


class AttemptHandler:
    """Handles the events of attempts."""

    def __init__(self, state: JobState) -> None:
        self._state = state

    def deployed(self, event: AttemptDeployed, now: float) -> list[Action]:
        task, execution = self._find(event.attempt)
        if task is not None and execution is not None and execution.state is ExecutionState.SCHEDULED:
            task.put(execution.deployed(event.node, event.started_at, event.input_bytes))
            self._state.blocklist.node_seen(event.node)
        return []

    def finished(self, event: AttemptFinished, now: float) -> list[Action]:
        """The first to commit wins (S2-3); an attempt that was given up too, for what it stored is valid."""
        state = self._state
        task = state.vertices.find(event.attempt.vertex_id)
        execution = task.of_this_version(event.attempt) if task is not None else None
        if task is None or execution is None or task.is_finished or not self._may_commit(execution):
            return []
        vertex = state.vertices[task.id.vertex]
        winner = vertex.admit(execution, event.finished_at)
        if winner.speculative:
            state.counters.add(num_effective_speculative_executions=1)
        partition = ResultPartitionID(task.id.vertex, task.id.subtask)
        state.partitions.add(partition.vertex, partition.subtask, event.output)
        losers = self._cancel_losers(task, winner) if task.has_siblings else []
        compared = state.recovery.compare(partition, event.output.digest, now)
        state.changed |= vertex.is_finished or bool(compared)
        return losers + compared

    def failed(self, event: AttemptFailed, now: float) -> list[Action]:
        state = self._state
        task, execution = self._find(event.attempt)
        if task is None or execution is None or execution.state is ExecutionState.CREATED:
            return []
        if execution.state is ExecutionState.CANCELING:
            return self.canceled(AttemptCanceled(event.attempt), now)
        task.put(execution.to(ExecutionState.FAILED))
        state.counters.add(num_failures=1)
        exceeded = state.budget.record(task.id, event.cause.kind)
        if exceeded:
            return state.fail(f"{exceeded}: {event.cause.message}")
        if rule_for(task, event.cause) is FailureRule.GO_ON:
            task.drop(event.attempt)
            return []
        return self._fail_over(event.attempt, event.cause, now)

    def canceled(self, event: AttemptCanceled, now: float) -> list[Action]:
        """A loser has ended; or somebody ended an attempt that was wanted, and it is tried again."""
        task, execution = self._find(event.attempt)
        if task is None or execution is None or execution.state is ExecutionState.CREATED:
            return []
        task.put(execution.to(ExecutionState.CANCELED))
        if task.can_finish:
            task.drop(event.attempt)
            return []
        self._state.changed = True
        failed = {task.id.vertex: {task.id.subtask}}
        return self._state.recovery.recover(failed, f"{event.attempt} was cancelled", now)

    def _fail_over(self, attempt: ExecutionAttemptID, cause: FailureCause, now: float) -> list[Action]:
        """Retry or restart a vertex; and make again the partition it could not read (S2-30, S2-34)."""
        vertex_id = attempt.vertex_id
        state, failed = self._state, {vertex_id.vertex: {vertex_id.subtask}}
        why = f"{attempt} failed: {cause.message}"
        state.changed = True
        if cause.kind is not FailureKind.PARTITION or vertex_id.vertex in state.needs.done():
            return state.recovery.recover(failed, why, now)
        lost = state.recovery.lose(self._unreadable(vertex_id.vertex, cause.partition)) if cause.partition else {}
        return state.recovery.restart(together(failed, lost), why, now)

    def _unreadable(self, vertex: str, partition: ResultPartitionID) -> list[ResultPartitionID]:
        """The partition; and the results in front of the vertex that it goes into, if they are kept by executors.

        For whoever reads such a result reads the partition only because the result has to be made again.
        """
        graph = self._state.job_graph
        kept = [edge.producer for edge in graph.inputs(vertex) if not edge.kind.is_stored]
        between = [name for name in kept if any(edge.producer == partition.vertex for edge in graph.inputs(name))]
        again = [ResultPartitionID(name, one) for name in between for one in range(graph.vertex(name).parallelism)]
        return [partition, *again]

    def _may_commit(self, execution: Execution) -> bool:
        """An attempt that runs; or one that was given up, if what it wrote is stored all the same."""
        if execution.state.is_terminal:
            return self._state.needs.is_stored(execution.attempt_id.vertex_id.vertex)
        return execution.state.can_finish and execution.state is not ExecutionState.CREATED

    def _cancel_losers(self, task: ExecutionVertex, winner: Execution) -> list[Action]:
        actions = self._state.cancel([task], f"{winner.attempt_id} finished first")
        for execution in task.live:  # never deployed
            task.put(execution.to(ExecutionState.CANCELED))
        for execution in task.executions:
            if execution.state.is_terminal and execution.attempt_id != winner.attempt_id:
                task.drop(execution.attempt_id)
        return actions

    def _find(self, attempt: ExecutionAttemptID) -> tuple[ExecutionVertex | None, Execution | None]:
        """The current execution of that id, if it has not ended."""
        task = self._state.vertices.find(attempt.vertex_id)
        execution = task.current(attempt) if task is not None else None
        return task, None if execution is None or execution.state.is_terminal else execution
