"""Spark's scheduler as the job master sees it: jobs on chosen partitions, running tasks, executors, levers.

Spark's internals are reached by py4j here, in `relations`, `spark_plan` and `planning`. Everything here works with
the classes of the PySpark package alone, without a jar of ours. What Spark's listener would push is read
here from the status store instead, when the loop looks: a late answer delays a decision by a look, no event can
be lost.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPIES_POOL = "rekindle-copies"
_MAX_TASKS_READ = 100_000


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task attempt of Spark's. `task` is its id, unique in this driver; `started_at` in epoch seconds."""

    task: int
    partition: int
    node: str
    started_at: float
    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class StageView:
    """One attempt of one of Spark's stages. `attempt` above 0 means Spark ran it again by itself."""

    stage: int
    attempt: int
    complete: int
    status: str
    executor_seconds: float


@dataclass(frozen=True, slots=True)
class JobView:
    """One job of Spark's. `is_quiet`: it has ended, and no task of it runs; `ran_again`: one of its stages has."""

    job: int
    is_quiet: bool
    ran_again: bool


class SparkJob:
    """One Spark job over some partitions of a result RDD, run by a thread of its own (it is owned: `join`).

    The thread matters: Spark's local properties (job group, pool, versions) belong to a thread.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        jrdd: Any,
        partitions: Sequence[int],
        *,
        group: str,
        description: str,
        pool: str | None,
        properties: dict[str, str],
        on_end: Callable[[], None],
    ) -> None:
        self.group, self.partitions = group, tuple(partitions)
        self.error: BaseException | None = None
        self.cancelled = False
        self._scheduler, self._jrdd, self._on_end = scheduler, jrdd, on_end
        self._description, self._pool, self._properties = description, pool, properties
        self._thread = threading.Thread(target=self._run, name=f"rekindle-{group}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Ask Spark to cancel; the thread ends when Spark says so."""
        if not self.ended:
            self.cancelled = True
            self._scheduler.cancel_group(self.group)

    def join(self, timeout: float) -> bool:
        """True when the thread has ended within `timeout` seconds."""
        self._thread.join(timeout)
        return self.ended

    def _run(self) -> None:
        context = self._scheduler.context
        try:
            self._scheduler.enter_group(self.group, self._description)
            context.setLocalProperty("spark.scheduler.pool", self._pool)  # type: ignore[arg-type]
            for key, value in self._properties.items():
                context.setLocalProperty(key, value)
            self._jrdd.collectPartitions(self._scheduler.int_array(self.partitions))
        except BaseException as error:
            self.error = error
        finally:
            self._on_end()


