"""Pipelined regions, on the topologies that Flink's are tested with."""

import pytest

from rekindle.core.job_graph import JobGraph
from rekindle.core.regions import PipelinedRegions
from tests.unit.core.dsl import job, names, vertex_id

pytestmark = pytest.mark.requirement("S6-5", "S6-6")


def regions(graph: JobGraph) -> set[frozenset[str]]:
    all_ = PipelinedRegions(graph)
    ids = [vertex_id(f"{name}[{one}]") for name in graph.order for one in range(graph.vertex(name).parallelism)]
    found = {frozenset(names(all_.region(one))) for one in ids}
    assert sum(map(len, found)) == len(ids), "disjoint"
    return found


def are(*lines: str) -> set[frozenset[str]]:
    return {frozenset(line.split()) for line in lines}


@pytest.mark.requirement("S6-7")
def test_individual_vertices():
    assert regions(job("A*2", "B")) == are("A[0]", "A[1]", "B[0]")


@pytest.mark.requirement("S6-3")
def test_embarrassingly_parallel():
    graph = job("A*3 -1> B*3 -1> C*3")
    assert regions(graph) == are("A[0] B[0] C[0]", "A[1] B[1] C[1]", "A[2] B[2] C[2]")


def test_one_component_by_two_exchanges():
    assert len(regions(job("A*3 -1> B*3 -> C*2"))) == 1


def test_one_component_by_a_cascade_of_joins():
    assert len(regions(job("A*2 -> C*2 -> E*2", "B*2 -> C", "D*2 -> E"))) == 1


def test_one_component_from_one_source():
    assert len(regions(job("A -> B*2 -> D*2", "A -> C*2 -> E*2"))) == 1


def test_a_blocking_exchange_separates():
    graph = job("A*2 -1> B*2 => C*2")
    assert regions(graph) == are("A[0] B[0]", "A[1] B[1]", "C[0]", "C[1]")


def test_several_components_by_a_cascade_of_joins():
    graph = job("A -> C => E", "B -> C", "D -> E")
    assert regions(graph) == are("A[0] B[0] C[0]", "D[0] E[0]")


@pytest.mark.parametrize("arrow", ["=>", "~>", "+>"])
def test_only_pipelined_exchanges_connect(arrow):
    assert regions(job(f"A {arrow} B")) == are("A[0]", "B[0]")


def test_the_direction_does_not_matter():
    assert regions(job("A -> B", "A -> C")) == are("A[0] B[0] C[0]")


def test_pointwise_with_fewer_consumers_joins_neighbours():
    assert regions(job("A*4 -1> B*2")) == are("A[0] A[1] B[0]", "A[2] A[3] B[1]")


def test_a_diamond_with_both_ways_is_one_region():
    """B could not run before C is complete, nor C before A is, which runs with B."""
    graph = job("A*2 -1> B*2", "A =1> C*2 =1> B")
    assert regions(graph) == are("A[0] A[1] B[0] B[1] C[0] C[1]")


def test_a_blocking_exchange_within_a_region_does_not_part_it():
    assert regions(job("A -> C -> D", "A =1> B -> D")) == are("A[0] B[0] C[0] D[0]")


@pytest.mark.requirement("S6-11")
def test_nor_are_there_regions_that_each_wait_for_the_whole_of_what_all_of_them_make():
    """B[0] and B[1] would each wait for A[0] and A[1], of which one runs only with the other B."""
    graph = job("A*2 -1> C*2 -1> D*2", "A => B*2 -1> D")
    assert regions(graph) == are("A[0] A[1] B[0] B[1] C[0] C[1] D[0] D[1]")
    pointwise = job("A*4 -1> B*3 =1> C*2", "A -1> C")
    assert len(regions(pointwise)) == 1


def test_regions_that_wait_for_each_other_are_merged():
    graph = job("A -> B", "C -> D", "A => D", "C => B")
    assert regions(graph) == are("A[0] B[0] C[0] D[0]")


def test_regions_that_only_read_each_other_are_not():
    graph = job("A -> B => C -> D", "A => D")
    assert regions(graph) == are("A[0] B[0]", "C[0] D[0]")
