"""Looking: from manifests and Spark's status to events of the core.

Truth is manifests and the ends of Spark's jobs. Everything else that is seen here is a hint which may come a
round later. What follows from it for the job is `acting`'s, once the journal has it; here only what is void is put
away: plan and jobs of a stage that could not be planned, and what still runs of what is there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import ResultKind
from rekindle.core.recovery_plan import stored_partitions
from rekindle.pipeline.fusion import cached_inputs, has_map_side, map_vertex
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import InputLost, PipelineFailed, RekindleError, StoreRefused
from rekindle.runtime.failures import (
    Failure,
    classify_job_error,
    classify_planning_error,
    classify_task_error,
    is_indeterminate,
)
from rekindle.runtime.inputs import CachedResultFailed
from rekindle.runtime.local_checkpoint import DrawnTwice
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import SparkJob, StageView, TaskView
from rekindle.runtime.stage_run import CopyJob, StageRun
from rekindle.runtime.state import RunState

_REPLAN_PAUSES = (1.0, 5.0, 15.0)
"""Seconds before each time that a stage is planned again: an executor that Spark took for lost is back after ten."""
_MAX_LOST_IN_VAIN = 4  # as Spark's own spark.stage.maxConsecutiveAttempts


class Observer:
    """Sees for one run; every method hands what it saw to `state.see`."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self._replans: Counter[str] = Counter()
        self._reached: Counter[str] = Counter()  # activations of loops, when they were planned again last
        self._lost_in_vain: Counter[str] = Counter()
        self._times_lost: Counter[ResultPartitionID] = Counter()
        self._told_commits: set[tuple[int, int, ExecutionAttemptID | None]] = set()
        self._told_damaged: set[tuple[str, int, int]] = set()

    def news(self) -> bool:
        """Whether a stage that runs has manifests that were not read yet."""
        running = (name for name in self.state.runs if not self.state.core.is_finished(name))
        return any(self.state.committed.has_unread(name) for name in running)

    def see_executors(self, now: float) -> None:
        executors = self.state.scheduler.executors()
        nodes = tuple(sorted(set(executors.values())))
        if nodes and nodes != tuple(sorted(set(self.state.executors.values()))):
            self.state.see(ev.NodesChanged(nodes), now)
        gone = set(self.state.executors) - set(executors)
        if gone:
            self.state.note(
                "ExecutorsLost", executors=sorted(gone), nodes=sorted({self.state.executors[one] for one in gone})
            )
            self._lost_in_vain.clear()
        self.state.executors = executors

    def see_cancelled(self, now: float) -> None:
        """Attempts whose jobs this driver has ended for another reason than that they had lost."""
        for job in self.state.bindings.cancelled_jobs():
            self._see_job_over(job, now)

    def _see_job_over(self, job: SparkJob, now: float) -> None:
        """What its tasks stood for runs no more, and runs again where it is wanted: with clocks of its own."""
        for attempt in self.state.bindings.take_from(job):
            executions = self.state.core.current_executions(attempt.vertex_id)
            if any(one.attempt_id == attempt and not one.state.is_terminal for one in executions):
                self.state.see(ev.AttemptCanceled(attempt), now)

    def see_stage(self, run: StageRun, now: float) -> None:
        if run.error is not None:
            if not self.state.core.is_finished(run.stage.name):  # else a late commit of an earlier attempt was enough
                self._see_planning_failed(run, run.error, now)
            self.state.retire(run.stage.name)
            return
        if run.planned is None:
            return
        views: list[StageView] = []
        for job in run.all_jobs():
            ended = job.ended  # asked before looking, so that the last look comes after the end
            if job.group not in run.reported_jobs:
                seen = self.state.scheduler.stages_of(job.group)
                views += seen
                self._see_tasks(run, job, seen, now)
                if ended:
                    run.reported_jobs.add(job.group)
                    self._see_ended(run, job, now)
        told = self._lost_in_vain[run.stage.name]
        self.see_commits(run.stage, now, run)
        if self.state.core.is_finished(run.stage.name) or not run.jobs:
            return
        reason = run.map_side.loss(views)
        if reason is not None and self._lost_in_vain[run.stage.name] <= told:  # else this very loss was seen otherwise
            self._see_lost_map_outputs(run, reason, now)

    def _see_planning_failed(self, run: StageRun, error: RekindleError, now: float) -> None:
        """Not by the function's fault, so that the stage is planned again: as often as it loses inputs, and a few
        times for other reasons. Raises what the user is told where it is the function's fault, or too often."""
        failure = self._why_not_planned(run, run.raised or error)
        if failure is not None and failure.fatal:
            raise failure.error
        if failure is None and not isinstance(error, InputLost):
            raise error
        reason = failure.cause.message if failure is not None else error.message
        self.state.note("PlanningFailed", stage=run.stage.name, reason=reason)
        lost = failure.cause.partition if failure is not None else None
        if lost is not None and not self._see_cached_rows_gone(run, lost, reason, now):
            self._see_partitions_lost(lost.vertex, [lost], reason, now)
        if lost is None:
            self._plan_later(run.stage.name, failure.error if failure is not None else error)

    def _plan_later(self, stage: str, error: RekindleError) -> None:
        """Raises `error` where the stage was planned often enough; of a loop that has come further it counts anew."""
        reached = self.state.activations(stage)
        if reached > self._reached[stage]:
            self._reached[stage], self._replans[stage] = reached, 0
        again = self._replans[stage]
        if again == len(_REPLAN_PAUSES):
            raise error
        self._replans[stage] += 1
        self.state.plan_after[stage] = time.monotonic() + _REPLAN_PAUSES[again]

    def _why_not_planned(self, run: StageRun, raised: BaseException) -> Failure | None:
        """None where it was nothing of Spark's."""
        if not isinstance(raised, CachedResultFailed):
            return classify_planning_error(raised, run.stage, self.state)
        if isinstance(raised.error, DrawnTwice):
            told = PipelineFailed(
                f"stage {raised.stage.name}: {raised.error}, {len(_REPLAN_PAUSES) + 1} times",
                remedy='store its result (exchange="blocking"), where each partition counts once',
                stage=raised.stage.name,
            )
            return Failure(ev.FailureCause(ev.FailureKind.INFRASTRUCTURE, str(raised.error)), told)
        return classify_job_error(raised.error, raised.stage, self.state)

    def _see_cached_rows_gone(self, run: StageRun, lost: ResultPartitionID, reason: str, now: float) -> bool:
        """Whether that is what the stage could not read: no failure of a task's, but an executor's end.

        Cached rows are made again for whoever reads them, so what came of them inside the stage, and between the two,
        is taken for lost with them.
        """
        read = cached_inputs(self.state.graph, run.stage)
        if lost.vertex not in read:
            return False
        self._count_loss(run, reason)
        between = [
            name for name in read if lost.vertex in cached_inputs(self.state.graph, self.state.graph.stage(name))
        ]
        inside = [map_vertex(run.stage.name)] if has_map_side(run.stage) else []
        again = tuple(ResultPartitionID(name, 0) for name in (lost.vertex, *between, *inside))
        self.state.note("PartitionsLost", stage=lost.vertex, partitions=[0], reason=reason)
        self.state.see(ev.PartitionsLost(again, reason), now)
        return True

    def _see_tasks(self, run: StageRun, job: SparkJob, views: list[StageView], now: float) -> None:
        """Deployed and failed attempts. The result stage has the highest number of a job's stages."""
        run.note_ran(views)
        result_stage = max((view.stage for view in views), default=-1)
        for view in views:
            for task in run.new_tasks(view):
                self.state.first_task_at = min(task.started_at, self.state.first_task_at or task.started_at)
                if view.stage == result_stage:
                    self._see_result_task(run, task, job, now)
                elif task.status == "FAILED" and self.state.bindings.first_failure(task):
                    self.state.note(
                        "MapTaskFailed", stage=run.stage.name, node=task.node, error=(task.error or "")[:500]
                    )

    def _see_result_task(self, run: StageRun, task: TaskView, job: SparkJob, now: float) -> None:
        attempt = self.state.bindings.attempt_of(task.task)
        if attempt is None and job.cancelled:
            return  # what is wanted of its partitions, another job makes
        if attempt is None:
            attempt = self.state.bindings.bind(task, run.stage.name, job, run.copies, self.state.core)
            if attempt is None:
                if task.status == "RUNNING":
                    run.unasked[task.partition] = (task, job)
                return
            size = run.input_bytes(task.partition)
            self.state.see(ev.AttemptDeployed(attempt, task.node, task.started_at, size), now)
        if task.status == "FAILED" and self.state.bindings.first_failure(task):
            failure = classify_task_error(task.error or "", run.stage, task.partition, self.state)
            self.state.last_failure = failure
            lost = failure.cause.partition
            if lost is None or not self._see_cached_rows_gone(run, lost, failure.cause.message, now):
                self.state.see(ev.AttemptFailed(attempt, failure.cause), now)

    def _see_ended(self, run: StageRun, job: SparkJob, now: float) -> None:
        """A Spark job that this driver has not cancelled."""
        if job.cancelled:
            return
        if job.error is None:
            self.state.bindings.take_from(job)
            return
        self._see_given_up(run, job, job.error, now)
        self._see_job_over(job, now)

    def _see_given_up(self, run: StageRun, job: SparkJob, error: BaseException, now: float) -> None:
        """Spark has tried it as often as it may."""
        failure = classify_job_error(error, run.stage, self.state)
        copy = next((copy for copy in run.copies if copy.job is job), None)
        if copy is not None:
            self._see_copy_failed(run, copy, failure, now)
            return
        self.state.last_failure = failure
        if run.map_side and is_indeterminate(error):
            self._see_map_side_lost(run, "map outputs were lost that could come out differently", now)
            return
        if failure.fatal:
            raise failure.error
        lost = failure.cause.partition
        if lost is not None and self._see_cached_rows_gone(run, lost, failure.cause.message, now):
            return
        if failure.cause.kind is ev.FailureKind.INFRASTRUCTURE:
            self._count_loss(run, failure.cause.message)
        # The task that it names may have been one of the map side, which has other numbers.
        vertices = (ExecutionVertexID(run.stage.name, partition) for partition in job.partitions)
        executions = (one for vertex in vertices for one in self.state.core.current_executions(vertex))
        live = next((one for one in executions if not one.state.is_terminal), None)
        if live is not None:
            self.state.see(ev.AttemptFailed(live.attempt_id, failure.cause), now)

    def _see_copy_failed(self, run: StageRun, copy: CopyJob, failure: Failure, now: float) -> None:
        """Its original goes on, and may be none the worse: a copy that Spark has given up fails alone."""
        vertex = ExecutionVertexID(run.stage.name, copy.partition)
        for one in self.state.core.current_executions(vertex):
            if one.attempt_id.attempt == copy.attempt and not one.state.is_terminal:
                self.state.see(ev.AttemptFailed(one.attempt_id, failure.cause), now)

    def see_commits(self, stage: Stage, now: float, run: StageRun | None = None) -> None:
        """Partitions whose manifest is there. The last one of a stage that shuffled is checked first.

        Without `run` they are an earlier driver's, who had not looked at them: of a stage that shuffles they do not
        count, for map outputs may have been made again between them, and only that driver could have told.
        """
        self.state.committed.scan(stage.name)
        fresh = self._untold(stage)
        self._see_damaged_manifests(stage, now)
        if not fresh or self.state.core.is_finished(stage.name):
            return
        if run is None and has_map_side(stage) and not self.state.is_deterministic(stage):
            return
        ready = self._ready(run) if run is not None else {}
        if run is not None and run.map_side and not self.state.is_deterministic(stage):
            reason = self._mixed(run)  # after the digest was taken: it must not be of outputs that only the last read
            if reason:
                self._see_map_side_lost(run, reason, now)
                return
        self._lost_in_vain.pop(stage.name, None)
        self._see_map_side_finished(ready, now)
        for manifest in fresh:
            vertex = ExecutionVertexID(stage.name, manifest.partition)
            attempt = self._winner(manifest, vertex)
            if attempt is None:
                continue
            self._told_commits.add((manifest.partition, manifest.version, attempt))
            node = self.state.bindings.node_of(manifest.task) or "unknown"
            started = self.state.bindings.started_at(attempt)
            finished = finished_at(manifest, started, now)
            if started is None:  # it was over before it was seen
                self.state.see(ev.AttemptDeployed(attempt, node, finished - manifest.seconds), now)
            output = ev.PartitionOutput(manifest.rows, manifest.bytes, manifest.digest, node)
            self.state.see(ev.AttemptFinished(attempt, finished_at=finished, output=output), now)
            if run is not None and not self.state.bindings.is_bound(manifest.task):
                run.cancel_copies(manifest.partition)  # the core knows of no loser: one that Spark ran has won
        if self.state.core.is_finished(stage.name):
            self._stage_finished(stage, run)

    def _untold(self, stage: Stage) -> list[Manifest]:
        """Manifests of current versions that the core wants, and was not told of. One that was there before its
        attempt was asked for again (by a failure of the same moment) waits until it is."""
        found: list[Manifest] = []
        for partition in self.state.core.unfinished(stage.name):
            manifest = self.state.current_manifest(stage.name, partition)
            vertex = ExecutionVertexID(stage.name, partition)
            if manifest is None or not self.state.core.is_deployed(vertex):
                continue
            attempt = self._winner(manifest, vertex)
            if (partition, manifest.version, attempt) not in self._told_commits:
                found.append(manifest)
        return found

    def _winner(self, manifest: Manifest, vertex: ExecutionVertexID) -> ExecutionAttemptID | None:
        ours = manifest.writer == self.state.open_run.writer
        return self.state.bindings.winner(manifest, self.state.core, vertex, ours=ours)

    def _mixed(self, run: StageRun) -> str | None:
        """Why the partitions that are stored may have read different map outputs, or None.

        Asked before any of them is told: the core takes what it is told of for readers of what the digest is of.
        """
        unproven = set(self.state.core.suspects())  # the digest of the map side has still to show whether they fit
        vertices = (ExecutionVertexID(run.stage.name, partition) for partition in range(run.stage.partitions))
        read_by = (self._read_by(vertex) for vertex in vertices if vertex not in unproven)
        first = min((task for task in read_by if task is not None), default=None)
        return run.map_side.mixture(first) if first is not None else None

    def _read_by(self, vertex: ExecutionVertexID) -> int | None:
        """A task id: map outputs of later tasks were not read for this partition; None for other drivers' tasks."""
        manifest = self.state.current_manifest(vertex.vertex, vertex.subtask)
        if manifest is None:
            return None
        ours = manifest.task if manifest.writer == self.state.open_run.writer else None
        return self.state.proven.get(ResultPartitionID(vertex.vertex, vertex.subtask), ours)

    def _ready(self, run: StageRun) -> dict[str, str | None]:
        """[what feeds a stage inside Spark, and is not known to be there -> its digest]: the stage has a result.

        The digest of its map side may spare what an earlier run of the same map side fed (S7-7). Where Spark needs
        none, since the rows lie as they are wanted, it is there with them.
        """
        ready: dict[str, str | None] = {}
        for name in cached_inputs(self.state.graph, run.stage):
            if self._is_awaited(name):
                ready[name] = None
        side = map_vertex(run.stage.name)
        if has_map_side(run.stage) and self._is_awaited(side):
            ready[side] = run.map_side.digest()
        return ready

    def _is_awaited(self, name: str) -> bool:
        executions = self.state.core.current_executions(ExecutionVertexID(name, 0))
        return any(not execution.state.is_terminal for execution in executions)

    def _see_map_side_finished(self, ready: Mapping[str, str | None], now: float) -> None:
        for name, digest in ready.items():
            for execution in self.state.core.current_executions(ExecutionVertexID(name, 0)):
                if not execution.state.is_terminal:
                    output = ev.PartitionOutput(0, 0, digest, None)
                    self.state.see(ev.AttemptDeployed(execution.attempt_id, node="*", started_at=now), now)
                    self.state.see(ev.AttemptFinished(execution.attempt_id, now, output), now)

    def _see_damaged_manifests(self, stage: Stage, now: float) -> None:
        """A manifest that cannot be read is a lost partition; each is told once.

        One that nobody has counted on yet is removed: whoever writes that version finds its name free again.
        """
        for key, why in list(self.state.committed.damaged.items()):
            name, partition, version = key
            if name != stage.name or key in self._told_damaged or not self.state.is_current(*key):
                continue
            reason = f"the manifest of {name}/{partition} version {version} is damaged: {why}"
            if partition in self.state.core.unfinished(name):
                self.state.when_durable.append(partial(self.state.committed.remove_damaged, *key))
                if name in self.state.runs:
                    self.state.runs[name].removed(partition)
                self.state.note("PartitionsLost", stage=name, partitions=[partition], reason=reason)
                continue
            self._told_damaged.add(key)
            self._see_partitions_lost(name, [ResultPartitionID(name, partition)], reason, now)

    def _see_lost_map_outputs(self, run: StageRun, reason: str, now: float) -> None:
        """The EPHEMERAL rule: Spark would recompute them silently; here it is a partition loss."""
        if self.state.is_deterministic(run.stage):
            self.state.note("MapOutputsRecomputed", stage=run.stage.name, reason=reason)
            return
        self._see_map_side_lost(run, reason, now)

    def _see_map_side_lost(self, run: StageRun, reason: str, now: float) -> None:
        self._count_loss(run, reason)
        self.state.see(ev.PartitionsLost((ResultPartitionID(map_vertex(run.stage.name), 0),), reason), now)

    def _count_loss(self, run: StageRun, reason: str) -> None:
        """Raises PipelineFailed when a stage has lost what executors held for it again and again, while all of them
        live and none of its partitions gets done: they cannot fetch from each other, or their disks lose files."""
        name = run.stage.name
        self._lost_in_vain[name] += 1
        if self._lost_in_vain[name] <= _MAX_LOST_IN_VAIN:
            return
        last = self.state.last_failure
        seen = f"; the last task that failed says: {last.cause.message}" if last else ""
        raise PipelineFailed(
            f"stage {name}: what executors hold for it was lost, or none could run its tasks, "
            f"{self._lost_in_vain[name]} times; no executor has ended, and no partition of it was stored meanwhile: "
            f"{reason}{seen}",
            remedy="see that executors reach each other (ports, network policies) and keep what they write to their "
            "scratch folders; the next run goes on from what is stored",
            stage=name,
        )

    def see_planned(self, run: StageRun, before: str | None, now: float, *, other_columns: bool = False) -> None:
        """A stage without a map side was planned again, with other values: what is finished of it does not fit.

        Of one with a map side the digest of that has to show it. With other columns what is finished fits in no case.
        """
        assert run.planned is not None
        name, values = run.stage.name, run.planned.values
        self._replans.pop(name, None)
        if other_columns:
            self.state.see(ev.RerunRequested(name, "it was planned with other columns"), now)
            return
        if run.map_side or before in (None, values) or self.state.is_deterministic(run.stage):
            return
        if len(self.state.core.unfinished(name)) < run.stage.partitions:
            reason = "it was planned with other values (the time, or what its function draws)"
            self.state.see(ev.RerunRequested(name, reason), now)

    def see_missing_data(self, stages: Iterable[str], now: float) -> dict[str, frozenset[int]]:
        """Stored partitions whose files are gone or are not what was written; they are returned, by stage."""
        unreadable: dict[str, frozenset[int]] = {}
        for name in stages:
            missing = self._missing_of(name)
            unreadable[name] = frozenset(missing)
            if missing:
                lost = [ResultPartitionID(name, partition) for partition in missing]
                self._see_partitions_lost(name, lost, list(missing.values())[-1], now)
        return unreadable

    def see_what_is_gone(self, now: float) -> None:
        """Of all that is stored, before a new driver has planned anything: whoever reads it, now or after a failure.

        It is one event: who makes it again is worked out from all of it."""
        lost: list[ResultPartitionID] = []
        why = ""
        there = stored_partitions(self.state.core)
        for name in dict.fromkeys(partition.vertex for partition in there):
            missing = self._missing_of(name)
            gone = [one for one in (ResultPartitionID(name, subtask) for subtask in sorted(missing)) if one in there]
            if gone:
                why = missing[gone[0].subtask]
                self._note_lost(name, gone, why)
                lost += gone
        if lost:
            self.state.see(ev.PartitionsLost(tuple(lost), why), now)

    def _missing_of(self, name: str) -> dict[int, str]:
        """[finished partition of a stage whose files, or whose manifest, are not what was written -> why]."""
        finished = set(range(self.state.graph.stage(name).partitions)) - set(self.state.core.unfinished(name))
        gone = sorted(one for one in finished if self.state.current_manifest(name, one) is None)
        removed = {partition: f"the manifest of {name}/{partition} is gone" for partition in gone}
        return self.state.committed.all_missing(self.state.manifests(name)) | removed

    def _see_partitions_lost(self, name: str, lost: list[ResultPartitionID], reason: str, now: float) -> None:
        self._count_lost(lost, reason)
        run = self.state.runs.get(name)
        has_map = any(
            edge.kind is ResultKind.EPHEMERAL and edge.consumer == name for edge in self.state.core.job_graph.edges
        )
        if has_map and (run is None or not run.map_side_intact()):
            lost = [*lost, ResultPartitionID(map_vertex(name), 0)]
        self._note_lost(name, lost, reason)
        self.state.see(ev.PartitionsLost(tuple(lost), reason), now)

    def _note_lost(self, name: str, lost: list[ResultPartitionID], reason: str) -> None:
        subtasks = [one.subtask for one in lost if one.vertex == name]
        self.state.note("PartitionsLost", stage=name, partitions=subtasks, reason=reason)

    def _count_lost(self, lost: Iterable[ResultPartitionID], reason: str) -> None:
        """Raises StoreRefused where the same partition is gone each time that it has been made."""
        made = [one for one in lost if one.subtask not in self.state.core.unfinished(one.vertex)]
        self._times_lost.update(made)
        for partition in made:
            if self._times_lost[partition] > _MAX_LOST_IN_VAIN:
                raise StoreRefused(
                    f"{partition} has been made, and was lost, {self._times_lost[partition]} times: {reason}",
                    remedy="see that driver and executors have the same volumes mounted at recovery.store, "
                    "and that nobody else removes files there",
                    stage=partition.vertex,
                )

    def _stage_finished(self, stage: Stage, run: StageRun | None) -> None:
        """All manifests are there: what still runs is cancelled, what lost is removed."""
        if run is not None:
            self.state.note_tasks(run)
            run.cancel()
        manifests = self.state.manifests(stage.name)
        versions = {one.partition: one.version for one in manifests}
        self.state.when_durable.append(partial(self.state.committed.remove_losers, stage.name, versions))
        self.state.note(
            "StageFinished",
            stage=stage.name,
            rows=sum(one.rows for one in manifests),
            bytes=sum(one.bytes for one in manifests),
        )


def finished_at(manifest: Manifest, started_at: float | None, now: float) -> float:
    """When a partition was finished, by the driver's clock: the executor's, which the manifest has, may go wrong."""
    earliest = manifest.finished_at if started_at is None else started_at + manifest.seconds
    return min(max(manifest.finished_at, earliest), now)
