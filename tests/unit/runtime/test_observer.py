"""What is made of what is seen."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core.events import AttemptFailed
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.errors import PipelineFailed, StoreRefused
from rekindle.runtime.inputs import CachedResultFailed
from rekindle.runtime.local_checkpoint import DrawnTwice
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.map_side import MapSide
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
    asked = {ExecutionVertexID("result", 0): (running,)}
    graph = CACHED.build()
    state: Any = SimpleNamespace(
        graph=graph,
        is_damaged=lambda *_: True,
        core=SimpleNamespace(current_executions=lambda vertex: asked[vertex]),
        see=lambda event, now: told.append(event),
        bindings=AttemptBindings(),
    )
    run: Any = SimpleNamespace(stage=graph.stage("result"), map_side=None, copies=())
    failed: Any = job_of(error=RuntimeError(text), partitions=(0,))
    Observer(state)._see_ended(run, failed, 1.0)
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
    copy_job = job_of(error=RuntimeError(text), partitions=(3,))
    copies = (SimpleNamespace(job=copy_job, partition=3, attempt=1),)
    run: Any = SimpleNamespace(stage=SimpleNamespace(name="total"), map_side=None, copies=copies)
    Observer(state)._see_ended(run, copy_job, 1.0)
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


@pytest.mark.requirement("S2-3")
@pytest.mark.parametrize("is_bound", [True, False])
def test_the_copies_jobs_end_where_a_task_of_sparks_own_speculation_was_quicker(is_bound):
    """A copy that has won ends by itself; one that has not is on its way still, and of no use to anybody."""
    vertex, manifest = ExecutionVertexID("numbers", 0), Manifest.of_nothing("numbers", 0)
    run = Run(job("numbers.map ~> numbers*2")).submit().deploy("numbers")
    ended: list[int] = []
    state: Any = SimpleNamespace(
        core=run.graph,
        committed=SimpleNamespace(scan=lambda _: None, damaged={}),
        current_manifest=lambda _, partition: manifest if partition == 0 else None,
        open_run=SimpleNamespace(writer=manifest.writer),
        graph=SimpleNamespace(stages=()),
        scheduler=SimpleNamespace(),
        see=lambda event, now: run.see(event),
        bindings=SimpleNamespace(
            winner=lambda *_, **__: ExecutionAttemptID(vertex, 0),
            is_bound=lambda _: is_bound,
            node_of=lambda _: "n1",
            started_at=lambda _: 1.0,
        ),
    )
    stage = CACHED.build().stage("numbers")
    seen: Any = SimpleNamespace(map_side=MapSide(state.scheduler), cancel_copies=ended.append, stage=stage)
    Observer(state).see_commits(stage, 2.0, seen)
    assert ended == ([] if is_bound else [0])


def job_of(*, error: BaseException | None = None, partitions: tuple[int, ...] = (0, 1)) -> Any:
    """One of Spark's, by what is asked of it; told apart by who it is."""
    return type("Job", (), {"cancelled": False, "error": error, "partitions": partitions})()


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
        observer._see_result_task(run, task(partition, partition, 10.0), first, 10.0)
    first.cancelled = True
    observer.see_cancelled(50.0)
    observer.see_cancelled(51.0)  # told once
    observer._see_result_task(run, task(2, 0, 50.0), first, 51.0)  # launched before Spark had heard of it
    observer._see_result_task(run, task(3, 0, 52.0), second, 53.0)
    assert core.graph.metrics().num_retries == 2
    executions = core.graph.current_executions(ExecutionVertexID("A", 0))
    assert [(one.attempt_id.attempt, one.deployed_at) for one in executions] == [(1, 52.0)]
    assert run.unasked == {}


def test_of_a_job_that_is_over_nothing_is_kept():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer = Observer(state)
    for number, over in enumerate((job_of(), job_of(error=RuntimeError("x")), job_of(error=RuntimeError("y")))):
        observer._see_result_task(run, task(number, 0, 10.0), over, 10.0)
        state.bindings.adopt(task(10 + number, 1, 10.0), over, attempt_id("A[1]#0"))
        is_copy = number == 2
        run.copies = (SimpleNamespace(job=over, partition=0, attempt=0),) if is_copy else ()
        with contextlib.suppress(PipelineFailed):
            observer._see_ended(run, over, 20.0)
        assert (state.bindings.take_from(over) == []) is (number != 1)  # but for an error that ends the run


@pytest.mark.requirement("S2-3")
def test_what_a_cancelled_task_has_stored_counts_all_the_same():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first = Observer(state), job_of()
    observer._see_result_task(run, task(0, 0, 10.0), first, 10.0)
    first.cancelled = True
    observer.see_cancelled(50.0)
    core.finish("A[0]#0")
    assert core.graph.unfinished("A") == (1,)


def test_with_a_job_that_spark_gives_up_all_its_tasks_have_ended_and_one_of_them_has_failed():
    core = Run(job("A*2")).submit()
    state, run = observed(core)
    observer, first = Observer(state), job_of()
    for partition in range(2):
        observer._see_result_task(run, task(partition, partition, 10.0), first, 10.0)
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
    observer._see_result_task(run, task(0, 0, 10.0), first, 10.0)
    ended = dataclasses.replace(task(1, 0, 11.0), status="KILLED")
    observer._see_result_task(run, ended, first, 12.0)
    assert run.unasked == {}
    observer._see_result_task(run, task(2, 0, 12.0), first, 13.0)
    assert run.unasked == {0: (task(2, 0, 12.0), first)}


