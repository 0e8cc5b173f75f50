"""Which of Spark's tasks stands for which attempt, and which attempt has won."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core.ids import ExecutionVertexID
from rekindle.core.options import SpeculationOptions
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import TaskView
from tests.unit.core.dsl import Run, attempt_id, job

VERTEX = ExecutionVertexID("A", 0)
STAGES, COPYS, SPARKS_OWN = 1, 2, 3
"""Ids of Spark's tasks: of the stage's job, of the copy's, and one that Spark's own speculation has launched."""

JOBS = {STAGES: STAGES, COPYS: COPYS, SPARKS_OWN: STAGES}
"""[task -> whose job runs it]"""


def beside_a_copy(*seen: int) -> tuple[Run, AttemptBindings]:
    """A slow task and its copy; which of the two were seen to run."""
    run = Run(job("A*2"), speculation=SpeculationOptions(enabled=True)).submit()
    run.has_nodes("n1", "n2", "n3").deploy("A[0]", "n1")
    run.slow("A[0]#0")
    assert run.states("A[0]") == ["RUNNING", "SCHEDULED"]
    bindings = AttemptBindings()
    jobs = {task: job_of() for task in (STAGES, COPYS)}
    copy: Any = SimpleNamespace(partition=0, attempt=1, job=jobs[COPYS])
    for task in seen:
        view = TaskView(task, 0, f"n{task}", 10.0 * task, "RUNNING", None)
        bindings.bind(view, "A", jobs[JOBS[task]], [copy], run.graph)
    return run, bindings


def job_of() -> Any:
    """One of Spark's, told apart by who it is."""
    return type("Job", (), {"cancelled": False})()


def manifest_of(task: int) -> Manifest:
    return dataclasses.replace(Manifest.of_nothing("A", 0), task=task)


@pytest.mark.requirement("S2-3")
@pytest.mark.parametrize(
    ("seen", "wrote", "won"),
    [
        ((STAGES, COPYS), STAGES, 0),
        ((STAGES, COPYS), COPYS, 1),
        ((STAGES, COPYS), SPARKS_OWN, 1),
        ((STAGES,), COPYS, 1),  # it was over before it was seen
        ((STAGES,), SPARKS_OWN, 1),
        ((STAGES, SPARKS_OWN), SPARKS_OWN, 1),
        ((STAGES, SPARKS_OWN, COPYS), SPARKS_OWN, 1),
        ((STAGES, SPARKS_OWN, COPYS), COPYS, 1),
        ((), STAGES, 0),
    ],
)
def test_a_task_that_stands_for_nobody_wins_for_the_attempt_that_it_can_be(seen, wrote, won):
    """Spark speculates by itself, too: where such a task is the quickest, a copy has won and not the slow one."""
    run, bindings = beside_a_copy(*seen)
    assert bindings.winner(manifest_of(wrote), run.graph, VERTEX, ours=True) == attempt_id(f"A[0]#{won}")
    assert bindings.is_bound(wrote) is (wrote in seen and wrote != SPARKS_OWN)  # the copy has a job that runs it


def test_before_a_copy_is_asked_for_one_that_spark_has_made_wins_for_the_original():
    run = Run(job("A*2")).submit().deploy("A")
    bindings, stages = AttemptBindings(), job_of()
    for number in (STAGES, SPARKS_OWN):
        bindings.bind(TaskView(number, 0, "n1", 1.0, "RUNNING", None), "A", stages, [], run.graph)
    assert bindings.winner(manifest_of(SPARKS_OWN), run.graph, VERTEX, ours=True) == attempt_id("A[0]#0")


def test_a_task_of_an_earlier_driver_is_the_first_attempt_that_is_wanted_now():
    run, bindings = beside_a_copy(STAGES, COPYS)
    assert bindings.winner(manifest_of(COPYS), run.graph, VERTEX, ours=False) == attempt_id("A[0]#0")
