"""The region strategy against its three rules, word by word, on graphs with every edge drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from tests.unit.core.dsl import names
from tests.unit.core.test_failover import Failover

Edge = tuple[ExecutionVertexID, ExecutionVertexID, bool]
"""(producer, consumer, pipelined)"""


@st.composite
def graphs(draw: st.DrawFn) -> JobGraph:
    count = draw(st.integers(1, 5))
    vertices = [JobVertex(f"v{number}", draw(st.integers(1, 3))) for number in range(count)]
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=7)) if pairs else []
    edges = [
        JobEdge(f"v{a}", f"v{b}", draw(st.sampled_from(ResultKind)), draw(st.sampled_from(DistributionPattern)))
        for a, b in chosen
    ]
    return JobGraph("drawn", tuple(vertices), tuple(edges))


def all_vertices(graph: JobGraph) -> list[ExecutionVertexID]:
    return [ExecutionVertexID(v.name, subtask) for v in graph.vertices for subtask in range(v.parallelism)]


def every_edge(graph: JobGraph) -> list[Edge]:
    return [
        (ExecutionVertexID(edge.producer, p), ExecutionVertexID(edge.consumer, c), edge.kind is ResultKind.PIPELINED)
        for edge in graph.edges
        for c in range(graph.vertex(edge.consumer).parallelism)
        for p in graph.producers(edge, c)
    ]


def spread(
    graph: JobGraph, failed: set[ExecutionVertexID], is_lost: Callable[[ExecutionVertexID, str], bool]
) -> set[ExecutionVertexID]:
    """Grow the set of those that failed by the rules until it does not grow.

    `is_lost` tells of a producer whether the result that it made for a job vertex is.
    """
    edges = every_edge(graph)
    restart = failed
    while True:
        more = set(restart)
        for producer, consumer, pipelined in edges:
            if pipelined and restart & {producer, consumer}:
                more |= {producer, consumer}
            elif consumer in restart and is_lost(producer, consumer.vertex):
                more.add(producer)
            if producer in restart:
                more.add(consumer)
        if more == restart:
            return restart
        restart = more


@pytest.mark.requirement("S7-2", "S7-3", "S7-4", "S7-5", "S7-11", "S6-15")
@settings(max_examples=3 * settings().max_examples)
@given(graph=graphs(), data=st.data())
def test_exactly_what_the_rules_say_restarts(graph, data):
    failed = data.draw(st.sampled_from(all_vertices(graph)))
    lost = data.draw(st.sets(st.sampled_from(all_vertices(graph))))
    failover = Failover(graph)
    assume(not failover.merges_regions())  # test_regions.py has these
    failover.lost(" ".join(f"{one.vertex}/{one.subtask}" for one in lost))
    assert failover.fails(str(failed)) == names(spread(graph, {failed}, lambda producer, _: producer in lost))
