"""What a job master tells of its job arrives as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from rekindle.api.job_report import MOST_RANGES, MOST_SUBTASKS, MOST_WHY, MOST_WHYS, JobReport, job_report, too_large
from rekindle.api.operator_exchange import MOST_ANSWER_BYTES, ExchangeAnswer, decode, encode, wished
from rekindle.core.inventory import Alike, Group, JobInventory, Reached
from rekindle.core.job_graph import JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.recovery_plan import RecoveryPlan
from tests.unit.core.dsl import Run, job
from tests.unit.core.test_replay import play, rolls_of_dice, runs


def sent(report: JobReport | None) -> JobReport:
    """As it arrives."""
    arrived = decode(encode(wished([], excludes=True, job=report)), ExchangeAnswer).job
    assert arrived is not None
    return arrived


@given(run=runs(), rolls=rolls_of_dice)
def test_graph_and_inventory_arrive_as_they_were(run, rolls):
    play(run, rolls)
    inventory = run.graph.inventory()
    report = job_report(run.job_graph, inventory, run.graph.typical_seconds())
    if any(one.kind is ResultKind.PIPELINED for one in run.job_graph.edges):
        assert report is None
        return
    arrived = sent(report)
    assert arrived.inventory() == inventory
    told = arrived.job_graph()
    assert told.edges == run.job_graph.edges
    assert told.order == run.job_graph.order
    kept = [(one.name, one.parallelism, one.deterministic) for one in run.job_graph.vertices]
    assert [(one.name, one.parallelism, one.deterministic) for one in told.vertices] == kept


def test_all_that_subtasks_may_have_in_common_arrives():
    alike = Alike(Reached.FINISHED, 3, missing=True, comparable=True, awaited=True, empty=True)
    inventory = JobInventory({"A": (Group(alike, ((0, 1),)),)})
    assert sent(job_report(job("A*3 => B"), inventory, {})).inventory() == inventory


def test_what_a_subtask_takes_is_told_where_one_has_finished():
    run = Run(job("A*3 => B")).submit()
    run.deploy("A[0]").deploy("A[1]")
    run.now = 4.0
    run.finish("A[0]")
    report = job_report(run.job_graph, run.graph.inventory(), run.graph.typical_seconds())
    assert {one.name: one.seconds for one in sent(report).vertices} == {"A": 4.0, "B": None}


def test_what_a_driver_did_about_the_loss_of_the_one_before_is_told():
    graph = job("A*3 => B*2")
    plan = RecoveryPlan({"A": ((1, 2),), "B": ((0, 1),)}, 1)
    done = sent(job_report(graph, JobInventory(), {}, plan)).recovery
    assert done is not None
    assert [(one.vertex, one.subtasks) for one in done.restart] == [("A", ((1, 2),)), ("B", ((0, 1),))]
    assert (done.reused, done.first_task_at) == (1, None)
    timed = sent(job_report(graph, JobInventory(), {}, plan, 1234.5)).recovery
    assert timed is not None
    assert timed.first_task_at == 1234.5


def test_why_a_driver_did_more_than_the_loss_asks_for_is_told_at_no_length():
    graph, long = job("A*3 => B*2"), tuple(f"{number}: {'x' * 1000}" for number in range(100))
    for why in ((), ("the pipeline was edited",)):
        done = sent(job_report(graph, JobInventory(), {}, RecoveryPlan(why=why))).recovery
        assert done is not None
        assert done.why == why
    done = sent(job_report(graph, JobInventory(), {}, RecoveryPlan(why=long))).recovery
    assert done is not None
    assert [(len(one), one[:2]) for one in done.why] == [(MOST_WHY, f"{number}:") for number in range(MOST_WHYS)]


def test_a_driver_of_before_gives_no_reasons():
    told = decode(json.dumps({"job": recovery()}).encode(), ExchangeAnswer).job
    assert told is not None
    assert told.recovery is not None
    assert told.recovery.why == ()


def in_pieces(count: int) -> JobInventory:
    """Every second subtask of A has finished, so many."""
    pieces = tuple((2 * place, 2 * place) for place in range(count))
    return JobInventory({"A": (Group(Alike(Reached.FINISHED), pieces),)})


def test_a_job_in_too_many_pieces_is_not_told():
    graph = JobGraph("wide", (JobVertex("A", MOST_SUBTASKS - 1), JobVertex("B", 1)), (JobEdge("A", "B"),))
    whole = job_report(graph, in_pieces(MOST_RANGES), {})
    assert len(encode(wished([], excludes=True, job=whole))) < MOST_ANSWER_BYTES
    assert whole is not None
    assert job_report(graph, in_pieces(MOST_RANGES + 1), {}) is None
    restarted = RecoveryPlan({"B": ((0, 0),)}, 0)
    assert job_report(graph, in_pieces(MOST_RANGES), {}, restarted) is None


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (JobGraph("j", (JobVertex("A", MOST_SUBTASKS + 1),)), "100001 subtasks, which is more than 100000"),
        (JobGraph("j", tuple(JobVertex(f"v{n}", 1) for n in range(501))), "501 job vertices"),
        (
            JobGraph(
                "j",
                tuple(JobVertex(f"v{n}", 2000) for n in range(25)),
                tuple(JobEdge(f"v{n}", f"v{m}") for n in range(25) for m in range(n + 1, 25)),
            ),
            "1200000 subtasks beside exchanges",
        ),
    ],
)
def test_a_job_that_would_take_long_to_plan_with_is_not_told(graph, why):
    reason = too_large(graph)
    assert reason is not None
    assert reason.startswith(why)
    assert job_report(graph, JobInventory(), {}) is None


def body(**changed: Any) -> dict[str, Any]:
    """A job of two stages, A of three, which have finished, and B of two; with some of it changed."""
    finished = {"reached": "FINISHED", "subtasks": [[0, 2]]}
    return {
        "name": "j",
        "vertices": [{"name": "A", "parallelism": 3, "groups": [finished]}, {"name": "B", "parallelism": 2}],
        "edges": [{"producer": "A", "consumer": "B", "kind": "BLOCKING", "pattern": "ALL_TO_ALL"}],
        **changed,
    }


def vertex(*subtasks: list[list[int]], **changed: Any) -> dict[str, Any]:
    groups = [{"reached": "FINISHED", "version": n + 1, "subtasks": one} for n, one in enumerate(subtasks)]
    return body(vertices=[{"name": "A", "parallelism": 3, "groups": groups, **changed}], edges=[])


def edge(**changed: Any) -> dict[str, Any]:
    return {**body()["edges"][0], **changed}


def recovery(*restart: dict[str, Any], reused: int = 0, **more: Any) -> dict[str, Any]:
    return body(recovery={"restart": list(restart), "reused": reused, **more})


def test_what_is_a_report_is_taken():
    told = decode(json.dumps({"job": body()}).encode(), ExchangeAnswer).job
    assert told is not None
    assert told.inventory().groups == {"A": (Group(Alike(Reached.FINISHED), ((0, 2),)),)}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (vertex(parallelism=0), "job.vertices[0].parallelism"),
        (vertex(parallelism=MOST_SUBTASKS + 1), "job.vertices[0].parallelism"),
        (vertex(name="a[/b]"), "job.vertices[0].name"),
        (vertex(name="a\x1b[2J"), "job.vertices[0].name"),
        (vertex(name="n" * 254), "job.vertices[0].name"),
        (vertex(seconds=1e13), "job.vertices[0].seconds"),
        (vertex(seconds=-1.0), "job.vertices[0].seconds"),
        (vertex(groups=[{"reached": "LOST", "subtasks": []}]), "job.vertices[0].groups[0].reached"),
        (vertex([[0]]), "job.vertices[0].groups[0].subtasks"),
        (vertex([[2, 0]]), "subtasks 2 to 0 of A"),
        (vertex([[0, 3]]), "subtasks 0 to 3 of A"),
        (vertex([[0, 1]], [[1, 2]]), "subtasks 1 to 2 of A"),
        (vertex(*[[[0, 2]]] * 1000), "subtasks 0 to 2 of A"),
        (vertex(*[[]] * (MOST_RANGES + 1)), "groups"),
        (body(vertices=[vertex()["vertices"][0]] * 2, edges=[]), "two vertices are called A"),
        (body(edges=[edge(consumer="C")]), "C is no vertex"),
        (body(edges=[edge(consumer="A")]), "cycle"),
        (body(edges=[edge(), edge()]), "an exchange is there twice"),
        (body(edges=[edge(kind="PIPELINED")]), "PIPELINED"),
        (body(edges=[edge(held=[[1, 2]])]), "subtasks 1 to 2 of B"),
        (body(released=["C"]), "released"),
        (recovery(reused=10**13), "job.recovery.reused"),
        (recovery(why=["x"] * (MOST_WHYS + 1)), "job.recovery.why"),
        (recovery(why=["x" * (MOST_WHY + 1)]), "job.recovery.why[0]"),
        (recovery(why=[1]), "job.recovery.why[0]"),
        (recovery({"vertex": "A", "subtasks": [[2, 1]]}), "subtasks 2 to 1 of A"),
        (recovery({"vertex": "C", "subtasks": [[0, 0]]}), "subtasks 0 to 0 of C"),
        (recovery(*[{"vertex": "A", "subtasks": [[0, 0]]}] * 2), "twice"),
    ],
)
def test_what_is_no_report_is_refused_by_name(told, said):
    with pytest.raises(ValueError, match="job") as refused:
        decode(json.dumps({"job": told}).encode(), ExchangeAnswer)
    assert said in str(refused.value)
