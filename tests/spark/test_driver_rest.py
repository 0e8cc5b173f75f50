"""What a driver's REST API says of a job that runs."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession
from yarl import URL

from rekindle.controller.speculation import spark_rest
from rekindle.controller.speculation.spark_rest import (
    Address,
    DriverUnanswered,
    SparkRest,
    Stage,
    StageKey,
    Stages,
    Task,
)
from rekindle.controller.speculation.ui import ui_of

ROWS = 1000
LOGIN = "org.apache.spark.ui.JWSFilter"
SIGNED: dict[str, Any] = {
    "spark.ui.filters": LOGIN,
    f"spark.{LOGIN}.param.secretKey": urlsafe_b64encode(os.urandom(48)).decode(),
}
_T = TypeVar("_T")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.speculation", "false")
    builder = builder.config("spark.ui.enabled", "true").config("spark.ui.port", "0").config(map=SIGNED)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver takes seconds for its first answer, for which it loads its REST server's classes."""
    monkeypatch.setattr(spark_rest, "_SECONDS", 90.0)


class Job:
    """Four tasks that read a shuffle of `ROWS` rows; those of the last two partitions wait for `release`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._release = released = folder / "released"

        def held(rows):
            import os
            import time

            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            count = sum(1 for _ in rows)
            time.sleep(0.01)
            while context.partitionId() >= 2 and not os.path.exists(released):
                time.sleep(0.05)
            yield count

        rows = spark.range(0, ROWS, 1, 2).repartition(4).rdd.mapPartitions(held)
        self.counted: list[int] = []
        self._thread = threading.Thread(target=lambda: self.counted.extend(rows.collect()), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._release.touch()
        self._thread.join(60)


def asked(spark: SparkSession, question: Callable[[SparkRest, Address, str], Awaitable[_T]]) -> _T:
    url, application_id = URL(spark.sparkContext.uiWebUrl or ""), spark.sparkContext.applicationId
    assert url.host is not None
    assert url.port is not None
    address = Address(url.host, url.port, key=ui_of({"status": {"podIP": url.host}}, SIGNED).key)

    async def within() -> _T:
        rest = SparkRest()
        try:
            return await question(rest, address, application_id)
        finally:
            await rest.close()

    return asyncio.run(within())


async def successes(rest: SparkRest, address: Address, application_id: str, stage: StageKey, most: int) -> list[Task]:
    """The finished tasks, once there are `most`: a driver tells of the last ones a little after the job's end."""
    async with asyncio.timeout(90):
        while True:
            found = await rest.tasks(address, application_id, stage, "success")
            if len(found) >= most:
                return found
            await asyncio.sleep(0.1)


async def half_done(rest: SparkRest, address: Address, application_id: str) -> Stage:
    """The only active stage, once two of its tasks are done and the other two run."""
    async with asyncio.timeout(90):
        while True:
            stages = await rest.stages(address, application_id)
            assert stages.driver_clock == 0.0
            if [(stage.running, stage.finished) for stage in stages.found] == [(2, 2)]:
                return stages.found[0]
            await asyncio.sleep(0.1)


def test_a_running_stage_and_its_tasks(spark, tmp_path):
    async def question(rest: SparkRest, address: Address, application_id: str) -> tuple[Stage, list[Task], list[Task]]:
        stage = await half_done(rest, address, application_id)
        running = await rest.tasks(address, application_id, stage.key, "running")
        return stage, running, await rest.tasks(address, application_id, stage.key, "success")

    started, job = time.time(), Job(spark, tmp_path)
    try:
        stage, running, done = asked(spark, question)
    finally:
        job.end()
    assert (stage.tasks, stage.failed, stage.key.attempt) == (4, 0, 0)
    assert "test_driver_rest.py" in stage.name
    assert stage.first_task_at == min(task.launched_at for task in running + done)
    assert started - 1 < stage.first_task_at < time.time() + 1

    assert [task.index for task in running] == [2, 3]
    assert [task.index for task in done] == [0, 1]
    for task in running:
        assert (task.running, task.seconds, task.executor) == (True, None, "driver")
    for task in done:
        assert (task.running, task.attempt, task.speculative, task.executor) == (False, 0, False, "driver")
        assert task.seconds is not None
        assert task.seconds >= 0.01
        assert task.input_bytes is not None
        assert task.input_bytes > 0

    def after(rest: SparkRest, address: Address, application_id: str) -> Awaitable[list[Task]]:
        return successes(rest, address, application_id, stage.key, 4)

    ended = asked(spark, after)
    assert sorted(task.index for task in ended) == [0, 1, 2, 3]
    assert len(job.counted) == 4
    assert {task.index: task.input_records for task in ended} == dict(enumerate(job.counted))


def test_finished_tasks_come_page_by_page(spark):
    spark.sparkContext.setJobGroup("pages", "a job of 30 tasks")
    spark.sparkContext.parallelize(range(30), 30).count()
    tracker = spark.sparkContext.statusTracker()
    (job,) = tracker.getJobIdsForGroup("pages")
    info = tracker.getJobInfo(job)
    assert info is not None
    stage = StageKey(info.stageIds[0], 0)

    async def question(rest: SparkRest, address: Address, application_id: str) -> list[list[Task]]:
        await successes(rest, address, application_id, stage, 30)
        return [await rest.tasks(address, application_id, stage, "success", offset=n, length=12) for n in (0, 12, 24)]

    pages = asked(spark, question)
    assert [[task.index for task in page] for page in pages] == [[*range(12)], [*range(12, 24)], [*range(24, 30)]]


def test_a_driver_knows_no_other_application_and_of_other_stages_no_tasks(spark):
    async def question(rest: SparkRest, address: Address, application_id: str) -> list[Task]:
        with pytest.raises(DriverUnanswered, match="the driver answered 404: it has no such application"):
            await rest.stages(address, "spark-of-another")
        return await rest.tasks(address, application_id, StageKey(10_000, 0), "running")

    assert asked(spark, question) == []


@pytest.mark.parametrize("key", [None, b"another key, of thirty-two bytes"])
def test_whoever_does_not_know_the_login_is_told_of_it(spark, key):
    def unsigned(rest: SparkRest, address: Address, application_id: str) -> Awaitable[Stages]:
        return rest.stages(replace(address, key=key), application_id)

    with pytest.raises(DriverUnanswered, match=r"answered 403: its UI asks for a login .*JWSFilter's, with the key in"):
        asked(spark, unsigned)
