"""What is released, against every failure that could follow: nothing that one of them needs, and all the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import JobGraph, ResultKind
from tests.unit.core.dsl import Run, job
from tests.unit.core.test_failover_oracle import all_vertices, every_edge, graphs, spread


def reached(graph: JobGraph, open_: set[str]) -> set[str]:
    """Job vertices that run again when all open ones fail, and what they read and all that is not stored is lost.

    No failure of a single generation of results does more. A vertex may make one result that is stored and one that
    is not: only the latter is lost by itself.
    """
    unstored = {(edge.producer, edge.consumer) for edge in graph.edges if not edge.kind.is_stored}
    read = {edge.producer for edge in graph.edges if edge.consumer in open_}
    failed = {one for one in all_vertices(graph) if one.vertex in open_}

    def is_lost(producer: ExecutionVertexID, consumer: str) -> bool:
        return producer.vertex in read or (producer.vertex, consumer) in unstored

    return {one.vertex for one in spread(graph, failed, is_lost)}


def unneeded(graph: JobGraph, open_: set[str]) -> set[str]:
    """Stored results that neither are made again nor read again, whatever fails."""
    again = reached(graph, open_)
    stored = {edge.producer for edge in graph.edges if edge.kind.is_stored}
    read_again = {edge.producer for edge in graph.edges if edge.consumer in again}
    return stored - again - read_again


def unfinished(run: Run, graph: JobGraph) -> set[str]:
    """Job vertices that have work to do: not those that only feed what has finished."""
    open_ = {name for name in graph.order if not run.graph.is_finished(name)}
    kept = (ResultKind.EPHEMERAL, ResultKind.CACHED)
    for name in reversed(graph.order):
        edges = graph.outputs(name)
        if edges and all(edge.kind in kept and edge.consumer not in open_ for edge in edges):
            open_.discard(name)
    return open_


def deployed(run: Run, graph: JobGraph) -> list[ExecutionVertexID]:
    """Execution vertices that are deployed and may finish: who reads a pipelined result ends after who writes it."""
    candidates = [ExecutionVertexID(name, one) for name in graph.order for one in run.graph.unfinished(name)]
    waiting = {reader for writer, reader, pipelined in every_edge(graph) if pipelined and writer in candidates}
    return [vertex for vertex in candidates if run.graph.is_deployed(vertex) and vertex not in waiting]


@pytest.mark.requirement("S7-23", "S7-25")
@settings(max_examples=3 * settings().max_examples)
@given(graph=graphs(), data=st.data())
def test_exactly_what_no_failure_can_need_is_released(graph, data):
    run, released = Run(graph).submit(), set[str]()
    while not run.graph.is_done:
        running = deployed(run, graph)
        one = data.draw(st.sampled_from(running))
        released |= set(run.finish(str(one)).released)
        assert released == unneeded(graph, unfinished(run, graph))


@pytest.mark.requirement("S7-13", "S7-23")
@settings(max_examples=3 * settings().max_examples)
@given(graph=graphs(), data=st.data())
def test_what_was_released_is_not_made_again_for_one_failure(graph, data):
    run, released = Run(graph).submit(), set[str]()
    for _ in range(data.draw(st.integers(0, 12))):
        running = deployed(run, graph)
        if running:
            released |= set(run.finish(str(data.draw(st.sampled_from(running)))).released)
    needed = unfinished(run, graph)
    open_ = [vertex for vertex in deployed(run, graph) if vertex.vertex in needed]
    if not open_:
        return
    failed = data.draw(st.sampled_from(open_))
    read = [producer for producer, consumer, pipelined in every_edge(graph) if consumer == failed and not pipelined]
    lost = data.draw(st.sampled_from(read)) if read else None
    answer = run.fails(str(failed), cannot_read=f"{lost.vertex}/{lost.subtask}" if lost else None)
    assert not {name.split("[")[0] for name in answer.restarted} & released


@pytest.mark.requirement("S7-23")
def test_a_task_whose_only_reader_is_done_is_not_waited_for():
    """What it makes was read; its twin runs again for a reader that restarts, and it does not."""
    run = Run(job("A*2 -1> B*2 ~1> C*2", "A -1> D*2")).submit()
    run.finish("C")
    assert run.fails("A[0]").restarted == {"A[0]", "B[0]", "C[0]", "D[0]"}
    run.finish("A")
    run.finish("B[0]")
    run.finish("D")
    run.finish("C[0]")
    assert run.graph.is_done