class Scheduler:
    """The scheduler of one SparkContext."""

    def __init__(self, spark: SparkSession) -> None:
        self.context = spark.sparkContext
        self._gateway: Any = self.context._gateway
        self._jvm: Any = self.context._jvm
        self._jsc: Any = self.context._jsc.sc()
        self._mapper = self._json_mapper()
        self._failed = self._statuses("FAILED")
        self._has_checksums = tuple(int(part) for part in self.context.version.split(".")[:2]) >= (4, 1)
        self._any = self._statuses()
        self.is_local = bool(self._jsc.isLocal())
        """Whether the driver is the only executor."""

        self.nodes: Mapping[str, str] = {}
        """[executor -> node], by who knows better than Spark, whose word is the host; it need not have all of them."""

        self._hosts: dict[str, str] = {}

    def int_array(self, values: Sequence[int]) -> Any:
        """A Java array of these. Each element of its own is a call to Java, a range of thousands is two."""
        if values and list(values) == list(range(values[0], values[-1] + 1)):
            return self._jvm.java.util.stream.IntStream.rangeClosed(values[0], values[-1]).toArray()
        array = self._gateway.new_array(self._jvm.int, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    # -- jobs ------------------------------------------------------------------------------------------

    def enter_group(self, group: str, description: str) -> None:
        """Jobs of this thread belong to the group from now on."""
        self.context.setJobGroup(group, description, interruptOnCancel=True)

    def group(self) -> str:
        """That of this thread."""
        return str(self.context.getLocalProperty("spark.jobGroup.id"))

    def job_ids_of(self, group: str) -> list[int]:
        """Of the jobs of a group that Spark remembers, in ascending order. One call to Java, however many there are."""
        found = self.context.statusTracker()._jtracker.getJobIdsForGroup(group)
        return sorted(map(int, re.findall(r"\d+", self._jvm.java.util.Arrays.toString(found))))

    def jobs_of(self, group: str, after: int = -1) -> list[JobView]:
        """The jobs of a group, as last known; those behind the job `after`."""
        tracker = self.context.statusTracker()
        views: list[JobView] = []
        for job in self.job_ids_of(group):
            if job <= after:
                continue
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
            is_quiet = (
                info is not None and info.status != "RUNNING" and not any(s and s.numActiveTasks > 0 for s in stages)
            )
            views.append(JobView(job, is_quiet, any(s and s.currentAttemptId > 0 for s in stages)))
        return views

    @contextlib.contextmanager
    def without_speculation(self) -> Iterator[None]:
        """Task sets that begin in this block get no copies of Spark's: it would wait until all of their tasks have
        ended."""
        conf, name = self._jsc.conf(), "spark.speculation.quantile"
        before = conf.get(name) if conf.contains(name) else None
        conf.set(name, "1.0")
        try:
            yield
        finally:
            if before is None:
                conf.remove(name)
            else:
                conf.set(name, before)

    def wait_for_status(self, seconds: float) -> None:
        """Until it has heard of all that has happened. Raises an error of py4j's after that long."""
        self._jsc.listenerBus().waitUntilEmpty(int(1000 * seconds))

    def holders_of(self, rdd: int) -> list[tuple[str, ...]]:
        """Per partition of a persisted RDD that executors hold: which of them do."""
        held = json.loads(self._mapper.writeValueAsString(self._jsc.statusStore().rdd(rdd)))
        return [tuple(partition.get("executors") or ()) for partition in held.get("partitions") or ()]

    def cancel_group(self, group: str) -> None:
        """Its jobs, and those that are being submitted at this moment."""
        self._jsc.cancelJobGroupAndFutureJobs(group)

    def kill_task(self, task: int, reason: str) -> None:
        """Free the slot of a task attempt. Spark runs the task again; it finds the manifest and ends."""
        with contextlib.suppress(Exception):  # the task may have ended meanwhile, which is as good
            self._jsc.killTaskAttempt(task, True, reason)

    def stages_of(self, group: str) -> list[StageView]:
        """The stages of the jobs of a group, as last known, every attempt."""
        tracker = self.context.statusTracker()
        views: list[StageView] = []
        for job in self.job_ids_of(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                views += self._attempts(int(stage))
        return views

    def tasks_of(self, stage: StageView, seen: int) -> list[TaskView]:
        """Tasks of a stage attempt: those beyond the first `seen`, in the order of their launch, of any
        status; then all that failed."""
        fresh = self._tasks(stage, seen, self._any)
        return fresh + self._tasks(stage, 0, self._failed)

    def _tasks(self, stage: StageView, offset: int, statuses: Any) -> list[TaskView]:
        store, order = self._jsc.statusStore(), self._jvm.org.apache.spark.status.api.v1.TaskSorting.ID
        tasks = store.taskList(stage.stage, stage.attempt, offset, _MAX_TASKS_READ, order, statuses)
        return [self._task(raw) for raw in json.loads(self._mapper.writeValueAsString(tasks))]

    # -- executors -------------------------------------------------------------------------------------

    def executors(self) -> dict[str, str]:
        """Live executors: id -> node."""
        listed = [raw for raw in self._listed() if raw["id"] != "driver"]
        self._hosts = {raw["id"]: raw["hostPort"].rsplit(":", 1)[0] for raw in listed}
        return {executor: self.nodes.get(executor, host) for executor, host in self._hosts.items()}

    def executors_on(self, nodes: Collection[str]) -> list[str]:
        """The executors, as last listed, on any of `nodes`: what was seen before its node was known has its host."""
        return [one for one, host in self._hosts.items() if host in nodes or self.nodes.get(one) in nodes]

    def node_of(self, host: str) -> str:
        """The node of a host, as far as it is known; any other name as it is."""
        return next((self.nodes[one] for one, its in self._hosts.items() if its == host and one in self.nodes), host)

    def can_exclude(self) -> bool:
        """Whether executors can be excluded with an expiry in this session."""
        tracker = self._jsc.taskScheduler().healthTrackerOpt()
        conf = self.context.getConf()
        return (
            bool(tracker.isDefined())
            and conf.get("spark.excludeOnFailure.application.fetchFailure.enabled", "false") == "true"
        )

    def exclude(self, executor: str) -> None:
        """Give the executor no more tasks until the session's exclusion time-out; running ones go on."""
        host = self._hosts.get(executor, "")
        self._jsc.taskScheduler().healthTrackerOpt().get().updateExcludedForFetchFailure(host, executor)

    def include(self, executor: str) -> None:
        """End the exclusion of an executor: Spark finds it over when it offers resources, a second later at most.

        Its map is written to only where the key is there, for Spark's own thread may read it at this moment.
        """
        tracker = self._jsc.taskScheduler().healthTrackerOpt().get()
        excluded = tracker.executorIdToExcludedStatus().get(executor)
        if excluded.isDefined():
            over = self._jvm.org.apache.spark.scheduler.ExcludedExecutor(excluded.get().node(), 0)
            tracker.executorIdToExcludedStatus().update(executor, over)
            getattr(tracker, "nextExpiryTime_$eq")(0)

    def excluded(self) -> set[str]:
        """Executors that Spark excludes now."""
        return {raw["id"] for raw in self._listed() if raw.get("isExcluded")}

    def excludes_all(self) -> bool:
        """Whether there are executors, or in local mode the driver, and Spark excludes every one of them."""
        listed = self._listed()
        places = [raw for raw in listed if raw["id"] != "driver"] or listed
        found = bool(places) and all(raw.get("isExcluded") for raw in places)
        if found and places is listed:  # Spark looks for what has expired when it offers resources: here only to tasks
            self._jsc.taskScheduler().healthTrackerOpt().get().applyExcludeOnFailureTimeout()
        return found

    def kill_executor(self, executor: str) -> bool:
        """End an executor through the cluster manager, which replaces it; its map outputs are given up."""
        ids = self._jvm.PythonUtils.toSeq([executor])
        try:
            return bool(self._jsc.killAndReplaceExecutor(executor))
        except Exception:
            return bool(self._jsc.killExecutors(ids))

    def decommission(self, executor: str, reason: str) -> bool:
        """Ask an executor to hand its map outputs to others and to end; False where the session cannot."""
        if self.context.getConf().get("spark.decommission.enabled", "false") != "true":
            return False
        none = self._jvm.scala.Option.apply(None)
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(reason, none)
        return bool(self._jsc.schedulerBackend().decommissionExecutor(executor, info, False, False))

    def silent(self, executors: Iterable[str], within: float) -> set[str]:
        """Those of `executors` that do not answer a question (a thread dump) within `within` seconds."""
        answered = {executor: threading.Event() for executor in executors}

        def ask(executor: str) -> None:
            with contextlib.suppress(Exception):
                if self._jsc.getExecutorThreadDump(executor).isDefined():
                    answered[executor].set()

        for executor in answered:
            threading.Thread(target=ask, args=(executor,), name=f"rekindle-ask-{executor}", daemon=True).start()
        deadline = time.monotonic() + within
        return {one for one, event in answered.items() if not event.wait(max(0.0, deadline - time.monotonic()))}

    # -- map outputs -----------------------------------------------------------------------------------

    def available_map_outputs(self, shuffle: int) -> int | None:
        """How many map outputs of a shuffle are there; None when Spark does not know the shuffle."""
        status = self._shuffle_status(shuffle)
        return int(status.numAvailableMapOutputs()) if status is not None else None

    def map_partitions(self, shuffle: int) -> int | None:
        """How many map outputs a shuffle has when it is complete; None when Spark does not know it."""
        status = self._shuffle_status(shuffle)
        return len(status.mapStatuses()) if status is not None else None

    def map_outputs(self, shuffle: int) -> list[tuple[int, str, int] | None]:
        """Per map partition: (task id of the map task, executor, checksum), None where it is missing.

        The checksum is 0 where Spark keeps none (before 4.1, or switched off).
        """
        status = self._shuffle_status(shuffle)
        if status is None:
            return []
        return [
            (int(output.mapId()), str(output.location().executorId()), self._checksum(output))
            if output is not None
            else None
            for output in status.mapStatuses()
        ]

    def map_output_epoch(self) -> int:
        """A number that grows when map outputs are lost, and when a map stage has ended."""
        return int(self._jsc.taskScheduler().mapOutputTracker().getEpoch())

    def shuffled_bytes(self, dependency: Any) -> list[int]:
        """Per reduce partition, how many bytes of map outputs there are for it (compressed, about)."""
        tracker = self._jsc.taskScheduler().mapOutputTracker()
        sizes = tracker.getStatistics(dependency).bytesByPartitionId()
        return [int(size) for size in json.loads(self._mapper.writeValueAsString(sizes))]

    def _checksum(self, output: Any) -> int:
        return int(output.checksumValue()) if self._has_checksums else 0

    # -- internals -------------------------------------------------------------------------------------

    def _listed(self) -> list[dict[str, Any]]:
        """Live executors, and the driver, as Spark's status has them."""
        executors = self._jsc.statusStore().executorList(True)
        listed: list[dict[str, Any]] = json.loads(self._mapper.writeValueAsString(executors))
        return listed

    def _shuffle_status(self, shuffle: int) -> Any:
        found = self._jsc.taskScheduler().mapOutputTracker().shuffleStatuses().get(shuffle)
        return found.get() if found.isDefined() else None

    def _attempts(self, stage: int) -> list[StageView]:
        store = self._jsc.statusStore()
        try:
            last = store.lastStageAttempt(stage)
        except Exception:  # py4j wraps NoSuchElementException: not started, or skipped
            return []
        views = [_stage(json.loads(self._mapper.writeValueAsString(last)))]
        for attempt in range(views[0].attempt):
            with contextlib.suppress(Exception):
                earlier = store.asOption(store.stageAttempt(stage, attempt, False, self._any, False, None))
                views.append(_stage(json.loads(self._mapper.writeValueAsString(earlier.get()._1()))))
        return views

    def _statuses(self, *names: str) -> Any:
        statuses: Any = self._jvm.java.util.ArrayList()
        for name in names:
            statuses.add(getattr(self._jvm.org.apache.spark.status.api.v1.TaskStatus, name))
        return statuses

    def _task(self, raw: dict[str, Any]) -> TaskView:
        return TaskView(
            task=int(raw["taskId"]),
            partition=int(raw["partitionId"]),
            node=self.nodes.get(str(raw["executorId"]), str(raw["host"])),
            started_at=float(raw["launchTime"]) / 1000.0,
            status=str(raw["status"]),
            error=raw.get("errorMessage"),
        )

    def _json_mapper(self) -> Any:
        mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()
        module = getattr(self._jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule$")
        mapper.registerModule(module.__getattr__("MODULE$"))
        return mapper


def _stage(raw: dict[str, Any]) -> StageView:
    return StageView(
        stage=int(raw["stageId"]),
        attempt=int(raw["attemptId"]),
        complete=int(raw["numCompleteTasks"]),
        status=str(raw["status"]),
        executor_seconds=float(raw["executorRunTime"]) / 1000.0,
    )
