"""One stage in this driver: its plan, its Spark jobs, and what can be seen of them.

A stage is planned once (the user's function is called, the exchange added, the physical plan checked), which
gives one RDD whose partition i writes result partition i. Then jobs run on subsets of that RDD: the stage
itself, what is left after a loss, a copy of one slow task. All share the RDD, and with it Spark's finished
shuffle. When an input changed, or the map side must be recomputed, the stage is planned anew instead.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.stage import Stage
from rekindle.runtime.data_source_sink import SinkRaised
from rekindle.runtime.errors import InputLost, RekindleError
from rekindle.runtime.failures import user_error
from rekindle.runtime.map_side import MapSide
from rekindle.runtime.planning import PlannedStage, plan_stage
from rekindle.runtime.scheduler import COPIES_POOL, Scheduler, SparkJob, StageView, TaskView
from rekindle.runtime.spark_plan import read_shuffles_of
from rekindle.runtime.task import VERSIONS_PROPERTY, WriterSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_numbers = itertools.count(1)
"""Of the plans of this process: Spark remembers a job group's jobs, and that it was cancelled, for later runs too."""


@dataclass(frozen=True, slots=True)
class CopyJob:
    """A job that runs one more attempt of one partition; `submitted_at` in epoch seconds."""

    partition: int
    attempt: int
    job: SparkJob
    submitted_at: float


@dataclass(frozen=True, slots=True)
class _Ran:
    """What one attempt of one of Spark's stages has run: map tasks, and executors' time in all tasks."""

    map_tasks: int = 0
    seconds: float = 0.0


