"""What is made of what is seen."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core.events import AttemptFailed
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.observer import Observer, finished_at
from rekindle.runtime.scheduler import TaskView
from tests.unit.core.dsl import Run, attempt_id, job


@pytest.mark.requirement("S1-18")
@pytest.mark.parametrize(
    ("said", "started", "finished"),
    [
        (115.0, 100.0, 115.0),
        (115.0 - 300.0, 100.0, 110.0),  # the executor's clock is slow: it took its own ten seconds at least
        (115.0 + 300.0, 100.0, 120.0),  # fast: it has finished by now
        (115.0, None, 115.0),
        (115.0 + 300.0, None, 120.0),
    ],
)
def test_a_task_takes_the_time_that_it_took_whatever_its_executors_clock_says(said, started, finished):
    manifest = dataclasses.replace(Manifest.of_nothing("a", 0), seconds=10.0, finished_at=said)
    assert finished_at(manifest, started, now=120.0) == finished


@pytest.mark.requirement("S2-30")
def test_a_failed_job_is_told_of_its_own_partitions_whichever_task_spark_names():
    """Task 57 may be one of the map side, and the stage have a single partition."""
    path = "file:///s/runs/0001/data/numbers/.attempt-p00005-v0001-ab/part-00005-cd_00005.c000.snappy.parquet"
    text = f"Job aborted due to stage failure: Task 57 in stage 3.0 failed 4 times, most recent failure: {path} is bad"
    told: list[Any] = []
    running = SimpleNamespace(state=SimpleNamespace(is_terminal=False), attempt_id="the attempt")
    asked = {ExecutionVertexID("total", 0): (running,)}
    state: Any = SimpleNamespace(
        is_damaged=lambda *_: True,
        core=SimpleNamespace(current_executions=lambda vertex: asked[vertex]),
        see=lambda event, now: told.append(event),
        bindings=AttemptBindings(),
    )
    run: Any = SimpleNamespace(stage=SimpleNamespace(name="total"), map_side=None, copies=())
    job: Any = SimpleNamespace(error=RuntimeError(text), cancelled=False, partitions=(0,))
    Observer(state)._see_ended(run, job, 1.0)
    (event,) = told
    assert isinstance(event, AttemptFailed)
    assert event.cause.partition == ResultPartitionID("numbers", 5)


@pytest.mark.requirement("S2-27")
def test_a_copy_that_spark_gives_up_fails_alone():
    """Its job has a single task: what ends that ends the job, and would be the end of the stage's own."""
    text = "Job aborted due to stage failure: Task 0 in stage 9.0 failed 5 times, most recent failure: ValueError: 7"
    told: list[Any] = []
    vertex = ExecutionVertexID("total", 3)
    executions = [
        SimpleNamespace(state=SimpleNamespace(is_terminal=False), attempt_id=ExecutionAttemptID(vertex, attempt))
        for attempt in (0, 1)
    ]
    state: Any = SimpleNamespace(
        is_damaged=lambda *_: False,
        core=SimpleNamespace(current_executions=lambda _: executions),
        see=lambda event, now: told.append(event),
        bindings=AttemptBindings(),
        last_failure=None,
    )
    job: Any = SimpleNamespace(error=RuntimeError(text), cancelled=False, partitions=(3,))
    copies = (SimpleNamespace(job=job, partition=3, attempt=1),)
    run: Any = SimpleNamespace(stage=SimpleNamespace(name="total"), map_side=None, copies=copies)
    Observer(state)._see_ended(run, job, 1.0)
    (event,) = told
    assert event.attempt == ExecutionAttemptID(vertex, 1)
    assert state.last_failure is None


def test_a_commit_that_was_there_before_its_attempt_was_asked_for_counts_when_it_is():
    """A failure of the same moment may have left the task's vertex to wait for an input that is made again."""
    vertex, manifest = ExecutionVertexID("b", 0), Manifest.of_nothing("b", 0)
    deployed = {vertex: False}
    state: Any = SimpleNamespace(
        core=SimpleNamespace(unfinished=lambda _: (0,), is_deployed=deployed.get),
        current_manifest=lambda *_: manifest,
        bindings=SimpleNamespace(winner=lambda *_, **__: ExecutionAttemptID(vertex, 1)),
        open_run=SimpleNamespace(writer="w"),
    )
    observer, stage = Observer(state), SimpleNamespace(name="b")
    assert observer._untold(stage) == []  # type: ignore[arg-type]
    deployed[vertex] = True
    assert observer._untold(stage) == [manifest]  # type: ignore[arg-type]


