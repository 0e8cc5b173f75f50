"""Which job vertices and edges a pipeline becomes."""

from __future__ import annotations

import pytest

from rekindle.core.job_graph import DistributionPattern, JobEdge, JobVertex, ResultKind
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import Pipeline, PipelineError, PipelineGraph, Sink
from rekindle.pipeline.translation import to_job_graph
from tests.unit.pipeline.helpers import three_stages

OFF, ON = SpeculationOptions(), SpeculationOptions(enabled=True)
ALL_TO_ALL, POINTWISE = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE


def vertices(graph: PipelineGraph, options: SpeculationOptions = OFF) -> dict[str, JobVertex]:
    return {vertex.name: vertex for vertex in to_job_graph(graph, options).vertices}


def edges(graph: PipelineGraph) -> list[JobEdge]:
    """In a fixed order."""
    return sorted(to_job_graph(graph, OFF).edges, key=lambda edge: (edge.producer, edge.consumer))


def test_a_stage_that_shuffles_is_two_vertices_with_an_ephemeral_result_between():
    graph = three_stages(partition_by="carrier", partitions=3).build()
    found = vertices(graph)
    assert {name: vertex.parallelism for name, vertex in found.items()} == {
        "flights.map": 1, "flights": 8, "delayed.map": 1, "delayed": 3, "report.map": 1, "report": 8,
    }  # fmt: skip
    assert edges(graph) == [
        JobEdge("delayed", "report.map", ResultKind.BLOCKING, ALL_TO_ALL),
        JobEdge("delayed.map", "delayed", ResultKind.EPHEMERAL, ALL_TO_ALL),
        JobEdge("flights", "delayed.map", ResultKind.BLOCKING, ALL_TO_ALL),
        JobEdge("flights.map", "flights", ResultKind.EPHEMERAL, ALL_TO_ALL),
        JobEdge("report.map", "report", ResultKind.EPHEMERAL, ALL_TO_ALL),
    ]
    assert to_job_graph(graph, OFF).name == "delays"


def test_a_pointwise_stage_is_one_vertex():
    pipeline = Pipeline("p")
    pipeline.source(name="airlines", partitions=1)(lambda spark: spark)
    pipeline.source(name="flights", partitions=4)(lambda spark: spark)
    pipeline.sink("out", name="report", pointwise=True, broadcast="airlines")(lambda flights, airlines: flights)
    graph = pipeline.build()
    assert vertices(graph)["report"].parallelism == 4
    assert "report.map" not in vertices(graph)
    assert [edge for edge in edges(graph) if edge.consumer == "report"] == [
        JobEdge("airlines", "report", ResultKind.BLOCKING, ALL_TO_ALL),
        JobEdge("flights", "report", ResultKind.BLOCKING, POINTWISE),
    ]


@pytest.mark.requirement("S6-12")
def test_a_pipelined_stage_is_part_of_its_reader():
    graph = three_stages(exchange="pipelined").build()
    assert list(vertices(graph)) == ["flights.map", "flights", "report.map", "report"]
    assert JobEdge("flights", "report.map", ResultKind.BLOCKING, ALL_TO_ALL) in edges(graph)
    assert not [edge for edge in edges(graph) if edge.kind is ResultKind.PIPELINED]


def test_pipelined_stages_in_a_row_are_one_region_with_all_their_inputs():
    pipeline = Pipeline("p")
    pipeline.source(name="a", exchange="pipelined")(lambda spark: spark)
    pipeline.source(name="b")(lambda spark: spark)
    pipeline.stage(name="c", exchange="pipelined")(lambda a, b: a)
    pipeline.sink("out", name="d")(lambda b, c: c)
    graph = pipeline.build()
    assert list(vertices(graph)) == ["b.map", "b", "d.map", "d"]
    assert [edge for edge in edges(graph) if edge.consumer == "d.map"] == [
        JobEdge("b", "d.map", ResultKind.BLOCKING, ALL_TO_ALL)
    ]
    assert vertices(graph)["d.map"].contains_sources


def test_a_result_read_pointwise_and_whole_is_one_edge_to_all():
    pipeline = Pipeline("p")
    pipeline.source(name="flights")(lambda spark: spark)
    pipeline.stage(name="top", exchange="pipelined")(lambda flights: flights)
    pipeline.sink("out", name="report", pointwise=True, broadcast="top")(lambda flights, top: flights)
    assert [edge for edge in edges(pipeline.build()) if edge.consumer == "report"] == [
        JobEdge("flights", "report", ResultKind.BLOCKING, ALL_TO_ALL)
    ]


@pytest.mark.requirement("S6-10")
def test_a_cached_stage_is_one_execution_vertex_with_cached_results():
    pipeline = three_stages(exchange="cached", partition_by="carrier", partitions=5)
    pipeline.sink("out/more", name="more", pointwise=True, broadcast="delayed")(lambda flights, delayed: flights)
    graph = pipeline.build()
    assert vertices(graph)["delayed"].parallelism == 1
    assert "delayed.map" not in vertices(graph)
    assert [edge for edge in edges(graph) if "delayed" in (edge.producer, edge.consumer)] == [
        JobEdge("delayed", "more", ResultKind.CACHED, ALL_TO_ALL),
        JobEdge("delayed", "report.map", ResultKind.CACHED, ALL_TO_ALL),
        JobEdge("flights", "delayed", ResultKind.BLOCKING, ALL_TO_ALL),
    ]


def test_sources_and_sinks_are_known_as_such():
    found = vertices(three_stages().build())
    assert {name for name, vertex in found.items() if vertex.contains_sources} == {"flights.map", "flights"}
    assert {name for name, vertex in found.items() if vertex.contains_sinks} == {"report"}


