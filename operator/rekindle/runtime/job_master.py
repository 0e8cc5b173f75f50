"""The job master: runs a job graph on a SparkSession, from the driver.

One loop, one thread that decides. A round is: look (`observer`), hand what was seen to the core as events,
write the events to the journal, only then carry out what the core answered (`acting`), and at the end compare
what should run with what does (`driving`).

To look for new manifests is cheap and done in every round. To ask Spark what its tasks and executors do costs
CPU that the tasks may need, so it is done once in `LOOK_SECONDS`, and at once when there is news: a partition
was committed, a plan is ready or a job has ended.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.ranges import runs_of
from rekindle.core.recovery_plan import plan_of
from rekindle.core.slow_readers import AnyDetector, SourceTimes, SplitTimeBasedSlowTaskDetector
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, SlowTaskDetector
from rekindle.pipeline.eligibility import may_read_twice
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.acting import Actor
from rekindle.runtime.action_records import told
from rekindle.runtime.connector_facts import sink_facts
from rekindle.runtime.driving import StageDriver
from rekindle.runtime.errors import BEGIN_ANEW, PipelineFailed, RekindleError, StoreFull, StoreRefused
from rekindle.runtime.held_outputs import HeldMapOutputs
from rekindle.runtime.inputs import InputReader
from rekindle.runtime.layout import parse_manifest_name
from rekindle.runtime.loops.loops import Loops, begin_anew, forget_all
from rekindle.runtime.observer import Observer
from rekindle.runtime.open_run import OpenRun
from rekindle.runtime.operator_exchange import OperatorExchange
from rekindle.runtime.publish import check_target, check_targets_apart
from rekindle.runtime.publisher import Publisher
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.sources import SourceReads, listening
from rekindle.runtime.state import RunState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.api.settings import CoreOptions, RekindleSettings

ROUND_SECONDS = 0.25
LOOK_SECONDS = 1.0
_END_SECONDS = 20.0
_LOOP_SECONDS = 5.0


class JobMaster:
    """Runs one pipeline once. Call `run` from one thread; it returns when the run has ended."""

    def __init__(
        self,
        graph: PipelineGraph,
        spark: SparkSession,
        settings: RekindleSettings,
        run: OpenRun,
    ) -> None:
        assert run.facts.first_graph is not None
        options = settings.to_core()
        job_graph = to_job_graph(graph, options.speculation)
        core = ExecutionGraph(
            run.facts.first_graph,
            speculation=options.speculation,
            failover=options.failover,
            blocklist=options.blocklist,
        )
        self._options = ev.OptionsGiven(
            options.speculation,
            options.failover,
            options.blocklist,
            tuple(vertex.name for vertex in job_graph.vertices if vertex.speculative),
        )
        scheduler = Scheduler(spark)
        facts = run.facts
        wake = threading.Event()
        self._sources = SourceReads(
            facts.sources(),
            run.store,
            run.layout,
            facts.settled,
            listening(dict(spark.sparkContext.getConf().getAll()), settings.recovery.store_timeout),
            lambda stage: may_read_twice(stage, options.speculation),
            wake.set,
        )
        self._loops = Loops(graph, run.store, run.layout, scheduler, run.writer)
        inputs = InputReader(graph, spark, run.store, scheduler, self._sources, self._loops)
        schemas, plans = dict(facts.schemas), dict(facts.plans)
        self.state = RunState(graph, settings, run, core, scheduler, inputs, schemas, plans, wake=wake)
        self.state.activations = self._loops.progress.activations
        self._observer = Observer(self.state)
        self._actor = Actor(self.state)
        self._held_outputs = HeldMapOutputs(self.state)
        self._exchange = OperatorExchange(self.state, self._sources.counts)
        self._driver = StageDriver(self.state, self._observer)
        self._attempt = facts.drivers + 1  # of this run, whoever started them
        self._detector = _detector(options, lambda: self._sources.times(self.state.bindings.attempt_of))
        self._check_interval = options.slow_tasks.check_interval
        self._next_check = self._next_look = 0.0  # of the clock that nobody sets
        self._slow_before = False

    def run(self) -> None:
        """Run to the end.

        Raises:
            PipelineFailed: a stage failed for good.
            StoreRefused: the store was lost to another driver, is full or damaged.
        """
        try:
            self._start()
            self._exchange.begin()
            woken = True
            while self._actor.outcome is None:
                self._round(woken)
                woken = self.state.wake.wait(ROUND_SECONDS)
                self.state.wake.clear()
            self._end(self._actor.outcome)
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            self._exchange.end()
            try:
                self._stop_everything()
            finally:
                self._sources.close()

    # -- beginning -------------------------------------------------------------------------------------

    def _start(self) -> None:
        check_targets_apart(self.state.graph.stages)
        for stage in self.state.graph.stages:
            check_target(stage, self.state.open_run.store, self.state.open_run.identity)
        now = time.time()
        facts, answered = self.state.open_run.facts, list[act.Action]()
        for event, then in facts.events:
            answer = self.state.core.handle(event, then)  # what it answered then is done, or void
            self.state.aborted.see(event)
            answered = [*answered, *answer] if isinstance(event, ev.JobGraphChanged) else []
        for stage in self.state.stored_stages() if facts.has_begun else ():
            self._check_journal_tells_of(stage)
        self.state.actions += answered  # but that to the last edits, which no driver has seen to yet
        self.state.records += self.state.open_run.edit  # from here on the pipeline is accepted
        self.state.note("DriverStarted", attempt=self._attempt, writer=self.state.open_run.writer)
        self.state.see(self._options, now)
        for sink in sink_facts(self.state):
            self.state.note(
                "SinkOpened",
                stage=sink.name,
                mode=sink.mode,
                partitions=sink.partitions,
                concurrent_attempts=sink.concurrent_attempts,
                reason=sink.reason,
                sink=sink.kind,
            )
        if facts.has_begun:
            self._resume(now)
        else:
            self.state.see(ev.JobSubmitted(), now)
        self.state.when_durable.append(self._remove_discarded)
        self._flush()

    def _resume(self, now: float) -> None:
        """Tell the core what became true since the journal's last segment, then that the driver was lost."""
        for stage in self.state.stored_stages():
            if stage.name in self.state.schemas:  # else nobody could read it
                self._observer.see_commits(stage, now)
        self._observer.see_what_is_gone(now)
        for name, why in self.state.open_run.facts.reruns.items():
            run = self.state.open_run
            begin_anew(run.store, run.layout, name, run.writer)
            self.state.see(ev.RerunRequested(name, why), now)
        self.state.see(ev.DriverLost(reason=f"driver {self._attempt} took over"), now)
        self.state.resumed = plan_of(self.state.core, self.state.actions)

    def _check_journal_tells_of(self, stage: Stage) -> None:
        """Raises StoreRefused for a stored partition of which the core does not know that it was to be made. Nothing
        else shows that the newest segments are gone; what they told of would be mixed with what is made now."""
        run = self.state.open_run
        for key in filter(None, map(parse_manifest_name, run.store.names(run.layout.manifests(stage.name)))):
            if not self.state.was_asked_for(stage, *key):
                raise StoreRefused(
                    f"the newest segments are gone from {run.store}/{run.layout.journal}: those that are there do not "
                    f"tell of version {key[1]} of {stage.name}/{key[0]}, which is stored",
                    remedy=f"restore them (nothing stored has been changed), or {BEGIN_ANEW}",
                )

    def _remove_discarded(self) -> None:
        """What edits have discarded: this driver's own, and those of drivers that ended before they came to it."""
        stored, versions = {stage.name for stage in self.state.stored_stages()}, self.state.versions()
        for name in sorted(self.state.open_run.facts.discarded):
            current = dict(enumerate(versions[name])) if name in stored else {}
            self.state.committed.remove_older(name, current)

    # -- a round ---------------------------------------------------------------------------------------

    def _round(self, woken: bool) -> None:
        self.state.open_run.lease.check()
        now = time.time()
        looked = woken or time.monotonic() >= self._next_look or self._observer.news()
        self._note_sources()
        self._note_loops()
        if looked:
            self._next_look = time.monotonic() + min(LOOK_SECONDS, self._check_interval)
            self._look(now)
        found = self._detect(now)
        if self.state.core.blocked_nodes(now):
            self.state.see(ev.Tick(), now)
        self._flush()
        if found is not None:
            self._held_outputs.free(found, now)
        if looked:
            self._actor.keep_blocks(now)
        if self._actor.outcome is None:
            self._driver.drive(now)
            self._flush()
        self._exchange.tell(now)
        self._check_store_limit()

    def _look(self, now: float) -> None:
        self._exchange.learn_nodes()
        self._observer.see_executors(now)
        self._exchange.see_blocks(now)
        self._observer.see_cancelled(now)
        for run in list(self.state.runs.values()):
            self._observer.see_stage(run, now)

    def _note_sources(self) -> None:
        """Put into the journal what subtasks of sources read; their readers are told the end when it is there."""
        for source in self._sources.opened():
            self.state.note("SourceOpened", **asdict(source))
        found = list(self._sources.to_settle())
        for one in found:
            self.state.note(
                "SplitsSettled", stage=one.stage, source=one.source, subtask=one.subtask, splits=runs_of(one.splits)
            )
        if found:
            self.state.when_durable.append(partial(self._sources.settled, found))

    def _note_loops(self, every: float = _LOOP_SECONDS) -> None:
        """How far loops are, for people and for the report."""
        for progress in self._loops.progress.news(time.monotonic(), every):
            self.state.note("LoopProgressed", **asdict(progress))

    def _note_reads(self) -> None:
        """How often splits were read again, for the report."""
        for read in self._sources.read():
            self.state.note("SourceRead", **asdict(read))

    def _detect(self, now: float) -> ev.SlowTasksFound | None:
        """Tell the core which tasks are slow; what it was told."""
        if self._detector is None or time.monotonic() < self._next_check:
            return None
        self._next_check = time.monotonic() + self._check_interval
        found = self._detector.find_slow(self.state.core, now)
        if found.slow or self._slow_before:  # an empty report returns the gauge to zero
            self.state.see(found, now)
        self._slow_before = bool(found.slow)
        return found

    def _flush(self) -> None:
        """Make what was seen durable, then do what the core answered to it."""
        answered, self.state.actions = self.state.actions, []
        now = time.time()
        self.state.records += [record for action in answered if (record := told(action, now))]
        if self.state.records:
            self.state.open_run.journal.append(self.state.records)
            self.state.records = []
            due, self.state.when_durable = self.state.when_durable, []
            for call in due:
                call()
        for action in answered:
            self._actor.do(action)

    def _check_store_limit(self) -> None:
        limit = self.state.settings.recovery.store_limit
        if limit is None:
            return
        stored = self.state.stored_bytes()
        if stored > limit:
            raise StoreFull(
                f"the store {self.state.open_run.store} holds {stored} bytes, its limit is {limit}",
                remedy="raise recovery.storeLimit or store less; the next run goes on from what is stored",
            )

    # -- the end ---------------------------------------------------------------------------------------

    def _end(self, outcome: act.Finish | act.Fail) -> None:
        state = self.state
        if isinstance(outcome, act.Fail):
            raise state.last_failure.error if state.last_failure else PipelineFailed(f"it failed: {outcome.cause}")
        self._note_reads()
        self._note_loops()
        Publisher(state, self._flush, self._exchange.tell).publish_all()
        state.note("RunFinished", stored_bytes=state.stored_bytes())
        self._flush()
        try:
            for name in {*(stage.name for stage in state.stored_stages()), *state.open_run.facts.discarded}:
                state.committed.release(name)
            state.open_run.store.delete(state.open_run.layout.all_splits)
            forget_all(state.open_run.store, state.open_run.layout)
        except StoreRefused as error:  # the run has finished all the same; the next one begins with what is left
            state.note("CleanUpFailed", error=error.to_record())
            self._flush_quietly()

    def _abandon(self, error: BaseException) -> None:
        """Leave a last note for readers. The store may be the trouble, so this may fail quietly."""
        name = "RunInterrupted" if isinstance(error, KeyboardInterrupt) else "RunFailed"
        record = error.to_record() if isinstance(error, RekindleError) else {"message": str(error)[:2000]}
        self._note_reads()
        self._note_loops(0.0)
        self.state.note(name, error=record)
        self._flush_quietly()

    def _flush_quietly(self) -> None:
        with contextlib.suppress(RekindleError):
            self._flush()

    def _stop_everything(self) -> None:
        runs = [*self.state.runs.values(), *self.state.retired]
        for run in runs:
            run.cancel()
        deadline = time.monotonic() + _END_SECONDS
        for run in runs:
            run.join(max(0.0, deadline - time.monotonic()))
        for stage in self.state.graph.stages:
            self.state.inputs.cached.drop(stage.name)


def _detector(options: CoreOptions, times: Callable[[], Mapping[str, SourceTimes]]) -> SlowTaskDetector | None:
    if not options.speculation.enabled:
        return None
    if options.node_aware is not None:
        return NodeAwareSlowTaskDetector(options.node_aware)
    by_time = ExecutionTimeBasedSlowTaskDetector(options.slow_tasks)
    return AnyDetector((by_time, SplitTimeBasedSlowTaskDetector(options.slow_tasks, times)))
