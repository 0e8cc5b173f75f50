"""Which stages run as one: a pipelined stage is computed inside the stage that reads it."""

from __future__ import annotations

from rekindle.pipeline.distribution import Assigned, Pointwise, Rebalance
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage


def members(graph: PipelineGraph, stage: Stage) -> tuple[Stage, ...]:
    """The stages that `stage`'s Spark job computes: its pipelined inputs, theirs, and itself last."""
    inside: list[Stage] = []
    for name in stage.inputs:
        source = graph.stage(name)
        if source.exchange is ExchangeMode.PIPELINED:
            inside += members(graph, source)
    return (*inside, stage)


def reader_of(graph: PipelineGraph, stage: Stage) -> Stage:
    """The stage in whose Spark job `stage` is computed; `stage` itself unless it is pipelined."""
    while stage.exchange is ExchangeMode.PIPELINED:
        (stage,) = graph.consumers(stage.name)
    return stage


def has_map_side(stage: Stage) -> bool:
    """Whether its Spark job exchanges rows before it writes them: then it is two job vertices."""
    return stage.exchange is ExchangeMode.BLOCKING and not isinstance(stage.distribution, Pointwise | Assigned)


def map_vertex(name: str) -> str:
    """The job vertex that is the map side of the stage `name`."""
    return f"{name}.map"


def deterministic(graph: PipelineGraph, stage: Stage) -> bool | None:
    """What the stage and all that is computed inside it promise together: the weakest promise holds.

    No promise is worth anything over a cached input that may come out differently: once lost, it is made again with
    other rows, in the midst of the stage. Nor where rows are dealt out: which of several partitions a row is in
    depends on how the input was cut, and that on how many cores the driver has.
    """
    inside = members(graph, stage)
    promises = {member.deterministic for member in inside}
    if False in promises:
        return False
    if has_map_side(stage) and isinstance(stage.distribution, Rebalance) and stage.partitions > 1:
        return None
    inputs = (graph.stage(name) for member in inside for name in member.inputs)
    cached = (one for one in inputs if one.exchange is ExchangeMode.CACHED)
    return None if None in promises or not all(deterministic(graph, one) for one in cached) else True


def stored_inputs(graph: PipelineGraph, stage: Stage) -> tuple[str, ...]:
    """Names of the stored results that `stage` reads, also through fused and cached stages, each once."""
    found: dict[str, None] = {}
    for name in stage.inputs:
        producer = graph.stage(name)
        if producer.exchange is ExchangeMode.BLOCKING:
            found[name] = None
        else:
            found.update(dict.fromkeys(stored_inputs(graph, producer)))
    return tuple(found)


def cached_inputs(graph: PipelineGraph, stage: Stage) -> tuple[str, ...]:
    """Names of the CACHED results that `stage` reads, directly or through fused stages."""
    found: dict[str, None] = {}
    for name in stage.inputs:
        producer = graph.stage(name)
        if producer.exchange is ExchangeMode.CACHED:
            found[name] = None
        if producer.exchange is not ExchangeMode.BLOCKING:
            found.update(dict.fromkeys(cached_inputs(graph, producer)))
    return tuple(found)
