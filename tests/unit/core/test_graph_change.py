"""An edited pipeline: what still fits the new graph is kept, and the rest begins under names nobody has written to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core import events as ev
from rekindle.core.graph_change import kept_vertices
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import JobGraph, JobVertex
from rekindle.core.options import FailoverOptions, FailoverStrategyKind
from tests.unit.core.dsl import Run, job, replay
from tests.unit.core.test_replay import SHAPES, all_goes_well, play, rolls_of_dice, runs

CHAIN = "A*2 => B*2 => C"


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        (job(CHAIN), "A B C"),
        (job(CHAIN, B={"deterministic": True}), "A B C"),
        (job("A*2 => B*2 => C", "B => D"), "A B C"),
        (job("A*2 => B*2"), "A B"),
        (job("A*2 => B*3 => C"), "A"),
        (job("A*2 =1> B*2 => C"), "A"),
        (job("A*2 +> B*2 => C"), "A"),
        (job("A*2 => X*2 => B*2 => C"), "A"),
        (job("A*2 => B*2 => C", "A => C"), "A B"),
        (job("A*3 => B*2 => C"), ""),
        (job("A*2 -> B*2 => C"), ""),
        (job("Q*2 => R"), ""),
    ],
)
def test_a_vertex_is_kept_where_it_is_what_it_was_and_so_is_what_it_reads(new, kept):
    assert kept_vertices(job(CHAIN), new) == set(kept.split())


@pytest.mark.parametrize("new", [job("A -> B*2 => C"), job("A -> B -> D => C"), job("A => B => C")])
def test_a_pipelined_group_is_kept_as_a_whole_or_not_at_all(new):
    assert kept_vertices(job("A -> B => C"), new) == set()


def test_a_group_is_the_same_in_whatever_order_its_stages_are_declared():
    old, new = job("A -> B", "A -> C => D"), job("A -> C => D", "A -> B")
    assert kept_vertices(old, new) == set("ABCD")


@pytest.mark.requirement("S7-2", "S7-5")
def test_what_is_kept_is_not_made_again_and_what_is_not_begins_a_version_of_its_own():
    run = Run(job("A*2 => B*2 => C")).submit()
    run.finish("A")
    run.finish("B[0]")
    run.deploy("B[1]")
    run.now = 7.0
    promised = job("A*2 => B*3 => C => D", A={"deterministic": True})
    run.becomes(promised).restarts("B[0] B[1]")
    assert tuple(one.job_vertex for one in run.graph.execution_job_vertices()) == promised.vertices
    assert {one.created_at for one in run.graph.current_executions(ExecutionVertexID("B", 0))} == {7.0}
    assert run.loses_driver().restarts_nothing().deployed == ["B[0]#1", "B[1]#1", "B[2]#1"]
    assert (run.versions("A"), run.versions("B"), run.versions("C"), run.versions("D")) == ([1, 1], [2, 2, 2], [1], [1])
    all_goes_well(run)
    assert run.graph.is_done


def test_a_name_that_comes_back_begins_a_version_that_it_never_had():
    """Else what an attempt of long ago has stored would be taken for its result."""
    run = Run(job("A => B => C")).submit()
    run.finish("A")
    run.finish("B")
    run.becomes(job("A => C"))
    run.loses_driver()
    run.becomes(job("A => B => C"))
    assert run.loses_driver().deployed == ["B[0]#1"]
    assert run.version("B[0]") == 2


@pytest.mark.requirement("S7-4", "S7-7")
def test_a_released_result_that_a_new_vertex_reads_is_made_again_and_its_old_readers_wait_for_its_digest():
    run = Run(job("A => B => C => D", "C => E")).submit()
    for name in "ABC":
        run.finish(name, "x")
    run.finish("D")
    assert "A" in {name for _, _, answer in run.journal for name in answer.released}
    run.becomes(job("A => B => C => D", "C => E", "A => N")).restarts("A[0]")
    assert run.graph.suspects() == (ExecutionVertexID("B", 0),)
    run.loses_driver()
    assert run.finish("A", "x").spared == {"B[0]"}
    again = Run(job("A => B => C => D", "C => E")).submit()
    for name in "ABC":
        again.finish(name, "x")
    again.becomes(job("A => B => C => D", "C => E", "A => N"))
    again.loses_driver()
    assert "B[0]" in again.finish("A", "another").restarted


def test_what_was_left_of_a_job_may_be_taken_out_of_it():
    run = Run(job("A => B", "A => C")).submit()
    run.finish("A")
    run.finish("B")
    run.becomes(job("A => B"))
    run.loses_driver()
    assert run.graph.is_done


def test_a_block_and_what_has_failed_stay_as_they_are():
    run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=1)).submit().has_nodes("n1", "n2", "n3")
    run.see(ev.NodeBlockRequested("n1", 100.0, "a person"))
    run.fails("A[0]")
    run.becomes(job("A => B => C"))
    assert set(run.graph.blocked_nodes(0.0)) == {"n1"}
    run.loses_driver()
    run.fails("A[0]")
    assert run.graph.has_failed


def test_a_job_that_has_failed_may_be_mended_by_another_graph():
    run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=0)).submit()
    run.finish("A")
    run.fails("B[0]")
    assert run.graph.has_failed
    run.becomes(job("A => C"))
    assert run.loses_driver().deployed == ["C[0]#0"]


@pytest.mark.requirement("S7-9", "S7-16")
@given(run=runs(), rolls=rolls_of_dice, more=rolls_of_dice, shape=st.sampled_from(SHAPES))
def test_whatever_has_happened_to_a_job_it_comes_to_its_end_with_another_graph(run, rolls, more, shape):
    """The state is checked after each event, and a later driver replays all of it."""
    play(run, rolls)
    begun = {
        name: max(task.version for task in run.graph.execution_vertices(name) if task.representative.state != "CREATED")
        for name in run.job_graph.order
        if any(task.representative.state != "CREATED" for task in run.graph.execution_vertices(name))
    }
    new = shape({"deterministic": None})
    kept = kept_vertices(run.job_graph, new)
    run.becomes(new)
    for name in set(new.order) - kept:
        assert min(run.versions(name)) > begun.get(name, 0)
    run.loses_driver()
    play(run, more)
    all_goes_well(run)
    assert run.graph.is_done or run.graph.has_failed
    again, answers = replay(run)
    assert answers == [answer for _, _, answer in run.journal]
    assert again.snapshot() == run.snapshot()


@given(run=runs(), rolls=rolls_of_dice, more=rolls_of_dice)
def test_the_same_graph_changes_nothing(run, rolls, more):
    play(run, rolls)
    before = seen_of(run)
    run.becomes(run.job_graph).restarts_nothing()
    assert seen_of(run) == before


def seen_of(run: Run) -> list[object]:
    """All but whether the job is done: the new driver is told so anew."""
    graph, names = run.graph, run.job_graph.order
    tasks = [(task.id, task.version, task.executions) for name in names for task in graph.execution_vertices(name)]
    return [tasks, graph.metrics(), graph.blocked_nodes(run.now), graph.suspects(), graph.inventory(), graph.has_failed]


def test_a_graph_that_is_none_is_refused_where_it_is_read():
    record = ev.to_record(ev.JobGraphChanged.to(job("A => B")))
    with pytest.raises(ValueError, match="B is no vertex"):
        ev.from_record({**record, "vertices": record["vertices"][:1]})
    assert ev.JobGraphChanged((JobVertex("A", 1),), ()).job_graph("p") == JobGraph("p", (JobVertex("A", 1),))


PROMISED = {"deterministic": True}


@pytest.mark.requirement("S7-7")
def test_a_promise_does_not_spare_those_who_have_read_other_code_of_a_result_that_is_being_made_again():
    """Its code changes in the edit for which it is made again: when the rerun is asked for it waits already."""
    run = Run(job("A => B => C => D", "C => E", A=PROMISED)).submit()
    for name in "ABC":
        run.finish(name, "x")
    run.finish("D")
    run.becomes(job("A => B => C => D", "C => E", "A => N", A=PROMISED)).restarts("A[0]")
    assert "B[0]" in run.reruns("A").restarted
    run.loses_driver()
    run.finish("A", "other")
    assert run.version("B[0]") == 2


@pytest.mark.requirement("S7-7")
def test_nor_those_who_have_read_what_is_made_of_that():
    run = Run(job("X => A => B => C => D", "C => E", X=PROMISED, A=PROMISED)).submit()
    for name in "XABC":
        run.finish(name, "x")
    run.finish("D")
    run.becomes(job("X => A => B => C => D", "C => E", "A => N", X=PROMISED, A=PROMISED)).restarts("X[0] A[0]")
    assert "B[0]" in run.reruns("X").restarted


@pytest.mark.requirement("S7-7")
def test_nor_those_who_have_read_a_result_that_was_lost_before_its_rerun_was_asked_for():
    run = Run(job("X => A => B*2", X=PROMISED, A=PROMISED)).submit()
    for name in ("X", "A", "B[0]"):
        run.finish(name, "x")
    run.loses("X/0 A/0").restarts("X[0] A[0] B[1]")
    assert "B[0]" in run.reruns("A").restarted


@pytest.mark.parametrize("strategy", FailoverStrategyKind)
def test_a_rerun_of_what_nobody_has_made_costs_nothing(strategy):
    run = Run(job("A => B => C"), failover=FailoverOptions(strategy=strategy)).submit()
    run.finish("A")
    run.reruns("C").restarts_nothing()


@pytest.mark.requirement("S7-7")
def test_a_promise_that_is_given_while_half_of_a_stage_has_finished_holds_for_that_half_too():
    run = Run(job("A*2 =1> B*2")).submit()
    run.finish("A[0]", "x")
    run.becomes(job("A*2 =1> B*2", A=PROMISED)).restarts_nothing()
    run.loses_driver().restarts("A[1]")
    run.finish("A[1]", "x")
    run.finish("B[0]")
    run.loses("A/0 A/1").restarts("A[1] B[1]")
    run.becomes(job("A*2 =1> B*2", "A => N", A=PROMISED)).restarts("A[0]")
    assert run.graph.suspects() == ()


@pytest.mark.requirement("S7-7")
def test_where_a_promise_is_taken_back_then_the_other_half_is_compared():
    run = Run(job("A*2 =1> B*2", A=PROMISED)).submit()
    run.finish("A[0]", "x")
    run.becomes(job("A*2 =1> B*2")).restarts_nothing()
    run.loses_driver()
    run.finish("A[1]", "x")
    run.finish("B[0]")
    run.loses("A/0")
    run.becomes(job("A*2 =1> B*2", "A => N")).restarts("A[0]")
    assert run.graph.suspects() == (ExecutionVertexID("B", 0),)
    run.loses_driver()
    assert "B[0]" in run.finish("A[0]", "other").restarted
