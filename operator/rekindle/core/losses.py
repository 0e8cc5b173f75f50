"""What is lost with a partition, a node or a driver, and who has to make it again (S7)."""

from __future__ import annotations

from rekindle.core.actions import DRIVER_LOST, Action
from rekindle.core.events import DriverLost, FailureKind, NodeLost, PartitionsLost, RerunRequested
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import ExecutionVertexID, ResultPartitionID
from rekindle.core.job_state import JobState
from rekindle.core.regions import Subtasks, together


class LossHandler:
    """Handles the losses that are not one attempt's failure."""

    def __init__(self, state: JobState) -> None:
        self._state = state

    def partitions_lost(self, event: PartitionsLost, now: float) -> list[Action]:
        recovery = self._state.recovery
        self._state.changed = True
        return recovery.restart(recovery.lose(event.partitions), event.reason, now)

    def node_lost(self, event: NodeLost, now: float) -> list[Action]:
        """What ran there has failed; what executors kept there is gone."""
        state = self._state
        state.changed = True
        freed = state.blocklist.node_lost(event.node)
        failed: Subtasks = {}
        for vertex in state.vertices:
            for subtask in sorted(vertex.started):
                exceeded = self._fail_on(event.node, vertex.tasks[subtask])
                if exceeded:
                    return [*freed, *state.fail(f"{exceeded}: {event.reason}")]
                if not vertex.tasks[subtask].can_finish:
                    failed.setdefault(vertex.job_vertex.name, set()).add(subtask)
        cause = f"node {event.node} was lost: {event.reason}"
        lost = state.recovery.lose(self._results_on(event.node))
        actions = state.recovery.restart(lost, cause, now)
        left = {name: subtasks - state.vertices[name].pending for name, subtasks in failed.items()}
        return [*freed, *actions, *state.recovery.recover(together(left), cause, now)]

    def driver_lost(self, event: DriverLost, now: float) -> list[Action]:
        """All that had not finished begins anew, and so does what Spark held for it.

        A job that had failed may try again: somebody has started a driver for it.
        """
        state = self._state
        if state.failed:
            state.budget.clear()
        state.failed = state.told_finish = False
        state.changed = True
        done = state.needs.done()
        for vertex in state.vertices:
            for subtask in vertex.started:
                _end_all(vertex.tasks[subtask])
        unfinished = {
            vertex.job_vertex.name: vertex.started - vertex.finished
            for vertex in state.vertices
            if vertex.job_vertex.name not in done
        }
        lost = state.recovery.lose(
            partition
            for vertex in state.vertices
            if not state.job_graph.is_stored(vertex.job_vertex.name)
            for partition in _partitions(vertex, vertex.started)
        )
        return state.recovery.restart(together(unfinished, lost), f"{DRIVER_LOST}: {event.reason}", now)

    def rerun_requested(self, event: RerunRequested, now: float) -> list[Action]:
        """What the vertex makes is doubted, so no promise spares those who have read it: not even where it waits to be
        made again already, and they were spared for that."""
        if self._state.vertices.find(ExecutionVertexID(event.vertex, 0)) is None:
            return []
        self._state.told_finish = False
        self._state.changed = True
        vertex = self._state.vertices[event.vertex]
        failed = {event.vertex: vertex.started | vertex.waiting_again}
        return self._state.recovery.restart(failed, f"stage {event.vertex} again: {event.reason}", now, changed=True)

    def _fail_on(self, node: str, task: ExecutionVertex) -> str | None:
        """End what ran there. Returns why the job fails, if a budget is used up."""
        for execution in task.executions:
            if execution.node != node or execution.state.is_terminal:
                continue
            exceeded = None
            if execution.state is ExecutionState.CANCELING:
                task.put(execution.to(ExecutionState.CANCELED))
            else:
                task.put(execution.to(ExecutionState.FAILED))
                self._state.counters.add(num_failures=1)
                exceeded = self._state.budget.record(task.id, FailureKind.INFRASTRUCTURE)
            if exceeded:
                return exceeded
            if task.can_finish:
                task.drop(execution.attempt_id)
        return None

    def _results_on(self, node: str) -> list[ResultPartitionID]:
        """Finished partitions that are not stored and were made there."""
        state = self._state
        return [
            partition
            for vertex in state.vertices
            if not state.job_graph.is_stored(vertex.job_vertex.name)
            for partition in _partitions(vertex, vertex.finished)
            if (output := state.partitions.output(partition)) is not None and output.node == node
        ]


def _partitions(vertex: ExecutionJobVertex, subtasks: set[int]) -> list[ResultPartitionID]:
    return [ResultPartitionID(vertex.job_vertex.name, subtask) for subtask in sorted(subtasks)]


def _end_all(task: ExecutionVertex) -> None:
    """No execution of the old driver runs any more; what has finished stays."""
    for execution in task.executions:
        if not execution.state.is_terminal:
            task.put(execution.to(ExecutionState.CANCELED))
            if task.can_finish:
                task.drop(execution.attempt_id)
