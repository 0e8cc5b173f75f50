"""From stages to job vertices.

A stage that exchanges rows in its Spark job is two job vertices: the map side `<stage>.map`, counted as one
execution vertex, and `<stage>`, with one execution vertex per result partition. What lies between them is
Spark's own and EPHEMERAL: it lives no longer than the driver and the executors that hold it. A pipelined
stage is part of its reader's vertices. A cached stage is a vertex of its own with one execution vertex.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.pipeline.distribution import Pointwise
from rekindle.pipeline.eligibility import refuse_streaming, why_not_speculated
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import deterministic, has_map_side, map_vertex, members
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage

if TYPE_CHECKING:
    from rekindle.core.options import SpeculationOptions


def to_job_graph(graph: PipelineGraph, speculation: SpeculationOptions) -> JobGraph:
    """Raises PipelineError when a streaming source meets speculation."""
    refuse_streaming(graph, speculation)
    stages = [stage for stage in graph.stages if stage.exchange is not ExchangeMode.PIPELINED]
    vertices = tuple(vertex for stage in stages for vertex in _vertices(graph, stage, speculation))
    edges = tuple(edge for stage in stages for edge in _edges(graph, stage))
    return JobGraph(graph.name, vertices, edges)


def _vertices(graph: PipelineGraph, stage: Stage, speculation: SpeculationOptions) -> Iterator[JobVertex]:
    inside = members(graph, stage)
    contains_sources = any(member.is_source for member in inside)
    promise = deterministic(graph, stage)
    if has_map_side(stage):
        yield JobVertex(
            map_vertex(stage.name),
            1,
            speculative=False,  # its tasks are Spark's to copy, by spark.speculation.*
            deterministic=promise,
            contains_sources=contains_sources,
        )
    yield JobVertex(
        stage.name,
        1 if stage.exchange is ExchangeMode.CACHED else stage.partitions,
        speculative=why_not_speculated(graph, stage, speculation) is None,
        deterministic=promise,
        # A copy whose map output is gone reads the source again, so the gate of S2-13 is for the whole stage.
        contains_sources=contains_sources,
        contains_sinks=stage.sink is not None,
    )


def _edges(graph: PipelineGraph, stage: Stage) -> Iterator[JobEdge]:
    head = map_vertex(stage.name) if has_map_side(stage) else stage.name
    patterns: dict[str, DistributionPattern] = {}
    for member in members(graph, stage):
        for name in member.inputs:
            if graph.stage(name).exchange is not ExchangeMode.PIPELINED:
                patterns[name] = _wider(patterns.get(name), _pattern(member, name))
    for name, pattern in patterns.items():
        cached = graph.stage(name).exchange is ExchangeMode.CACHED
        yield JobEdge(name, head, ResultKind.CACHED if cached else ResultKind.BLOCKING, pattern)
    if head != stage.name:
        yield JobEdge(head, stage.name, ResultKind.EPHEMERAL, DistributionPattern.ALL_TO_ALL)


def _pattern(stage: Stage, name: str) -> DistributionPattern:
    if isinstance(stage.distribution, Pointwise) and stage.distribution.source == name:
        return DistributionPattern.POINTWISE
    return DistributionPattern.ALL_TO_ALL


def _wider(known: DistributionPattern | None, found: DistributionPattern) -> DistributionPattern:
    """A result read in both ways is one group of edges: the pattern that covers both."""
    return found if known in (None, found) else DistributionPattern.ALL_TO_ALL
