"""What is made of what is seen."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core.events import AttemptFailed
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.observer import Observer, finished_at


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
