"""The job master: runs a job graph on a SparkSession, from the driver.

One loop, one thread that decides. A round is: look (manifests, Spark's tasks, map outputs), hand what was
seen to the core as events, write them to the journal, and only then carry out what the core answered. What
should run is compared with what does run at the end of every round, so a job that was lost, cancelled or
never started is found whatever the reason.

Truth is manifests and the ends of Spark's jobs. Everything else is a hint that may come a round later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import ResultKind
from rekindle.core.options import FailoverOptions
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.errors import PipelineFailed, RekindleError, StoreFull, StoreRefused
from rekindle.runtime.failures import Failure, classify_job_error, classify_task_error
from rekindle.runtime.inputs import InputReader, StoredResult, cached_inputs, input_versions
from rekindle.runtime.journal import Record, note
from rekindle.runtime.open_run import OpenRun
from rekindle.runtime.publish import check_target, publish, sink_of
from rekindle.runtime.scheduler import Scheduler, SparkJob, StageView, TaskView
from rekindle.runtime.stage_run import CopyJob, StageRun
from rekindle.runtime.task import WriterSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.api.settings import RekindleSettings

ROUND_SECONDS = 0.25
_END_SECONDS = 20.0
_ANSWER_SECONDS = 5.0


class JobMaster:
    """Runs one pipeline once. Call `run` from one thread; it returns when the run has ended."""

    def __init__(
        self, graph: PipelineGraph, spark: SparkSession, settings: RekindleSettings, run: OpenRun, *, attempt: int
    ) -> None:
        options = settings.to_core()
        self.graph, self.settings, self.open_run, self._attempt = graph, settings, run, attempt
        self.core = ExecutionGraph(
            graph.to_job_graph(options.speculation),
            speculation=options.speculation,
            failover=options.failover,
            blocklist=options.blocklist,
        )
        self.scheduler = Scheduler(spark)
        self.committed = run.committed
        self._detector = ExecutionTimeBasedSlowTaskDetector(options.slow_tasks)
        self._speculates = options.speculation.enabled
        self._check_interval = options.slow_tasks.check_interval
        self._inputs = InputReader(graph, spark, run.root)
        self._runs: dict[str, StageRun] = {}
        self._retired: list[StageRun] = []
        self._bindings = AttemptBindings()
        self._wake = threading.Event()
        self._records: list[Record] = []
        self._actions: list[act.Action] = []
        self._schemas = dict(run.facts.schemas)
        self._next_check = 0.0
        self._slow_before = False
        self._nodes: dict[str, str] = {}
        self._outcome: act.Finish | act.Fail | None = None
        self._last_failure: Failure | None = None

    # -- the run ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end.

        Raises:
            PipelineFailed: a stage failed for good.
            StoreRefused: the store was lost to another driver, is full or damaged.
        """
        try:
            self._start()
            while self._outcome is None:
                self._round()
                self._wake.wait(ROUND_SECONDS)
                self._wake.clear()
            self._end()
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            self._stop_everything()

    def _start(self) -> None:
        for stage in self.graph.stages:
            check_target(stage, self.open_run.identity)
        now = time.time()
        self._replay()
        self._note("DriverStarted", attempt=self._attempt, writer=self.open_run.writer)
        if self.open_run.facts.events:
            self._resume(now)
        else:
            self._see(ev.JobSubmitted(), now)
        self._flush()

    def _replay(self) -> None:
        """Bring the core to where the last driver's journal ends; what it answered then is done or void."""
        for event, then in self.open_run.facts.events:
            self.core.handle(event, then)

    def _resume(self, now: float) -> None:
        """Tell the core what became true since the journal's last segment, then that the driver was lost."""
        for stage in self._stored_stages():
            self._see_commits(stage, now)
        self._see(ev.DriverLost(reason=f"driver {self._attempt} took over"), now)
        self._see_missing_data(self._finished_and_needed(), now)

    def _round(self) -> None:
        self.open_run.lease.check()
        now = time.time()
        self._see_nodes(now)
        for run in list(self._runs.values()):
            self._observe(run, now)
        self._detect(now)
        if self.core.blocked_nodes(now):
            self._see(ev.Tick(), now)
        self._flush()
        self._keep_blocks(now)
        self._drive(now)
        self._check_store_limit()

    def _end(self) -> None:
        if isinstance(self._outcome, act.Fail):
            raise self._failure_error(self._outcome)
        for stage in self.graph.stages:
            if sink_of(stage) is not None:
                files = publish(stage, self.open_run.root, self._manifests(stage.name), self.open_run.identity)
                self._note("SinkPublished", stage=stage.name, path=stage.sink.target, files=files)  # type: ignore[union-attr]
        self._note("RunFinished", stored_bytes=self.committed.stored_bytes())
        self._flush()
        for stage in self._stored_stages():
            self.committed.release(stage.name)

    def _abandon(self, error: BaseException) -> None:
        """Leave a last note for readers. The store may be the trouble, so this may fail quietly."""
        name = "RunInterrupted" if isinstance(error, KeyboardInterrupt) else "RunFailed"
        record = error.to_record() if isinstance(error, RekindleError) else {"message": str(error)[:2000]}
        try:
            self._note(name, error=record)
            self._flush()
        except RekindleError:
            return

    def _stop_everything(self) -> None:
        runs = [*self._runs.values(), *self._retired]
        for run in runs:
            run.cancel()
        deadline = time.monotonic() + _END_SECONDS
        for run in runs:
            run.join(max(0.0, deadline - time.monotonic()))
        for stage in self.graph.stages:
            self._inputs.drop_cached(stage.name)

    # -- seeing ----------------------------------------------------------------------------------------

    def _see(self, event: ev.Event, now: float) -> None:
        """Hand an event to the core; its answer waits until the journal has the event."""
        self._records.append({"t": now, "kind": "event", "event": ev.to_record(event)})
        self._actions += self.core.handle(event, now)

    def _see_nodes(self, now: float) -> None:
        executors = self.scheduler.executors()
        nodes = tuple(sorted(set(executors.values())))
        if nodes and nodes != tuple(sorted(set(self._nodes.values()))):
            self._see(ev.NodesChanged(nodes), now)
        gone = set(self._nodes) - set(executors)
        if gone:
            self._note("ExecutorsLost", executors=sorted(gone), nodes=sorted({self._nodes[one] for one in gone}))
            self._see_cached_loss(now)
        self._nodes = executors

    def _see_cached_loss(self, now: float) -> None:
        """An executor is gone, and with it perhaps persisted partitions: best effort means given up."""
        lost = tuple(
            ResultPartitionID(name, 0) for name in self._inputs.cached if not self.core.is_finished_for_good(name)
        )
        if lost:
            for partition in lost:
                self._inputs.drop_cached(partition.vertex)
            self._see(ev.PartitionsLost(lost, reason="an executor that held cached partitions is gone"), now)

    def _observe(self, run: StageRun, now: float) -> None:
        if run.error is not None:
            raise run.error
        if run.planned is None:
            return
        views: list[StageView] = []
        for job in run.all_jobs():
            ended = job.ended  # asked before looking, so that the last look comes after the end
            if job.group not in run.reported_jobs:
                seen = self.scheduler.stages_of(job.group)
                views += seen
                self._see_tasks(run, job, seen, now)
                if ended:
                    run.reported_jobs.add(job.group)
                    self._see_ended(run, job, now)
        self._see_commits(run.stage, now, run)
        self._see_lost_map_outputs(run, views, now)

    def _see_tasks(self, run: StageRun, job: SparkJob, views: list[StageView], now: float) -> None:
        """Deployed and failed attempts. The result stage has the highest number of a job's stages."""
        copy = next((copy for copy in run.copies if copy.job is job), None)
        result_stage = max((view.stage for view in views), default=-1)
        for view in views:
            for task in run.new_tasks(view):
                if view.stage == result_stage:
                    self._see_result_task(run, task, copy, now)
                elif task.status == "FAILED" and self._bindings.first_failure(task):
                    self._note("MapTaskFailed", stage=run.stage.name, node=task.node, error=(task.error or "")[:500])

    def _see_result_task(self, run: StageRun, task: TaskView, copy: CopyJob | None, now: float) -> None:
        attempt = self._bindings.attempt_of(task)
        if attempt is None:
            attempt = self._bindings.bind(task, run.stage.name, copy, self.core)
            if attempt is None:
                return
            self._see(ev.AttemptDeployed(attempt, node=task.node, started_at=task.started_at), now)
        if task.status == "FAILED" and self._bindings.first_failure(task):
            failure = classify_task_error(task.error or "", run.stage, task.partition, self._is_damaged)
            self._last_failure = failure
            self._see(ev.AttemptFailed(attempt, failure.cause), now)

    def _see_ended(self, run: StageRun, job: SparkJob, now: float) -> None:
        """A Spark job that failed although nobody cancelled it: Spark has given up."""
        if job.error is None or job.cancelled:
            return
        failure = classify_job_error(job.error, run.stage, self._is_damaged)
        self._last_failure = failure
        if failure.fatal:
            raise failure.error
        partition = failure.partition if failure.partition is not None else job.partitions[0]
        attempts = self.core.current_executions(ExecutionVertexID(run.stage.name, partition))
        live = [one for one in attempts if not one.state.is_terminal]
        if live:
            self._see(ev.AttemptFailed(live[0].attempt_id, failure.cause), now)

    def _see_commits(self, stage: Stage, now: float, run: StageRun | None = None) -> None:
        """Partitions whose manifest is there. The last one of a stage that shuffled is checked first."""
        fresh = [one for one in self.committed.scan(stage.name) if self._is_current(one.stage, one.partition, one.version)]
        self._see_damaged_manifests(stage, now)
        if not fresh:
            return
        if run is not None and run.shuffles and not stage.deterministic:
            reason = self._mixed(run, fresh)
            if reason:
                self._see(ev.PartitionsLost((ResultPartitionID(f"{stage.name}.map", 0),), reason), now)
                return
        if run is not None and run.planned is not None and run.planned.has_map_side:
            self._see_map_side_finished(stage, now)
        for manifest in fresh:
            vertex = ExecutionVertexID(stage.name, manifest.partition)
            attempt = self._bindings.winner(manifest, self.core, vertex, ours=manifest.writer == self.open_run.writer)
            if attempt is None:
                continue
            node = self._bindings.node_of(manifest.task) or "unknown"
            if not self._bindings.is_bound(attempt):  # it was over before it was seen
                self._see(ev.AttemptDeployed(attempt, node, manifest.finished_at - manifest.seconds), now)
            output = ev.PartitionOutput(manifest.rows, manifest.bytes, manifest.digest, node)
            self._see(ev.AttemptFinished(attempt, finished_at=min(manifest.finished_at, now), output=output), now)
        if self.core.is_finished(stage.name):
            self._stage_finished(stage, run, now)

    def _mixed(self, run: StageRun, fresh: Iterable[Any]) -> str | None:
        """Only when this round completes the stage: whether its partitions read the same map outputs."""
        left = set(self.core.unfinished(run.stage.name)) - {manifest.partition for manifest in fresh}
        if left:
            return None
        tasks = [
            manifest.task
            for partition in range(run.stage.partitions)
            if (manifest := self._current_manifest(run.stage.name, partition)) is not None
            and manifest.writer == self.open_run.writer
        ]
        return run.mixed_map_outputs(min(tasks)) if tasks else None

    def _see_map_side_finished(self, stage: Stage, now: float) -> None:
        vertex = ExecutionVertexID(f"{stage.name}.map", 0)
        for execution in self.core.current_executions(vertex):
            if not execution.state.is_terminal:
                self._see(ev.AttemptDeployed(execution.attempt_id, node="*", started_at=now), now)
                self._see(ev.AttemptFinished(execution.attempt_id, now, ev.PartitionOutput(0, 0, None, None)), now)

    def _see_damaged_manifests(self, stage: Stage, now: float) -> None:
        for (name, partition, version), why in list(self.committed.damaged.items()):
            if name == stage.name and self._is_current(name, partition, version):
                self._note("ManifestDamaged", stage=name, partition=partition, version=version, reason=why)
                self._see(ev.PartitionsLost((ResultPartitionID(name, partition),), f"its manifest is damaged: {why}"), now)

    def _see_lost_map_outputs(self, run: StageRun, views: list[StageView], now: float) -> None:
        """The EPHEMERAL rule: Spark would recompute them silently; here it is a partition loss."""
        if self.core.is_finished(run.stage.name) or not run.jobs:
            return
        reason = run.lost_map_output(views)
        if reason is None:
            return
        if run.stage.deterministic:
            self._note("MapOutputsRecomputed", stage=run.stage.name, reason=reason)
            return
        self._see(ev.PartitionsLost((ResultPartitionID(f"{run.stage.name}.map", 0),), reason), now)

    def _see_missing_data(self, stages: Iterable[str], now: float) -> None:
        """Stored partitions whose files are gone or have another size than was written."""
        for name in stages:
            lost, reason = [], ""
            for manifest in self._manifests(name):
                missing = self.committed.missing(manifest)
                if missing:
                    lost.append(ResultPartitionID(name, manifest.partition))
                    reason = missing
            if lost:
                self._see_partitions_lost(name, lost, reason, now)

    def _see_partitions_lost(self, name: str, lost: list[ResultPartitionID], reason: str, now: float) -> None:
        run = self._runs.get(name)
        has_map = any(edge.kind is ResultKind.EPHEMERAL and edge.consumer == name for edge in self.core.job_graph.edges)
        if has_map and (run is None or not run.map_side_intact()):
            lost = [*lost, ResultPartitionID(f"{name}.map", 0)]
        self._note("PartitionsLost", stage=name, partitions=[one.subtask for one in lost if one.vertex == name], reason=reason)
        self._see(ev.PartitionsLost(tuple(lost), reason), now)

    def _detect(self, now: float) -> None:
        if not self._speculates or now < self._next_check:
            return
        self._next_check = now + self._check_interval
        found = self._detector.find_slow(self.core, now)
        if found.slow or self._slow_before:
            self._see(found, now)
            self._evacuate_hung(found)
        self._slow_before = bool(found.slow)

    # -- acting ----------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make what was seen durable, then do what the core answered to it."""
        answered, self._actions = self._actions, []
        now = time.time()
        self._records += [record for action in answered if (record := _told(action, now))]
        if self._records:
            self.open_run.journal.append(self._records)
            self._records = []
        for action in answered:
            self._do(action)

    def _do(self, action: act.Action) -> None:
        match action:
            case act.Deploy(deployments=deployments):
                for deployment in deployments:
                    if deployment.speculative:
                        self._start_copy(deployment)
            case act.Cancel(attempts=attempts, reason=reason):
                for attempt in attempts:
                    self._cancel(attempt, reason)
            case act.Block(node=node):
                self._exclude_node(node)
            case act.Restart(vertices=vertices):
                self._forget(vertices)
            case act.Release(vertex=name):
                self.committed.release(name)
                self._retire(name)
            case act.Finish() | act.Fail():
                self._outcome = action
            case _:
                pass

    def _start_copy(self, deployment: act.Deployment) -> None:
        vertex = deployment.attempt.vertex_id
        run = self._runs.get(vertex.vertex)
        if run is None or run.planned is None:
            return
        run.submit_copy(vertex.subtask, deployment.version, deployment.attempt.attempt)

    def _cancel(self, attempt: ExecutionAttemptID, reason: str) -> None:
        """A loser: end its job if it is a copy, free its slot if it is a task of the stage's own job."""
        run = self._runs.get(attempt.vertex_id.vertex)
        if run is None:
            return
        for copy in run.copies:
            if (copy.partition, copy.attempt) == (attempt.vertex_id.subtask, attempt.attempt):
                copy.job.cancel()
                self._see(ev.AttemptCanceled(attempt), time.time())
                return
        task = self._bindings.task_of(attempt)
        if task is not None:
            self.scheduler.kill_task(task, reason)
        self._see(ev.AttemptCanceled(attempt), time.time())

    def _forget(self, vertices: Iterable[ExecutionVertexID]) -> None:
        """Restarted vertices: stop their jobs; a restarted map side makes the whole plan void."""
        touched = {vertex.vertex for vertex in vertices}
        for stage in self.graph.stages:
            run = self._runs.get(stage.name)
            if run is None:
                continue
            if f"{stage.name}.map" in touched and not stage.deterministic:
                self._retire(stage.name)
            elif stage.name in touched or f"{stage.name}.map" in touched:
                run.cancel()
        for stage in self.graph.stages:
            if stage.exchange is ExchangeMode.CACHED and stage.name in touched:
                self._inputs.drop_cached(stage.name)

    def _retire(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self._note_tasks(run)
            run.cancel()
            self._retired = [one for one in self._retired if not one.join(0)] + [run]

    def _exclude_node(self, node: str) -> None:
        if not self.scheduler.can_exclude():
            return
        for executor, where in self.scheduler.executors().items():
            if where == node:
                self.scheduler.exclude(executor, where)

    def _keep_blocks(self, now: float) -> None:
        """Spark's exclusion has one time-out and does not renew; ours may last longer."""
        blocked = self.core.blocked_nodes(now)
        if not blocked or not self.scheduler.can_exclude():
            return
        excluded = self.scheduler.excluded()
        for executor, node in self._nodes.items():
            if node in blocked and executor not in excluded:
                self.scheduler.exclude(executor, node)

    def _evacuate_hung(self, found: ev.SlowTasksFound) -> None:
        """A copy that is slow itself, while map outputs lie on a blocked node: does that executor live?"""
        blocked = self.core.blocked_nodes(time.time())
        for vertex, attempts, _ in found.slow:
            run = self._runs.get(vertex.vertex)
            copies = {copy.attempt for copy in run.copies} if run else set()
            if run is None or not any(attempt.attempt in copies for attempt in attempts):
                continue
            for executor in run.map_output_holders():
                node = self._nodes.get(executor)
                if node in blocked and not self.scheduler.answers(executor, _ANSWER_SECONDS):
                    self._note("ExecutorGivenUp", executor=executor, node=node, stage=vertex.vertex,
                               reason="it holds map outputs that a copy waits for, and does not answer")
                    self.scheduler.kill_executor(executor)

    # -- driving: what should run, and does it? --------------------------------------------------------

    def _drive(self, now: float) -> None:
        if self._outcome is not None:
            return
        for stage in self._stored_stages():
            wanted = self._wanted(stage)
            if wanted:
                self._drive_stage(stage, wanted, now)

    def _wanted(self, stage: Stage) -> dict[int, int]:
        """Partitions that the core has deployed and that are not finished: partition -> version."""
        return {
            partition: self.core.version(ExecutionVertexID(stage.name, partition))
            for partition in self.core.unfinished(stage.name)
            if self.core.is_deployed(ExecutionVertexID(stage.name, partition))
        }

    def _drive_stage(self, stage: Stage, wanted: dict[int, int], now: float) -> None:
        inputs = input_versions(self.graph, stage, self._versions())
        run = self._runs.get(stage.name)
        if run is not None and run.inputs != inputs:
            self._retire(stage.name)
            run = None
        if run is None:
            self._plan(stage, inputs, now)
            return
        if run.planned is None:
            return
        self._note_planned(run)
        covered = run.covered()
        stale = [job for job in run.jobs if not job.ended and any(
            partition in wanted and run.version_of(partition) != wanted[partition] for partition in job.partitions)]
        for job in stale:
            job.cancel()
        missing = {partition: version for partition, version in wanted.items() if covered.get(partition) != version}
        if missing and not stale:
            run.submit(missing)

    def _plan(self, stage: Stage, inputs: tuple[tuple[str, tuple[int, ...]], ...], now: float) -> None:
        """Plan a stage, unless an input has lost data: then the core hears of that instead."""
        before = len(self._actions)
        self._see_missing_data([name for name, _ in inputs], now)
        if len(self._actions) != before:
            self._flush()
            return
        run = StageRun(stage, self.scheduler, inputs, self.graph.name, self._wake.set)
        self._runs[stage.name] = run
        stored = {name: StoredResult(self._schemas[name], tuple(self._manifests(name))) for name, _ in inputs}
        run.plan_in_background(
            lambda: self._inputs.frame(stage, stored.__getitem__), lambda _, hashed: self._writer(stage, hashed)
        )
        self._note("StageStarted", stage=stage.name, partitions=stage.partitions)

    def _note_planned(self, run: StageRun) -> None:
        assert run.planned is not None
        name, schema = run.stage.name, run.planned.schema
        if run.noted:
            return
        run.noted = True
        known = self._schemas.get(name)
        if known is not None and known != schema and len(self.core.unfinished(name)) < run.stage.partitions:
            raise StoreRefused(
                f"stage {name}: its schema changed since this run began\n  stored: {known}\n  now:    {schema}",
                remedy="undo the change of its input or code, or begin anew with --fresh",
                stage=name,
            )
        self._schemas[name] = schema
        self._note("StagePlanned", stage=name, schema=schema, comparable=run.planned.hashed,
                   map_side=run.planned.has_map_side)

    def _writer(self, stage: Stage, hashed: bool) -> WriterSpec:
        layout, sink = self.open_run.layout, sink_of(stage)
        return WriterSpec(
            root=str(self.open_run.root),
            stage=stage.name,
            writer=self.open_run.writer,
            manifests=layout.manifests(stage.name),
            data=tuple(layout.data(stage.name, volume) for volume in range(layout.volumes)),
            format=sink.format if sink else "parquet",
            hashed=hashed,
        )

    def _stage_finished(self, stage: Stage, run: StageRun | None, now: float) -> None:
        """All manifests are there: what still runs is cancelled, what lost is removed."""
        if run is not None:
            self._note_tasks(run)
            run.cancel()
        manifests = self._manifests(stage.name)
        self.committed.remove_losers(stage.name, {one.partition: one.version for one in manifests})
        self._note("StageFinished", stage=stage.name, rows=sum(one.rows for one in manifests),
                   bytes=sum(one.bytes for one in manifests))

    def _note_tasks(self, run: StageRun) -> None:
        """How much Spark ran for a stage since the last such note, for the report."""
        map_tasks, seconds = run.tasks_since()
        self._note("StageTasks", stage=run.stage.name, map_tasks=map_tasks, task_seconds=round(seconds, 3))

    # -- small questions -------------------------------------------------------------------------------

    def _stored_stages(self) -> list[Stage]:
        return [stage for stage in self.graph.stages if stage.exchange is ExchangeMode.BLOCKING]

    def _finished_and_needed(self) -> list[str]:
        """Finished results that an unfinished stage reads, or that a sink shows."""
        needed = []
        for stage in self._stored_stages():
            readers = [one for one in self.graph.consumers(stage.name) if one.exchange is not ExchangeMode.BLOCKING
                       or not self.core.is_finished(one.name)]
            if self.core.is_finished(stage.name) and (readers or stage.sink is not None):
                needed.append(stage.name)
        return needed

    def _versions(self) -> dict[str, tuple[int, ...]]:
        return {
            stage.name: tuple(
                self.core.version(ExecutionVertexID(stage.name, partition)) for partition in range(stage.partitions)
            )
            for stage in self._stored_stages()
        }

    def _manifests(self, name: str) -> list[Any]:
        found = [self._current_manifest(name, partition) for partition in range(self.graph.stage(name).partitions)]
        return [manifest for manifest in found if manifest is not None]

    def _current_manifest(self, name: str, partition: int) -> Any:
        version = self.core.version(ExecutionVertexID(name, partition))
        return self.committed.get(name, partition, version)

    def _is_current(self, name: str, partition: int, version: int) -> bool:
        return 0 <= partition < self.graph.stage(name).partitions and version == self.core.version(
            ExecutionVertexID(name, partition)
        )

    def _is_damaged(self, stage: str, partition: int, version: int) -> bool:
        """Whether a stored partition cannot be read back: looked at when a task fails over it."""
        manifest = self.committed.get(stage, partition, version)
        if manifest is None or self.committed.missing(manifest):
            return True
        return manifest.corrupt(self.open_run.root) is not None

    def _check_store_limit(self) -> None:
        limit = self.settings.recovery.store_limit
        if limit is not None and self.committed.stored_bytes() > limit:
            raise StoreFull(
                f"the store {self.open_run.root} holds {self.committed.stored_bytes()} bytes, its limit is {limit}",
                remedy="raise recovery.storeLimit or store less; the next run goes on from what is stored",
            )

    def _failure_error(self, outcome: act.Fail) -> RekindleError:
        if self._last_failure is not None:
            return self._last_failure.error
        return PipelineFailed(f"the pipeline failed: {outcome.cause}")

    def _note(self, name: str, **fields: Any) -> None:
        self._records.append(note(time.time(), name, **fields))


def _told(action: act.Action, now: float) -> Record | None:
    """The record of an action for readers; deployments and cancellations are many and follow from events."""
    match action:
        case act.Restart(vertices=vertices, cause=cause, reused=reused):
            return {"t": now, "kind": "action", "action": "Restart", "vertices": [[one.vertex, one.subtask] for one in vertices],
                    "cause": cause, "reused": reused}
        case act.Block(node=node, until=until, cause=cause):
            return {"t": now, "kind": "action", "action": "Block", "node": node, "until": until, "cause": cause}
        case act.Unblock(node=node, reason=reason) | act.BlockRefused(node=node, reason=reason):
            return {"t": now, "kind": "action", "action": type(action).__name__, "node": node, "reason": reason}
        case act.Deploy(deployments=deployments):
            copies = [
                [one.attempt.vertex_id.vertex, one.attempt.vertex_id.subtask, one.attempt.attempt]
                for one in deployments
                if one.speculative
            ]
            return {"t": now, "kind": "action", "action": "Speculate", "attempts": copies} if copies else None
        case act.Release(vertex=vertex):
            return {"t": now, "kind": "action", "action": "Release", "stage": vertex}
        case act.Fail(cause=cause):
            return {"t": now, "kind": "action", "action": "Fail", "cause": cause}
        case _:
            return None
