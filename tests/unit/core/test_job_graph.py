"""The job graph: what is refused, and who reads what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from tests.unit.core.dsl import job


@pytest.mark.parametrize(
    ("chains", "message"),
    [
        (["A => B => C => A"], "the vertices form a cycle: "),
        (["A => A"], "the vertices form a cycle: A -> A"),
    ],
)
def test_a_cycle_is_refused(chains, message):
    with pytest.raises(ValueError, match=message):
        job(*chains)


def test_a_cycle_is_told_in_the_direction_of_the_data():
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is looked at below)
        job("A => B => C => A")
    path = str(error.value).split("cycle: ")[1].split(" -> ")
    assert path[0] == path[-1]
    assert "".join(path) in "ABCABCA"


def test_an_edge_to_no_vertex_is_refused():
    with pytest.raises(ValueError, match="edge A -> X: X is no vertex of it"):
        JobGraph("test", (JobVertex("A", 1),), (JobEdge("A", "X"),))


def test_a_name_used_twice_is_refused():
    with pytest.raises(ValueError, match="two vertices are called A"):
        JobGraph("test", (JobVertex("A", 1), JobVertex("A", 2)))


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_vertex_without_subtasks_is_refused(parallelism):
    with pytest.raises(ValueError, match="job vertex A: parallelism is"):
        JobVertex("A", parallelism)


def test_a_vertex_without_a_name_is_refused():
    with pytest.raises(ValueError, match=r"^JobVertex\.name is empty: give the vertex a name$"):
        JobVertex("", 1)


def test_producers_come_before_consumers():
    order = job("D => E", "A => B => C => D", "A => D").order
    assert [order.index(name) for name in "ABCDE"] == sorted(order.index(name) for name in "ABCDE")


@pytest.mark.requirement("S6-12")
def test_only_blocking_results_are_stored():
    assert [kind for kind in ResultKind if kind.is_stored] == [ResultKind.BLOCKING]


@given(producers=st.integers(1, 12), consumers=st.integers(1, 12))
def test_pointwise_who_reads_and_who_is_read_agree(producers, consumers):
    graph = JobGraph(
        "test",
        (JobVertex("A", producers), JobVertex("B", consumers)),
        (JobEdge("A", "B", pattern=DistributionPattern.POINTWISE),),
    )
    (edge,) = graph.edges
    reads = {(p, c) for c in range(consumers) for p in graph.producers(edge, c)}
    assert reads == {(p, c) for p in range(producers) for c in graph.consumers(edge, p)}
    assert {p for p, _ in reads} == set(range(producers)), "each partition is read"
    assert {c for _, c in reads} == set(range(consumers)), "each consumer reads"
    assert len(reads) == max(producers, consumers), "as few connections as possible"


def test_all_to_all_everybody_reads_everything():
    graph = job("A*3 => B*2")
    (edge,) = graph.edges
    assert graph.producers(edge, 1) == range(3)
    assert graph.consumers(edge, 2) == range(2)


def test_the_order_in_which_a_graph_is_declared_is_not_its_shape():
    vertices, edges = (JobVertex("A", 1), JobVertex("B", 2), JobVertex("C", 2)), (JobEdge("A", "B"), JobEdge("A", "C"))
    graph = JobGraph("test", vertices, edges)
    assert graph.same_shape(JobGraph("test", vertices[::-1], edges[::-1]))
    assert not graph.same_shape(JobGraph("test", vertices, edges[:1]))
    assert not graph.same_shape(JobGraph("test", (*vertices[:2], JobVertex("C", 3)), edges))
