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
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import ExecutionAttemptID, ResultPartitionID
from rekindle.core.job_state import JobState
from rekindle.core.regions import Subtasks, together
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
        state.partitions.add(task.id.vertex, task.id.subtask, event.output)
        actions = self._cancel_losers(task, winner) if task.has_siblings else []
        if state.sparing.is_waiting:
            compared = state.recovery.compare(task.id, event.output.digest, now)
            state.changed |= bool(compared)
            actions += compared
        state.changed |= vertex.is_finished
        return actions

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
        match rule_for(task, event.cause):
            case FailureRule.GO_ON:
                task.drop(event.attempt)
                return []
            case FailureRule.RESTART_PRODUCER:
                return self._restart_producer(task, event, now)
            case FailureRule.RESTART_VERTEX:
                return self._restart_vertex(task, event, now)

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

    def _restart_producer(self, task: ExecutionVertex, event: AttemptFailed, now: float) -> list[Action]:
        """What the attempt could not read is made again, although a sibling runs (S2-30). Where it turns out that
        nothing is missing, the sibling goes on."""
        lost = self._lost_to(task, event.cause)
        if not lost:
            task.drop(event.attempt)
            return []
        return self._restart(task, event, lost, now)

    def _restart_vertex(self, task: ExecutionVertex, event: AttemptFailed, now: float) -> list[Action]:
        """Retry or restart a vertex; and make again the partition it could not read (S2-28, S2-34)."""
        lost = self._lost_to(task, event.cause)
        if lost:
            return self._restart(task, event, lost, now)
        self._state.changed = True
        return self._state.recovery.recover({task.id.vertex: {task.id.subtask}}, _why(event), now)

    def _restart(self, task: ExecutionVertex, event: AttemptFailed, lost: Subtasks, now: float) -> list[Action]:
        self._state.changed = True
        failed = {task.id.vertex: {task.id.subtask}}
        return self._state.recovery.restart(together(failed, lost), _why(event), now)

    def _lost_to(self, task: ExecutionVertex, cause: FailureCause) -> Subtasks:
        """Who must make again what an attempt could not read; nobody, where none of it is missing and needed."""
        state = self._state
        if cause.kind is not FailureKind.PARTITION or cause.partition is None or task.id.vertex in state.needs.done():
            return {}
        return state.recovery.lose(self._unreadable(task.id.vertex, cause.partition))

    def _unreadable(self, vertex: str, partition: ResultPartitionID) -> list[ResultPartitionID]:
        """The partition; and all results between it and the vertex, which are kept by executors.

        For whoever reads such a result reads the partition only because the result has to be made again.
        """
        graph = self._state.job_graph
        between = self._between(partition.vertex, vertex)
        again = [ResultPartitionID(name, one) for name in between for one in range(graph.vertex(name).parallelism)]
        return [partition, *again]

    def _between(self, producer: str, consumer: str) -> list[str]:
        """Job vertices on the ways from one to the other, if what they make is not stored."""
        found: list[str] = []
        for edge in self._state.job_graph.inputs(consumer):
            if not edge.kind.is_stored and edge.producer != producer:
                further = self._between(producer, edge.producer)
                reads = any(one.producer == producer for one in self._state.job_graph.inputs(edge.producer))
                found += [*further, edge.producer] if further or reads else []
        return list(dict.fromkeys(found))

    def _may_commit(self, execution: Execution) -> bool:
        """An attempt that runs; or one that was given up, if what it wrote is stored all the same."""
        if execution.state.is_terminal:
            return self._state.job_graph.is_stored(execution.attempt_id.vertex_id.vertex)
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


def _why(event: AttemptFailed) -> str:
    return f"{event.attempt} failed: {event.cause.message}"