@dataclass
class StageRun:
    """A planned stage. Not thread-safe but for `plan_in_background`; the job master's loop owns it.

    Attributes:
        inputs: the versions of the stored and cached results it was planned on, a key that says when it is out of date.
        unasked: [partition -> a running task of Spark's own speculation, and its job]
        stored_bytes: [partition -> bytes of stored partitions that only this partition is made from]
        raised: what planning ended with; `error` is what the user is told of it.
        unseen_since: when a job was first found to have ended well whose manifests are not there.
        unreadable: partitions that this plan cannot make, because its input for them is gone.
    """

    stage: Stage
    scheduler: Scheduler
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    application: str
    wake: Callable[[], None]
    planned: PlannedStage | None = None
    error: RekindleError | None = None
    raised: BaseException | None = None
    jobs: list[SparkJob] = field(default_factory=list)
    copies: list[CopyJob] = field(default_factory=list)
    noted: bool = False
    unasked: dict[int, tuple[TaskView, SparkJob]] = field(default_factory=dict)
    unreadable: frozenset[int] = frozenset()
    unseen_since: float | None = None
    stored_bytes: Mapping[int, int] = field(default_factory=dict)
    reported_jobs: set[str] = field(default_factory=set)
    _input_bytes: dict[int, int] | None = None
    _versions: dict[int, int] = field(default_factory=dict)
    _removed: set[int] = field(default_factory=set)
    _ran: dict[tuple[int, int], _Ran] = field(default_factory=dict)
    _told_tasks: tuple[int, float] = (0, 0.0)
    _seen_tasks: dict[tuple[int, int], int] = field(default_factory=dict)
    _known_tasks: set[int] = field(default_factory=set)
    _number: int = field(default_factory=lambda: next(_numbers))
    _job_numbers: Any = field(default_factory=lambda: itertools.count(1))
    _thread: threading.Thread | None = None

    @property
    def map_side(self) -> MapSide:
        """What the stage shuffles; nothing, before it is planned."""
        return self.planned.map_side if self.planned else MapSide(self.scheduler)

    # -- planning --------------------------------------------------------------------------------------

    def plan_in_background(
        self, build: Callable[[], Any], spec: Callable[[StructType, str | None], WriterSpec]
    ) -> None:
        """Call the user's function and plan the job in a thread; `planned` or `error` is set at its end.

        Args:
            build: returns the stage's DataFrame.
            spec: the writer, as of `plan_stage`.
        """

        def run() -> None:
            try:
                self.scheduler.enter_group(self._plan_group, f"{self.stage.name}: planning")
                self.planned = plan_stage(self.stage, self.scheduler, build(), spec)
            except RekindleError as error:
                self.raised = self.error = error
            except SinkRaised as failed:
                self.raised, self.error = failed.error, user_error(self.stage.name, failed.error, sink=failed.sink)
            except BaseException as error:  # SystemExit among them
                source = None if self.stage.source is None else self.stage.source.name
                self.raised, self.error = error, user_error(self.stage.name, error, source)
            finally:
                self.wake()

        self._thread = threading.Thread(target=run, name=f"rekindle-plan-{self.stage.name}", daemon=True)
        self._thread.start()

    @property
    def _plan_group(self) -> str:
        return f"{self.application}-{self.stage.name}-{self._number}-plan"

    @property
    def planning(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    # -- jobs ------------------------------------------------------------------------------------------

    def submit(self, versions: Mapping[int, int]) -> SparkJob:
        """Run partitions (partition -> version) as one Spark job.

        Raises:
            InputLost: the plan was made without the input of one of them.
        """
        blind = self.unreadable & set(versions)
        if blind:
            raise InputLost(
                f"stage {self.stage.name}: the input of partitions {sorted(blind)} is gone",
                remedy="run again: the next run makes it again",
                stage=self.stage.name,
            )
        self._versions.update(versions)
        self._removed -= set(versions)
        job = self._job(versions, pool=None, label=self.stage.name)
        self.jobs.append(job)
        return job

    def submit_copy(self, partition: int, version: int, attempt: int) -> CopyJob:
        """Run one more attempt of a partition, in the pool that Spark's FAIR scheduler serves first."""
        label = f"{self.stage.name}[{partition}] copy #{attempt}"
        job = self._job({partition: version}, pool=COPIES_POOL, label=label)
        copy = CopyJob(partition, attempt, job, time.time())
        self.copies.append(copy)
        return copy

    def covered(self) -> dict[int, int]:
        """Partitions of jobs that still run, with the versions they write."""
        return {
            partition: self._versions[partition]
            for job in self.jobs
            if not job.ended and not job.cancelled
            for partition in job.partitions
        }

    def written(self) -> set[int]:
        """Partitions of jobs that have ended well, but for those whose manifest had to be removed."""
        ended = (job for job in self.jobs if job.ended and not job.cancelled and job.error is None)
        return {partition for job in ended for partition in job.partitions} - self._removed

    def removed(self, partition: int) -> None:
        """The manifest of a partition was of no use: a job has to write it again."""
        self._removed.add(partition)

    def version_of(self, partition: int) -> int | None:
        """The version that this stage's jobs write for a partition, None when no job was asked for it."""
        return self._versions.get(partition)

    def cancel(self) -> None:
        """Cancel everything; the threads end when Spark has answered."""
        if self.planning:
            self.scheduler.cancel_group(self._plan_group)
        for job in self.all_jobs():
            job.cancel()

    def give_up(self) -> None:
        """Cancel everything, and count on nothing of it, also where it has just ended."""
        self.cancel()
        for job in self.all_jobs():
            job.cancelled = True

    def cancel_copies(self, partition: int) -> None:
        """End the jobs that copy the task of `partition`."""
        for copy in self.copies:
            if copy.partition == partition:
                copy.job.cancel()

    def all_jobs(self) -> list[SparkJob]:
        return [*self.jobs, *(copy.job for copy in self.copies)]

    def join(self, timeout: float) -> bool:
        """True when all threads of this stage have ended within about `timeout` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)
        ended = [job.join(timeout) for job in self.all_jobs()]
        return all(ended) and not self.planning

    def _job(self, versions: Mapping[int, int], *, pool: str | None, label: str) -> SparkJob:
        assert self.planned is not None
        group = f"{self.application}-{self.stage.name}-{self._number}-{next(self._job_numbers)}"
        return SparkJob(
            self.scheduler,
            self.planned.jrdd,
            sorted(versions),
            group=group,
            description=label,
            pool=pool,
            properties={**self.planned.settings, VERSIONS_PROPERTY: _compact(versions)},
            on_end=self.wake,
        )

    # -- what can be seen ------------------------------------------------------------------------------

    def new_tasks(self, view: StageView) -> list[TaskView]:
        """Tasks of a stage attempt that were not given before, and its failed ones each time, in the order of their
        launch: a task that failed comes before the one by which Spark tries it again."""
        if view.status in {"PENDING", "SKIPPED"}:
            return []
        key = (view.stage, view.attempt)
        tasks = self.scheduler.tasks_of(view, self._seen_tasks.get(key, 0))
        fresh = {task.task for task in tasks} - self._known_tasks
        self._known_tasks |= fresh
        self._seen_tasks[key] = self._seen_tasks.get(key, 0) + len(fresh)
        given = {task.task: task for task in tasks if task.task in fresh or task.status == "FAILED"}
        return [given[task] for task in sorted(given)]

    def input_bytes(self, partition: int) -> int | None:
        """What the task of a partition reads: stored partitions and map outputs. None when nothing is known.

        Asked for once a result task runs, so the map outputs are there; their sizes are asked for once.
        """
        if self._input_bytes is None:
            assert self.planned is not None
            self._input_bytes = dict(self.stored_bytes)
            for dependency in read_shuffles_of(self.planned.jrdd.rdd()):
                for reader, size in enumerate(self.scheduler.shuffled_bytes(dependency)):
                    self._input_bytes[reader] = self._input_bytes.get(reader, 0) + size
        return self._input_bytes.get(partition)

    def tasks_since(self) -> tuple[int, float]:
        """(map tasks run, seconds of executors' time in all ended tasks), since the last call."""
        for job in self.all_jobs():
            self.note_ran(self.scheduler.stages_of(job.group))
        map_tasks = sum(ran.map_tasks for ran in self._ran.values())
        seconds = sum(ran.seconds for ran in self._ran.values())
        before, self._told_tasks = self._told_tasks, (map_tasks, seconds)
        return map_tasks - before[0], seconds - before[1]

    def note_ran(self, views: list[StageView]) -> None:
        """Keep what the stages of one job have run. Spark forgets it of a map side that a later job finds done."""
        result_stage = max((view.stage for view in views), default=-1)
        for view in views:
            key = (view.stage, view.attempt)
            known = self._ran.get(key, _Ran())
            map_tasks = view.complete if view.stage != result_stage and view.status != "SKIPPED" else 0
            self._ran[key] = _Ran(max(known.map_tasks, map_tasks), max(known.seconds, view.executor_seconds))

    def map_side_intact(self) -> bool:
        """Whether a rerun of some partitions would find all that it reads; False before it is planned."""
        return self.planned is not None and self.map_side.is_intact()


def _compact(versions: Mapping[int, int]) -> str:
    """Versions as the task reads them: a default and the exceptions, so that it stays short."""
    default = max(versions.values())
    different = {str(partition): version for partition, version in versions.items() if version != default}
    return json.dumps({"default": default, **different})
