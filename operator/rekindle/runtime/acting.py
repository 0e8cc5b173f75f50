"""Acting: carrying out what the core decided, on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import map_vertex
from rekindle.runtime.scheduler import SparkJob, TaskView
from rekindle.runtime.stage_run import CopyJob
from rekindle.runtime.state import RunState


class Actor:
    """Carries out actions for one run. `outcome` is set when the core has finished or given up."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.outcome: act.Finish | act.Fail | None = None

    def do(self, action: act.Action) -> None:
        match action:
            case act.Deploy(deployments=deployments):
                self._start_copies(deployments)
            case act.Cancel(attempts=attempts, reason=reason):
                for attempt in attempts:
                    self._cancel(attempt, reason)
            case act.Block(node=node):
                self._exclude_node(node)
            case act.Unblock(node=node):
                self._include_node(node)
            case act.Restart(vertices=vertices):
                self.outcome = None  # a loss found at the last moment undoes the end
                self._forget(vertices)
            case act.Spare(vertices=vertices):
                self._prove(vertices)
            case act.Release(vertex=name):
                self.state.committed.release(name)
                self.state.retire(name)
            case act.Finish() | act.Fail():
                self.outcome = action
            case _:
                pass

    def _start_copies(self, deployments: Iterable[act.Deployment]) -> None:
        """Only copies: what else is to be deployed is seen by `driving`, which compares."""
        for deployment in deployments:
            if deployment.speculative:
                self._start_copy(deployment)

    def _start_copy(self, deployment: act.Deployment) -> None:
        vertex = deployment.attempt.vertex_id
        run = self.state.runs.get(vertex.vertex)
        if run is None or run.planned is None:
            return
        unasked = run.unasked.pop(vertex.subtask, None)
        if unasked is not None and self._is_of_use(*unasked):
            task, job = unasked  # Spark's own speculation was quicker
            self.state.bindings.adopt(task, job, deployment.attempt)
            size = run.input_bytes(vertex.subtask)
            self.state.see(ev.AttemptDeployed(deployment.attempt, task.node, task.started_at, size), time.time())
            return
        run.submit_copy(vertex.subtask, deployment.version, deployment.attempt.attempt)

    def _is_of_use(self, task: TaskView, job: SparkJob) -> bool:
        """Whether a task that nobody had asked for can be a copy: it runs, and not on a blocked node."""
        return not job.ended and not job.cancelled and task.node not in self.state.core.blocked_nodes(time.time())

    def _cancel(self, attempt: ExecutionAttemptID, reason: str) -> None:
        """A loser: end its job if it is a copy, free its slot if it is a task of the stage's own job."""
        if attempt.vertex_id.vertex not in self.state.runs:
            return
        copy, task = self._copy_of(attempt), self.state.bindings.task_of(attempt)
        if copy is not None:
            copy.job.cancel()
        elif task is not None:
            self.state.scheduler.kill_task(task, reason)
        self.state.see(ev.AttemptCanceled(attempt), time.time())

    def _forget(self, vertices: Iterable[ExecutionVertexID]) -> None:
        """Restarted vertices: stop their jobs; a restarted map side makes the whole plan void."""
        vertices = tuple(vertices)
        touched = {vertex.vertex for vertex in vertices}
        for vertex in vertices:
            self.state.proven.pop(ResultPartitionID(vertex.vertex, vertex.subtask), None)
        for stage in self.state.graph.stages:
            run = self.state.runs.get(stage.name)
            if run is None:
                continue
            if stage.name not in touched and map_vertex(stage.name) not in touched:
                continue
            is_void = map_vertex(stage.name) in touched and not self.state.is_deterministic(stage)
            if is_void or run.planned is None:
                self.state.retire(stage.name)
            else:
                run.cancel()
        for stage in self.state.graph.stages:
            if stage.exchange is ExchangeMode.CACHED and stage.name in touched:
                self.state.inputs.cached.drop(stage.name)

    def _prove(self, vertices: Iterable[ExecutionVertexID]) -> None:
        """Spared partitions fit the map side as it was when its digest was taken, and no later one."""
        for vertex in vertices:
            run = self.state.runs.get(vertex.vertex)
            if run is not None and run.map_side:
                self.state.proven[ResultPartitionID(vertex.vertex, vertex.subtask)] = run.map_side.digest_up_to

    def _exclude_node(self, node: str) -> None:
        if not self.state.scheduler.can_exclude():
            return
        self.state.scheduler.executors()
        for executor in self.state.scheduler.executors_on([node]):
            self.state.scheduler.exclude(executor)

    def _include_node(self, node: str) -> None:
        """Spark's exclusion may last longer: it was begun anew while the block was in force."""
        if self.state.scheduler.can_exclude():
            for executor in self.state.scheduler.executors_on([node]):
                self.state.scheduler.include(executor)

    def keep_blocks(self, now: float) -> None:
        """Spark's exclusion has one time-out and does not renew; ours may last longer."""
        blocked = self.state.core.blocked_nodes(now)
        if not blocked or not self.state.scheduler.can_exclude():
            return
        excluded = self.state.scheduler.excluded()
        for executor in self.state.scheduler.executors_on(blocked):
            if executor not in excluded:
                self.state.scheduler.exclude(executor)

    def _copy_of(self, attempt: ExecutionAttemptID) -> CopyJob | None:
        """The job of ours that runs `attempt`, None where it is a task of the stage's own job."""
        run = self.state.runs.get(attempt.vertex_id.vertex)
        wanted = (attempt.vertex_id.subtask, attempt.attempt)
        return next((copy for copy in run.copies if (copy.partition, copy.attempt) == wanted), None) if run else None