CACHED = Pipeline("held", default_partitions=2)


@CACHED.source
def numbers(spark):
    """Stored."""


@CACHED.stage(exchange="cached")
def weather(numbers):
    """Held by executors."""


@CACHED.stage(exchange="cached")
def climate(weather):
    """Held by executors too."""


@CACHED.sink(FileSink("/nowhere"), partition_by="id")
def result(climate):
    """What is asked for."""


ROWS_GONE = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_17_2 not found!"


def holding() -> tuple[Any, Any, Run]:
    graph = CACHED.build()
    core = Run(to_job_graph(graph, SpeculationOptions())).submit()
    state, run = observed(core)
    state.graph, state.note, state.cached_as = graph, lambda *_, **__: None, {17: "weather"}.get
    state.retire, state.runs, state.plan_after = lambda name: None, {}, {}
    state.activations = lambda stage: 0
    run.stage, run.error = graph.stage("result"), None
    return state, run, core


@pytest.mark.requirement("S6-10", "S6-24")
def test_cached_rows_that_are_gone_count_against_no_task_and_are_made_again_with_what_lies_between():
    state, run, core = holding()
    observer = Observer(state)
    core.finish("numbers")
    for name in ("weather", "climate", "result.map"):
        core.finish(name)
    error = RuntimeError(f"Job aborted: Task 0 in stage 3.0 failed, most recent failure: {ROWS_GONE}")
    observer._see_ended(run, job_of(error=error), 20.0)
    assert core.graph.metrics().num_failures == 0
    assert [core.version(f"{name}[0]") for name in ("weather", "climate", "result.map", "result")] == [2, 2, 2, 2]
    assert core.versions("numbers") == [1, 1]


def test_cached_rows_that_are_gone_again_and_again_end_the_run_unless_executors_end_meanwhile():
    state, run, core = holding()
    observer = Observer(state)
    state.scheduler = SimpleNamespace(executors=lambda: {"2": "n1"})
    state.executors = {"1": "n1", "2": "n1"}
    core.finish("numbers")
    error = RuntimeError(f"Job aborted: Task 0 in stage 3.0 failed, most recent failure: {ROWS_GONE}")
    for _ in range(4):
        observer._see_ended(run, job_of(error=error), 20.0)
    observer.see_executors(21.0)
    for _ in range(4):
        observer._see_ended(run, job_of(error=error), 22.0)
    with pytest.raises(PipelineFailed, match=r"stage result: what executors hold for it was lost.* 5 times"):
        observer._see_ended(run, job_of(error=error), 23.0)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (DrawnTwice("map outputs were lost"), '(?s)weather: map outputs were lost, 4 times.*exchange="blocking"'),
        (RuntimeError("Job aborted due to stage failure: indeterminate output was failed"), "indeterminate"),
        (
            RuntimeError("Job aborted due to stage failure: \nAborting TaskSet 7.0 because task 0 (x)\ncannot run"),
            "Task",
        ),
    ],
)
def test_a_cached_result_that_could_not_be_made_for_lost_executors_is_planned_again_a_few_times(raised, says):
    state, run, _ = holding()
    observer = Observer(state)
    run.raised = CachedResultFailed(state.graph.stage("weather"), raised)
    run.error = PipelineFailed("its function raised CachedResultFailed", remedy="mend it")
    pauses = []
    for _ in range(3):
        observer.see_stage(run, 10.0)
        pauses.append(state.plan_after["result"] - time.monotonic())
    assert pauses == sorted(pauses)  # each longer than the one before
    with pytest.raises(PipelineFailed, match=says):
        observer.see_stage(run, 10.0)


@pytest.mark.requirement("S7-14")
def test_a_stored_partition_that_is_being_made_again_is_not_lost_twice():
    """Two stages may find the same loss at once."""
    state, _, core = holding()
    observer = Observer(state)
    core.finish("numbers")
    for _ in range(4):
        for _ in range(2):
            observer._see_partitions_lost("numbers", [ResultPartitionID("numbers", 0)], "gone", 10.0)
        core.finish("numbers[0]")
    with pytest.raises(StoreRefused, match=r"numbers/0 has been made, and was lost, 5 times: gone"):
        observer._see_partitions_lost("numbers", [ResultPartitionID("numbers", 0)], "gone", 10.0)


def test_only_plannings_that_fail_one_after_the_other_are_too_many():
    state, run, _ = holding()
    observer = Observer(state)
    run.raised, run.map_side = CachedResultFailed(state.graph.stage("weather"), DrawnTwice("twice")), True
    run.error = PipelineFailed("its function raised CachedResultFailed", remedy="mend it")
    for _ in range(4):
        observer.see_stage(run, 10.0)
        observer.see_stage(run, 11.0)
        run.planned = SimpleNamespace(values="v")
        observer.see_planned(run, None, 12.0)


def test_a_loop_that_has_come_further_is_planned_again_as_often_as_at_first():
    """Else it could lose executors three times in all the hours that it runs."""
    reached, error = [0], PipelineFailed("an executor was lost")
    state: Any = SimpleNamespace(activations=lambda stage: reached[0], plan_after={})
    observer = Observer(state)
    for _ in range(3):
        observer._plan_later("loop", error)
    with pytest.raises(PipelineFailed):
        observer._plan_later("loop", error)
    reached[0] = 1
    for _ in range(3):
        observer._plan_later("loop", error)
    with pytest.raises(PipelineFailed):
        observer._plan_later("loop", error)