def job_of(*, cancelled: bool = False, error: BaseException | None = None) -> Any:
    """One of Spark's, by what is asked of it; told apart by who it is."""
    return type("Job", (), {"cancelled": cancelled, "error": error, "partitions": (0, 1)})()


def task(number: int, partition: int, started_at: float) -> TaskView:
    return TaskView(number, partition, "n1", started_at, "RUNNING", None)


def observed(core: Run) -> tuple[Any, Any]:
    """An observer's state over a real core, and a stage's run without jobs."""
    state: Any = SimpleNamespace(
        core=core.graph,
        bindings=AttemptBindings(),
        see=lambda event, now: core.see(event),
        is_damaged=lambda *_: False,
        cached_as=lambda _: None,
        last_failure=None,
    )
    run: Any = SimpleNamespace(
        stage=SimpleNamespace(name="A"), copies=(), unasked={}, map_side=None, input_bytes=lambda _: None
    )
    return state, run


@pytest.mark.requirement("S1-18", "S2-20")
def test_tasks_of_a_job_that_this_driver_has_ended_leave_their_clocks_behind():
    """Else those that replace them would stand for nobody, and be called slow by the start of tasks long gone."""
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first, second = Observer(state), job_of(), job_of()
    for partition in range(2):
        observer._see_result_task(run, task(partition, partition, 10.0), first, None, 10.0)
    first.cancelled = True
    observer.see_cancelled(50.0)
    observer.see_cancelled(51.0)  # told once
    observer._see_result_task(run, task(2, 0, 50.0), first, None, 51.0)  # launched before Spark had heard of it
    observer._see_result_task(run, task(3, 0, 52.0), second, None, 53.0)
    assert core.graph.metrics().num_retries == 2
    executions = core.graph.current_executions(ExecutionVertexID("A", 0))
    assert [(one.attempt_id.attempt, one.deployed_at) for one in executions] == [(1, 52.0)]
    assert run.unasked == {}


@pytest.mark.requirement("S2-3")
def test_what_a_cancelled_task_has_stored_counts_all_the_same():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first = Observer(state), job_of()
    observer._see_result_task(run, task(0, 0, 10.0), first, None, 10.0)
    first.cancelled = True
    observer.see_cancelled(50.0)
    core.finish("A[0]#0")
    assert core.graph.unfinished("A") == (1,)


def test_with_a_job_that_spark_gives_up_all_its_tasks_have_ended_and_one_of_them_has_failed():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first = Observer(state), job_of()
    for partition in range(2):
        observer._see_result_task(run, task(partition, partition, 10.0), first, None, 10.0)
    first.error = RuntimeError("Job aborted: most recent failure: Lost task 1.0 in stage 1.0: FetchFailed(null)")
    observer._lost_in_vain.clear()
    observer._see_ended(run, first, 20.0)
    assert core.graph.metrics().num_failures == 1
    assert [core.states(f"A[{partition}]") for partition in range(2)] == [["SCHEDULED"], ["SCHEDULED"]]
    assert core.attempts("A") == [attempt_id("A[0]#1"), attempt_id("A[1]#1")]


def test_only_a_task_that_runs_is_kept_for_a_copy_that_is_still_to_be_asked_for():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first = Observer(state), job_of()
    observer._see_result_task(run, task(0, 0, 10.0), first, None, 10.0)
    ended = dataclasses.replace(task(1, 0, 11.0), status="KILLED")
    observer._see_result_task(run, ended, first, None, 12.0)
    assert run.unasked == {}
    observer._see_result_task(run, task(2, 0, 12.0), first, None, 13.0)
    assert run.unasked == {0: (task(2, 0, 12.0), first)}
