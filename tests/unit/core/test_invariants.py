"""Each invariant is broken on purpose, and noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.core.execution import ExecutionState, InvariantViolation
from rekindle.core.job_graph import JobEdge
from rekindle.core.job_state import JobState
from tests.unit.core.dsl import Run, job

Breaks = Callable[[JobState], object]


def broken(run: Run, breaks: Breaks) -> str:
    """What is said when `breaks` has been at the state of a job that was in order before."""
    run.graph.validate_state()
    breaks(run.graph._state)
    with pytest.raises(InvariantViolation) as violation:
        run.graph.validate_state()
    return str(violation.value)


def under_way() -> Run:
    """A and B have finished, C runs, behind a shuffle."""
    run = Run(job("A => B => map ~> C")).submit()
    run.finish("A")
    run.finish("B")
    return run.deploy("map").deploy("C")


def fail(vertex: str) -> Breaks:
    """An attempt fails, and nothing is done about it."""

    def breaks(state: JobState) -> None:
        (task,) = state.vertices[vertex].tasks
        task.put(task.representative.to(ExecutionState.FAILED))

    return breaks


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda state: state.vertices["A"].finished.clear(), "A[0] is FINISHED"),
        (lambda state: state.vertices["C"].pending.add(0), "C[0] is RUNNING"),
        (lambda state: state.vertices["B"].tasks[0]._current.clear(), "B[0] has no current execution"),
        (lambda state: state.partitions.invalidate("A", [0]), "partition A/0 is recorded: False"),
        (
            lambda state: state.partitions.lose("B", [0]),
            "B -> map: {0} wait for partition 0, which is missing",
        ),
        (fail("C"), "C[0] is FAILED and is not tried again"),
        (fail("map"), "map[0] is FAILED and is not tried again"),
    ],
)
def test_of_vertices_and_partitions(breaks, message):
    assert broken(under_way(), breaks) == message


def held() -> Run:
    """C has finished, and waits for the digest that A has the second time; D has to run."""
    run = Run(job("A => C", "A => D")).submit()
    run.finish("A", digest="x")
    run.finish("C")
    run.loses("A/0").restarts("A[0] D[0]")
    return run


A_TO_C = JobEdge("A", "C")


@pytest.mark.requirement("S7-7")
@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda state: state.sparing._held[A_TO_C].clear(), "A -> C holds []"),
        (lambda state: state.sparing._held.update({JobEdge("A", "D"): {0}}), "A -> D holds [0]"),
        (lambda state: state.sparing._expected.clear(), "A -> C holds [0] for no digest"),
        (lambda state: setattr(state, "told_finish", True), "the job is done, and {"),
        (lambda state: state.sparing._held.clear(), "A is compared for nobody"),
        (lambda state: state.sparing._expected.update(C={0: "x"}), "C is compared for nobody"),
    ],
)
def test_of_finished_vertices_that_are_held_back(breaks, message):
    assert broken(held(), breaks).startswith(message)


@pytest.mark.requirement("S7-7")
def test_a_digest_is_not_awaited_of_what_has_finished():
    run = Run(job("A*2 => C", "A => D")).submit()
    run.finish("A", digest="x")
    run.finish("C")
    run.loses("A/0")
    message = broken(run, lambda state: state.sparing._expected["A"].update({1: "x"}))
    assert message == "A: a digest is awaited of a finished vertex"
