"""From what was declared to a graph: check everything, order, resolve what was left open."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.pipeline.checks import CHECKS
from rekindle.pipeline.declaration import Declaration, Role
from rekindle.pipeline.distribution import Assigned, Distribution, Keyed, Pointwise, Rebalance
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.trace import root
from rekindle.pipeline.stage import Stage
from rekindle.pipeline.wiring import WIRING_CHECKS, check_pipeline, topological


def build_graph(name: str, declared: tuple[Declaration, ...], default_partitions: int) -> PipelineGraph:
    """Raises PipelineError for the first thing that is wrong, before anything has run."""
    check_pipeline(name, declared, default_partitions)
    for one in declared:
        for check in CHECKS:
            check(one)
    for wiring_check in WIRING_CHECKS:
        wiring_check(declared)
    stages: dict[str, Stage] = {}
    for one in topological(declared):
        stages[one.name] = _resolve(one, stages, default_partitions)
    return PipelineGraph(name, tuple(stages.values()))


def _resolve(declared: Declaration, before: Mapping[str, Stage], default_partitions: int) -> Stage:
    options = declared.options
    distribution = _distribution(declared, default_partitions)
    return Stage(
        name=declared.name,
        fn=declared.fn,
        inputs=declared.inputs,
        description=declared.description,
        distribution=distribution,
        partitions=_partitions(distribution, before),
        exchange=ExchangeMode(options.exchange),
        deterministic=options.deterministic,
        speculation=options.speculation,
        sink=options.sink,
        broadcast=frozenset(options.broadcast),
        is_source=declared.role is Role.SOURCE,
        takes_spark=declared.takes_spark,
        is_streaming=options.streaming,
        source=options.source,
        loop=_loop(declared),
    )


def _loop(declared: Declaration) -> LoopBody | None:
    loop = declared.options.loop
    if loop is None:
        return None
    return root(
        declared.name,
        declared.fn,
        declared.inputs[1:],
        own_feedback=loop.own_feedback,
        most_activations=loop.most_activations,
        feedback_first=loop.feedback_first,
    )


def _distribution(declared: Declaration, default_partitions: int) -> Distribution:
    options = declared.options
    if options.pointwise:
        return Pointwise(declared.main_inputs[0])
    partitions = options.partitions or default_partitions
    if options.partition_by is not None:
        return Keyed(options.partition_by, partitions)
    is_stored = options.exchange == ExchangeMode.BLOCKING
    return Assigned(partitions) if options.source is not None and is_stored else Rebalance(partitions)


def _partitions(distribution: Distribution, before: Mapping[str, Stage]) -> int:
    if isinstance(distribution, Pointwise):
        return before[distribution.source].partitions
    return distribution.partitions
