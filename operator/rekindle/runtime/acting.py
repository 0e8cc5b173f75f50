"""Acting: carrying out what the core decided, on Spark."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.runtime.journal import Record
from rekindle.runtime.stage_run import CopyJob
from rekindle.runtime.state import RunState

_ANSWER_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 30.0


class Actor:
    """Carries out actions for one run. `outcome` is set when the core has finished or given up."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.outcome: act.Finish | act.Fail | None = None
        self._ask_again_at: dict[str, float] = {}

    def do(self, action: act.Action) -> None:
        match action:
            case act.Deploy(deployments=deployments):
                self._start_copies(deployments)
            case act.Cancel(attempts=attempts, reason=reason):
                for attempt in attempts:
                    self._cancel(attempt, reason)
            case act.Block(node=node):
                self._exclude_node(node)
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
        if unasked is not None and unasked.node not in self.state.core.blocked_nodes(time.time()):
            self.state.bindings.adopt(unasked, deployment.attempt)  # Spark's own speculation was quicker
            now = time.time()
            size = run.input_bytes(vertex.subtask)
            self.state.see(ev.AttemptDeployed(deployment.attempt, unasked.node, unasked.started_at, size), now)
            return
        run.submit_copy(vertex.subtask, deployment.version, deployment.attempt.attempt)

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
            if f"{stage.name}.map" in touched and not self.state.is_deterministic(stage):
                self.state.retire(stage.name)
            elif stage.name in touched or f"{stage.name}.map" in touched:
                run.cancel()
        for stage in self.state.graph.stages:
            if stage.exchange is ExchangeMode.CACHED and stage.name in touched:
                self.state.inputs.drop_cached(stage.name)

    def _prove(self, vertices: Iterable[ExecutionVertexID]) -> None:
        """Spared partitions fit the map side as it was when its digest was taken, and no later one."""
        for vertex in vertices:
            run = self.state.runs.get(vertex.vertex)
            if run is not None and run.map_side:
                self.state.proven[ResultPartitionID(vertex.vertex, vertex.subtask)] = run.map_side.digest_up_to

    def _exclude_node(self, node: str) -> None:
        if not self.state.scheduler.can_exclude():
            return
        for executor, where in self.state.scheduler.executors().items():
            if where == node:
                self.state.scheduler.exclude(executor, where)

    def keep_blocks(self, now: float) -> None:
        """Spark's exclusion has one time-out and does not renew; ours may last longer."""
        blocked = self.state.core.blocked_nodes(now)
        if not blocked or not self.state.scheduler.can_exclude():
            return
        excluded = self.state.scheduler.excluded()
        for executor, node in self.state.executors.items():
            if node in blocked and executor not in excluded:
                self.state.scheduler.exclude(executor, node)

    def free_held_map_outputs(self, found: ev.SlowTasksFound, now: float) -> None:
        """Copies that should have ended by now: do they wait for map outputs?

        An executor that holds some and does not answer is killed, and they are lost (the EPHEMERAL rule). One
        that answers, on a blocked node, is decommissioned: it hands its map outputs to others, then ends. Where
        some do not answer, they explain the wait, and the others are left alone.
        """
        patience = self.state.settings.speculation.baseline_lower_bound
        slow = {(vertex.vertex, vertex.subtask) for vertex, _, _ in found.slow}
        for name in sorted({name for name, _ in slow}):
            run = self.state.runs.get(name)
            late = [copy for copy in run.copies if now - copy.submitted_at >= patience] if run else []
            if run is not None and any((name, copy.partition) in slow for copy in late):
                self._free(name, run.map_side.holders(), now)

    def _free(self, stage: str, holders: set[str], now: float) -> None:
        due = [one for one in sorted(holders) if now >= self._ask_again_at.get(one, 0.0)]
        self._ask_again_at |= dict.fromkeys(due, now + _ASK_AGAIN_SECONDS)
        silent = self.state.scheduler.silent(due, _ANSWER_SECONDS)
        blocked = self.state.core.blocked_nodes(now)
        reason = f"it holds map outputs that a copy of stage {stage} waits for"
        for executor in due:
            node = self.state.executors.get(executor)
            if executor in silent:
                self.state.scheduler.kill_executor(executor)
                how, why = "killed", f"{reason}, and does not answer"
            elif not silent and node in blocked and self.state.scheduler.decommission(executor, reason):
                self._ask_again_at[executor] = math.inf
                how, why = "decommissioned", reason
            else:
                continue
            self.state.note("ExecutorGivenUp", executor=executor, node=node, stage=stage, how=how, reason=why)

    def _copy_of(self, attempt: ExecutionAttemptID) -> CopyJob | None:
        """The job of ours that runs `attempt`, None where it is a task of the stage's own job."""
        run = self.state.runs.get(attempt.vertex_id.vertex)
        wanted = (attempt.vertex_id.subtask, attempt.attempt)
        return next((copy for copy in run.copies if (copy.partition, copy.attempt) == wanted), None) if run else None


def told(action: act.Action, now: float) -> Record | None:
    """The record of an action for readers; deployments and cancellations are many and follow from events."""
    match action:
        case act.Restart(vertices=vertices, cause=cause, reused=reused):
            return {
                "t": now,
                "kind": "action",
                "action": "Restart",
                "vertices": [[one.vertex, one.subtask] for one in vertices],
                "cause": cause,
                "reused": reused,
            }
        case act.Block(node=node, until=until, cause=cause):
            return {
                "t": now,
                "kind": "action",
                "action": "Block",
                "node": node,
                "until": until,
                "cause": cause,
            }
        case act.Unblock(node=node, reason=reason) | act.BlockRefused(node=node, reason=reason):
            return {
                "t": now,
                "kind": "action",
                "action": type(action).__name__,
                "node": node,
                "reason": reason,
            }
        case act.Deploy(deployments=deployments):
            copies = [
                [one.attempt.vertex_id.vertex, one.attempt.vertex_id.subtask, one.attempt.attempt]
                for one in deployments
                if one.speculative
            ]
            return {"t": now, "kind": "action", "action": "Speculate", "attempts": copies} if copies else None
        case act.Spare(vertices=vertices, reason=reason):
            spared = [[one.vertex, one.subtask] for one in vertices]
            return {"t": now, "kind": "action", "action": "Spare", "vertices": spared, "reason": reason}
        case act.Release(vertex=vertex):
            return {"t": now, "kind": "action", "action": "Release", "stage": vertex}
        case act.Fail(cause=cause):
            return {"t": now, "kind": "action", "action": "Fail", "cause": cause}
        case _:
            return None
