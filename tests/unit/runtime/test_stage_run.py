"""What is kept of Spark's own accounts of a stage."""

from __future__ import annotations

from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rekindle.connectors.postgresql import Postgresql
from rekindle.pipeline import DataSourceSink, Pipeline
from rekindle.runtime import stage_run as stage_runs
from rekindle.runtime.data_source_sink import sendable_writer
from rekindle.runtime.errors import RekindleError
from rekindle.runtime.scheduler import StageView, TaskView
from rekindle.runtime.stage_run import CopyJob, StageRun


def view(stage: int, status: str, complete: int, seconds: float) -> StageView:
    known: dict[str, Any] = {"stage": stage, "status": status, "complete": complete, "executor_seconds": seconds}
    return StageView(**{**dict.fromkeys(StageView.__dataclass_fields__, 0), **known})


def test_map_tasks_are_counted_although_a_copy_finds_its_map_side_done():
    """A copy's job lists the map side again, as skipped, and Spark then shows nothing else of it."""
    pipeline = Pipeline("p")  # Spark's views and jobs below are stand-ins: only what they count is looked at
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    seen = {"original": [view(1, "COMPLETE", 3, 2.0), view(2, "ACTIVE", 1, 1.0)]}
    scheduler = SimpleNamespace(stages_of=lambda group: seen[group])
    run = StageRun(pipeline.build().stage("b"), scheduler, (), "p", lambda: None)  # type: ignore[arg-type]
    run.jobs = [SimpleNamespace(group="original")]  # type: ignore[list-item]
    run.note_ran(seen["original"])
    seen["original"] = [view(1, "SKIPPED", 0, 0.0), view(2, "COMPLETE", 4, 5.0)]
    run.copies = [SimpleNamespace(job=SimpleNamespace(group="copy"))]  # type: ignore[list-item]
    seen["copy"] = [view(1, "SKIPPED", 0, 0.0), view(3, "COMPLETE", 1, 0.5)]
    assert run.tasks_since() == (3, 7.5)
    assert run.tasks_since() == (0, 0.0)


def stage_run() -> StageRun:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    return StageRun(pipeline.build().stage("b"), None, (), "p", lambda: None)  # type: ignore[arg-type]


@pytest.mark.requirement("S7-14")
def test_a_partition_whose_manifest_was_damaged_is_not_waited_for_but_made_again():
    """Its job has ended well, and nobody else will write the manifest again."""
    run = stage_run()
    run.jobs = [SimpleNamespace(ended=True, cancelled=False, error=None, partitions=(0, 1))]  # type: ignore[list-item]
    assert run.written() == {0, 1}
    run.removed(1)
    assert run.written() == {0}


def test_no_two_plans_of_a_process_share_a_job_group():
    """Spark would run no job in a group that an earlier run has cancelled; an address in memory comes again."""
    groups = {stage_run()._plan_group for _ in range(100)}
    assert len(groups) == 100


def test_the_copies_of_a_partition_end_and_those_of_others_go_on():
    run = stage_run()
    ended: list[int] = []
    for number, partition in enumerate((3, 3, 4)):
        job = SimpleNamespace(cancel=partial(ended.append, number))
        run.copies.append(CopyJob(partition, 1 + number, job, 0.0))  # type: ignore[arg-type]
    run.cancel_copies(3)
    assert ended == [0, 1]


@pytest.mark.requirement("S1-16")
def test_a_task_that_failed_comes_before_the_one_by_which_spark_tries_it_again():
    """Else the second would find that somebody stands for its attempt, and stay without."""

    def task(number: int, status: str) -> TaskView:
        return TaskView(number, 3, "n1", 0.0, status, None)

    run = stage_run()
    looks = iter([[task(10, "RUNNING")], [task(20, "RUNNING"), task(10, "FAILED")]])
    run.scheduler = SimpleNamespace(tasks_of=lambda *_: next(looks))  # type: ignore[assignment]
    assert [one.task for one in run.new_tasks(view(4, "ACTIVE", 0, 0.0))] == [10]
    again = run.new_tasks(view(4, "ACTIVE", 0, 0.0))
    assert [(one.task, one.status) for one in again] == [(10, "FAILED"), (20, "RUNNING")]


class Ended(DataSource):
    def writer(self, schema: Any, overwrite: bool) -> Any:
        raise SystemExit(3)


def raises(*_: Any) -> Any:
    raise ValueError("there is no 7")


def planned(monkeypatch: pytest.MonkeyPatch, sink: DataSourceSink, build: Any = lambda: None) -> StageRun:
    """A stage that writes there, planned with its writer and without Spark."""
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(sink, name="b")(lambda a: a)
    stage, woken = pipeline.build().stage("b"), Event()

    def plan(stage: Any, scheduler: Any, result: Any, spec: Any) -> Any:
        return spec(StructType().add("n", "long"), None)

    def spec(schema: StructType, signature: str | None) -> Any:
        return sendable_writer(stage, schema, "store/1")

    monkeypatch.setattr(stage_runs, "plan_stage", plan)
    run = StageRun(stage, SimpleNamespace(enter_group=lambda *_: None), (), "p", woken.set)  # type: ignore[arg-type]
    run.plan_in_background(build, spec)
    assert woken.wait(60)
    return run


def test_what_a_sink_raises_when_its_writer_is_made_is_told_as_the_sinks(monkeypatch):
    wrong = DataSourceSink(Postgresql, {"urll": "postgresql://db.example/shop"})
    run = planned(monkeypatch, wrong)
    assert isinstance(run.raised, ValueError), "what it is told by stays known"
    assert isinstance(run.error, RekindleError)
    assert run.error.message == "stage b: its sink rekindle-postgresql raised ValueError"
    assert run.error.remedy.startswith("mend the sink's options")
    assert "Postgresql has no option 'urll': did you mean 'url'" in str(run.error)
    run = planned(monkeypatch, DataSourceSink(Ended))
    assert str(run.error).startswith("stage b: its sink Ended raised SystemExit")


def test_what_the_function_of_a_sinks_stage_raises_is_not_told_as_the_sinks(monkeypatch):
    run = planned(monkeypatch, DataSourceSink(Postgresql, {"urll": "x"}), raises)
    assert isinstance(run.error, RekindleError)
    assert run.error.message == "stage b: its function raised ValueError"
    assert run.error.remedy.startswith("mend the stage;")