@pytest.mark.parametrize("promise", [True, False, None])
def test_what_a_stage_promises_holds_for_its_map_side_too(promise):
    found = vertices(three_stages(deterministic=promise, partition_by="k").build())
    assert found["delayed"].deterministic is promise
    assert found["delayed.map"].deterministic is promise
    assert found["report"].deterministic is None


@pytest.mark.parametrize(
    ("inner", "outer", "together"),
    [(True, True, True), (None, True, None), (True, None, None), (False, True, False), (None, False, False)],
)
def test_the_weakest_promise_in_a_region_holds(inner, outer, together):
    pipeline = Pipeline("p")
    pipeline.source(name="a", exchange="pipelined", deterministic=inner)(lambda spark: spark)
    pipeline.sink("out", name="b", partition_by="k", deterministic=outer)(lambda a: a)
    assert vertices(pipeline.build())["b"].deterministic is together


@pytest.mark.requirement("S7-7")
@pytest.mark.parametrize(
    ("layout", "counts"),
    [({"partition_by": "k"}, True), ({"partitions": 1}, True), ({"partitions": 2}, None), ({"pointwise": True}, True)],
)
def test_no_promise_holds_where_rows_are_dealt_out(layout, counts):
    """In which partition a row is depends on how the input was cut, and that on the cores of the driver's cluster."""
    pipeline = Pipeline("p", default_partitions=4)
    pipeline.source(name="a", partition_by="k")(lambda spark: spark)
    pipeline.sink("out", name="b", deterministic=True, **layout)(lambda a: a)
    assert vertices(pipeline.build())["b"].deterministic is counts


@pytest.mark.parametrize(
    ("held", "reader", "together"),
    [(True, True, True), (None, True, None), (False, True, None), (False, False, False), (True, None, None)],
)
def test_no_promise_holds_over_a_cached_input_that_may_come_out_differently(held, reader, together):
    pipeline = Pipeline("p")
    pipeline.source(name="a", exchange="cached", deterministic=held)(lambda spark: spark)
    pipeline.stage(name="b", exchange="pipelined", deterministic=True)(lambda a: a)
    pipeline.sink("out", name="c", partition_by="k", deterministic=reader)(lambda b: b)
    assert vertices(pipeline.build())["c"].deterministic is together


# -- speculation ---------------------------------------------------------------------------------------


def speculated(pipeline: Pipeline, **options) -> set[str]:
    found = vertices(pipeline.build(), SpeculationOptions(**{"enabled": True, **options}))
    return {name for name, vertex in found.items() if vertex.speculative}


@pytest.mark.requirement("S2-12")
def test_nothing_is_speculated_unless_asked_for():
    assert speculated(three_stages(), enabled=False, source_enabled=True, sink_enabled=True) == set()


@pytest.mark.requirement("S5-1", "S5-2", "S5-3")
def test_sources_follow_the_switch_and_sinks_do_not():
    assert speculated(three_stages()) == {"flights", "delayed"}


@pytest.mark.requirement("S2-13", "S5-5")
def test_sources_and_sinks_have_switches_of_their_own():
    assert speculated(three_stages(), source_enabled=False) == {"delayed"}
    assert speculated(three_stages(), source_enabled=True, sink_enabled=True) == {
        "flights",
        "delayed",
        "report",
    }


class Queue(Sink):
    target = "queue:delays"


class SharedQueue(Queue):
    supports_concurrent_execution_attempts = True


@pytest.mark.requirement("S5-4", "S5-5", "S5-6", "S5-7")
def test_a_sink_has_the_capability_only_if_it_says_so():
    pipeline = three_stages()
    pipeline.sink(Queue(), name="sent")(lambda delayed: delayed)
    assert speculated(pipeline, sink_enabled=True) == {"flights", "delayed", "report"}
    pipeline = three_stages()
    pipeline.sink(SharedQueue(), name="sent")(lambda delayed: delayed)
    assert speculated(pipeline, sink_enabled=True) == {"flights", "delayed", "report", "sent"}


@pytest.mark.requirement("S2-44", "S5-9", "S5-10", "S5-11")
def test_a_stage_can_opt_out():
    assert speculated(three_stages(speculation=False)) == {"flights"}


@pytest.mark.requirement("S2-13")
def test_all_that_a_vertex_contains_must_allow_it():
    pipeline = three_stages(exchange="pipelined", speculation=False)
    assert speculated(pipeline, sink_enabled=True) == {"flights"}
    pipeline = Pipeline("p")
    pipeline.source(name="a", exchange="pipelined")(lambda spark: spark)
    pipeline.stage(name="b")(lambda a: a)
    pipeline.sink("out", name="c")(lambda b: b)
    assert speculated(pipeline) == {"b"}
    assert speculated(pipeline, source_enabled=False) == set()


def test_a_cached_stage_is_not_speculated():
    assert speculated(three_stages(exchange="cached")) == {"flights"}


@pytest.mark.requirement("S2-9", "S7-15")
def test_a_streaming_source_meets_speculation():
    pipeline = Pipeline("p")
    pipeline.source(name="clicks", streaming=True, speculation=False)(lambda spark: spark)
    pipeline.sink("out", name="report")(lambda clicks: clicks)
    graph = pipeline.build()
    assert to_job_graph(graph, OFF).name == "p"
    with pytest.raises(PipelineError) as caught:
        to_job_graph(graph, ON)
    assert caught.value.stage == "clicks"
    assert str(caught.value) == (
        "source 'clicks' is a streaming source and speculation is on\n"
        "-> speculation is for bounded data: set speculation.enabled to false"
    )
