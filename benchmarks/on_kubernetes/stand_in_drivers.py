"""Drivers' REST without Spark: each goes through one stage after the other in real time, as its schedule says.

All are in this process; each has a loopback address of its own (127.1.x.y), so that the operator finds it on the one
port where drivers' UIs are.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from rekindle.controller.speculation.spark_rest import Stage, StageKey, Task
from rekindle.controller.submission.properties import UI_PORT
from tests.kind.processes import Failed

READS = 128 * 2**20
"""Bytes of each task, the half of them while it runs."""


@dataclass(frozen=True)
class Schedule:
    """A stage where nothing is slow: [task, in the order of their launch -> start, end, executor from 1 on].

    In seconds since the stage began. The next one begins when all have ended.
    """

    starts: Sequence[float]
    ends: Sequence[float]
    executors: Sequence[int]

    @classmethod
    def drawn(cls, tasks: int, executors: int, cores: int, seconds: float, seed: int = 7) -> Schedule:
        """Tasks that take `seconds`, give or take a fifth, each in the slot that is free first."""
        chance = random.Random(seed)
        free = [(0.001 * slot, 1 + slot % executors) for slot in range(executors * cores)]
        drawn: list[tuple[float, float, int]] = []
        for _ in range(tasks):
            start, executor = heapq.heappop(free)
            end = start + seconds * chance.uniform(0.8, 1.2)
            heapq.heappush(free, (end, executor))
            drawn.append((start, end, executor))
        starts, ends, where = zip(*drawn, strict=True)
        return cls(starts, ends, where)

    @property
    def seconds(self) -> float:
        """From its first task's launch to its last one's end."""
        return max(self.ends)


@dataclass
class StandInDriver:
    """One driver, whose stage 0 began at `began` (epoch seconds).

    Attributes:
        asked: [what -> how often], "stages", "running" and "success".
        bytes_told: of all answers, without their heads.
        frozen_at: since when an executor does nothing any more, while it still says that its tasks run; of it
            `frozen` is the number. The stage then never ends.
    """

    schedule: Schedule
    began: float
    asked: Counter[str] = field(default_factory=Counter)
    bytes_told: int = 0
    frozen: int = 0
    frozen_at: float = 0.0

    def freeze(self, executor: int, now: float) -> None:
        """From now on an executor's tasks never end."""
        self.frozen, self.frozen_at = executor, now

    def part_done(self, now: float) -> float:
        """Of its stage, as time: from 0 to 1."""
        return (now - self._stage(now)[1]) / self.schedule.seconds

    def stage(self, now: float) -> Stage:
        """As the operator should read it."""
        number, began = self._stage(now)
        tasks = self.tasks(now)
        running = sum(one.running for one in tasks)
        key = StageKey(number, 0)
        return Stage(key, "map", len(self.schedule.starts), running, len(tasks) - running, 0, began)

    def tasks(self, now: float) -> list[Task]:
        """Those of its stage that were launched, in that order."""
        began = self._stage(now)[1]
        schedule, since = self.schedule, now - began
        there = range(bisect_right(schedule.starts, since))
        return [self._task(index, began, since) for index in there if self._is_launched(index, began)]

    def _stage(self, now: float) -> tuple[int, float]:
        """Its number, and when it began."""
        number = int(((self.frozen_at or now) - self.began) // self.schedule.seconds)
        return number, self.began + number * self.schedule.seconds

    def _is_launched(self, index: int, began: float) -> bool:
        is_there = self.schedule.executors[index] == self.frozen
        return not is_there or began + self.schedule.starts[index] <= self.frozen_at

    def _task(self, index: int, began: float, since: float) -> Task:
        start, end, executor = (
            part[index] for part in (self.schedule.starts, self.schedule.ends, self.schedule.executors)
        )
        runs = end > since or (executor == self.frozen and began + end > self.frozen_at)
        read = READS // 2 if runs else READS
        took = None if runs else round(end - start, 3)
        return Task(index, 0, round(began + start, 3), took, str(executor), runs, False, read, read // 100, not runs)


class StandInDrivers:
    """Answers for drivers, each at its address. An async context."""

    def __init__(self, drivers: Sequence[StandInDriver]) -> None:
        self.drivers = {address_of(number): one for number, one in enumerate(drivers)}
        application = web.Application()
        root = "/api/v1/applications/{id}/stages"
        application.router.add_get(root, self._stages)
        application.router.add_get(root + "/{stage}/{attempt}/taskList", self._tasks)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            for address in self.drivers:
                await web.TCPSite(self._runner, address, UI_PORT).start()
        except OSError as error:
            await self._runner.cleanup()
            raise Failed(f"drivers need port {UI_PORT} of 127.1.0.1 and the addresses after it: {error}") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _stages(self, request: web.Request) -> web.Response:
        now, driver = _now(), self._of(request)
        return _told(driver, "stages", [_spoken_stage(driver.stage(now))])

    async def _tasks(self, request: web.Request) -> web.Response:
        driver, query = self._of(request), request.query
        offset, length = int(query["offset"]), int(query["length"])
        wanted = [one for one in driver.tasks(_now()) if one.running == (query["status"] == "running")]
        return _told(driver, query["status"], [_spoken_task(one) for one in wanted[offset : offset + length]])

    def _of(self, request: web.Request) -> StandInDriver:
        assert request.transport is not None
        return self.drivers[request.transport.get_extra_info("sockname")[0]]


def address_of(number: int) -> str:
    """Of the driver of that number, from 0 on."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _told(driver: StandInDriver, what: str, answer: list[str]) -> web.Response:
    body = f"[ {', '.join(answer)} ]".encode()
    driver.asked[what] += 1
    driver.bytes_told += len(body)
    return web.Response(body=body, content_type="application/json")


def _spoken_stage(stage: Stage) -> str:
    told: dict[str, Any] = {
        "status": "ACTIVE",
        "stageId": stage.key.stage_id,
        "attemptId": stage.key.attempt,
        "numTasks": stage.tasks,
        "numActiveTasks": stage.running,
        "numCompleteTasks": stage.finished,
        "numFailedTasks": 0,
        "numKilledTasks": 0,
        "numCompletedIndices": stage.finished,
        "submissionTime": _moment(stage.first_task_at or 0.0),
        "firstTaskLaunchedTime": _moment(stage.first_task_at or 0.0),
        **dict.fromkeys(_STAGE_METRICS.split(", "), 123456789),
        "name": stage.name,
        "details": "org.apache.spark.rdd.RDD.collect(RDD.scala:1046)\n" * 20,
        "schedulingPool": "default",
        "rddIds": [5, 4, 3],
        "accumulatorUpdates": [],
        "killedTasksSummary": {},
        "resourceProfileId": 0,
    }
    return json.dumps(told)


def _spoken_task(task: Task) -> str:
    done = f'"duration" : {round(1000 * (task.seconds or 0))},' if not task.running else ""
    return (
        f'{{ "taskId" : {task.index}, "index" : {task.index}, "attempt" : 0, "partitionId" : {task.index},'
        f' "launchTime" : "{_moment(task.launched_at)}", {done} "executorId" : "{task.executor}",'
        f' "host" : "10.244.1.{task.executor}", "status" : "{"RUNNING" if task.running else "SUCCESS"}",'
        f' "taskLocality" : "PROCESS_LOCAL", "speculative" : false, "accumulatorUpdates" : [ ],'
        f' "taskMetrics" : {{ {_TASK_METRICS}, "inputMetrics" : {{ "bytesRead" : {task.input_bytes},'
        f' "recordsRead" : {task.input_records} }} }}, "executorLogs" : {_LOGS},'
        f' "schedulerDelay" : 12, "gettingResultTime" : 0 }}'
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "GMT")


async def until_asked(drivers: Sequence[StandInDriver], seconds: float) -> None:
    """Until the operator has asked each at least once. Raises Failed where it has not in time."""
    try:
        async with asyncio.timeout(seconds):
            while not all(one.asked for one in drivers):
                await asyncio.sleep(0.1)
    except TimeoutError:
        silent = sum(not one.asked for one in drivers)
        raise Failed(f"{silent} of {len(drivers)} drivers were not asked within {seconds:g} s") from None


# What the operator does not read, so that it has as much to pass over as of Spark: 1.7 KB for each task.
_METRICS = (
    "executorDeserializeTime, executorDeserializeCpuTime, executorRunTime, executorCpuTime, resultSize, jvmGcTime, "
    "resultSerializationTime, memoryBytesSpilled, diskBytesSpilled, peakExecutionMemory"
)
_STAGE_METRICS = (
    f"{_METRICS}, inputBytes, inputRecords, outputBytes, outputRecords, shuffleRemoteBlocksFetched, "
    "shuffleLocalBlocksFetched, shuffleFetchWaitTime, shuffleRemoteBytesRead, shuffleRemoteBytesReadToDisk, "
    "shuffleLocalBytesRead, shuffleReadBytes, shuffleReadRecords, shuffleWriteBytes, shuffleWriteTime, "
    "shuffleWriteRecords, shuffleCorruptMergedBlockChunks, shuffleMergedFetchFallbackCount, "
    "shuffleMergedRemoteBlocksFetched, shuffleMergedLocalBlocksFetched, shuffleMergedRemoteChunksFetched, "
    "shuffleMergedLocalChunksFetched, shuffleMergedRemoteBytesRead, shuffleMergedLocalBytesRead, "
    "shuffleRemoteReqsDuration, shuffleMergedRemoteReqsDuration"
)
_READ = (
    "remoteBytesRead, localBytesRead, recordsRead, remoteBlocksFetched, localBlocksFetched, fetchWaitTime, "
    "remoteBytesReadToDisk, remoteReqsDuration"
)
_PUSHED = (
    "corruptMergedBlockChunks, mergedFetchFallbackCount, remoteMergedBlocksFetched, localMergedBlocksFetched, "
    "remoteMergedChunksFetched, localMergedChunksFetched, remoteMergedBytesRead, localMergedBytesRead"
)


def _figures(names: str, value: int) -> str:
    """As members of a JSON object."""
    return ", ".join(f'"{name}" : {value}' for name in names.split(", "))


_TASK_METRICS = ", ".join(
    (
        _figures(_METRICS, 123456789),
        f'"outputMetrics" : {{ {_figures("bytesWritten, recordsWritten", 0)} }}',
        f'"shuffleReadMetrics" : {{ {_figures(_READ, 0)}, "shufflePushReadMetrics" : {{ {_figures(_PUSHED, 0)} }} }}',
        f'"shuffleWriteMetrics" : {{ {_figures("bytesWritten, writeTime, recordsWritten", 1234567)} }}',
    )
)
_LOGS = json.dumps({name: f"http://10.244.1.7:8042/logs/executor/{name}?start=-4096" for name in ("stdout", "stderr")})
