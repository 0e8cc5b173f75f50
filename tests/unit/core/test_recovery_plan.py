"""What a new driver tells of what it makes again, where the pipeline was edited meanwhile."""

from __future__ import annotations

import pytest

from rekindle.core.actions import EDITED, Action, Restart
from rekindle.core.job_graph import JobGraph
from rekindle.core.recovery_plan import RecoveryPlan, plan_of
from tests.unit.core.dsl import Run, job


def half_done() -> Run:
    """A and B are there, and C runs."""
    run = Run(job("A*2 => B*4 => C")).submit()
    run.finish("A")
    run.finish("B")
    run.deploy("C")
    return run


def plan(run: Run, *graphs: JobGraph, reruns: str = "") -> RecoveryPlan:
    """That of a driver which finds the pipeline edited, once or more often, and stages to be made again."""
    actions: list[Action] = [action for graph in graphs for action in run.becomes(graph)]
    actions += [action for name in reruns.split() for action in run.reruns(name)]
    return plan_of(run.graph, [*actions, *run.loses_driver()])


def test_a_lost_driver_needs_no_reason():
    assert plan(half_done()) == RecoveryPlan({"C": ((0, 0),)}, reused=6, left={"C": 1})
    assert plan(half_done()).why == ()


def test_stages_that_begin_anew_are_made_again_as_far_as_they_had_begun():
    told = plan(half_done(), job("A*2 => B*6 => C => D"))
    assert told == RecoveryPlan({"B": ((0, 3),), "C": ((0, 0),)}, reused=2, left={"B": 6, "C": 1, "D": 1})
    assert told.why == (EDITED,)


def test_only_subtasks_that_there_are_still_can_be_made_again():
    assert plan(half_done(), job("A*2 => B*2 => C")).restart == {"B": ((0, 1),), "C": ((0, 0),)}


def test_a_stage_that_had_not_begun_is_not_made_again():
    run = Run(job("A => B => C")).submit()
    run.finish("A")
    assert plan(run, job("A => B*2 => C")).restart == {"B": ((0, 0),)}


def test_with_what_begins_anew_goes_what_is_made_again_for_a_new_reader():
    run = Run(job("A => B => C => D", "C => E")).submit()
    for name in "ABCD":
        run.finish(name, "x")
    [restart] = run.becomes(job("A => B => C => D*2", "C => E", "A => N")).of(Restart)
    assert (restart.cause, list(map(str, restart.vertices))) == (EDITED, ["A[0]", "D[0]"])
    assert run.graph.metrics().num_restarted_vertices == 2


@pytest.mark.parametrize("graph", [job("A*2 => B*4"), job("A*2 => B*4 => C", "B => D")])
def test_an_edit_is_told_also_where_nothing_is_made_again_for_it(graph):
    told = plan(half_done(), graph)
    assert told.restart.keys() <= {"C"}
    assert told.why == (EDITED,)


def test_why_a_stage_is_made_again_that_was_asked_for_is_told():
    told = plan(half_done(), reruns="A")
    assert told.restart == {"A": ((0, 1),), "B": ((0, 3),), "C": ((0, 0),)}
    assert told.why == ("stage A again: somebody asks",)


def test_two_edits_in_a_row_are_told_together_as_the_last_one_left_the_pipeline():
    told = plan(half_done(), job("A*2 => B*6 => C", "A => N"), job("A*2 => B*3 => C"))
    assert told == RecoveryPlan({"B": ((0, 2),), "C": ((0, 0),)}, reused=2, left={"B": 3, "C": 1})
    gone = plan(half_done(), job("A*2 => B*6 => C"), job("A*2 => C"))
    assert gone == RecoveryPlan({"C": ((0, 0),)}, reused=2, left={"C": 1})
