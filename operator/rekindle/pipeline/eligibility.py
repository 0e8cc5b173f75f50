"""Which stages may have a second attempt beside a slow one, and why the others may not (`S2-13`, `S5-5`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import members
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.sinks import DataSourceSink, Sink
from rekindle.pipeline.stage import Stage

if TYPE_CHECKING:
    from rekindle.core.options import SpeculationOptions


def why_not_speculated(graph: PipelineGraph, stage: Stage, options: SpeculationOptions) -> str | None:
    """Why no partition of `stage` gets a second attempt; None where one may.

    Sources follow `options.enabled` unless `source_enabled` says otherwise; sinks need `sink_enabled` and the
    capability. All that is computed inside the stage must agree.
    """
    if not options.enabled:
        return "speculation.enabled is false"
    if stage.exchange is ExchangeMode.CACHED:
        return "it has no job of its own: its readers compute it"
    if stage.loop is not None:
        return "it is a loop: what goes round is not copied"
    for member in members(graph, stage):
        if reason := _why_not(member, options):
            return reason if member is stage else f"{member.name}, computed inside it: {reason}"
    return None


def may_read_twice(stage: Stage, options: SpeculationOptions) -> bool:
    """Whether two attempts may read from a source at the same time: nobody has said that they must not. It keeps those
    apart which Spark starts by itself too."""
    return why_not_read_twice(stage, options) is None


def _why_not(stage: Stage, options: SpeculationOptions) -> str | None:
    if reason := why_not_read_twice(stage, options):
        return reason
    if stage.sink and not options.sink_enabled:
        return "it is a sink and speculation.sinkEnabled is false"
    if stage.sink and not stage.sink.supports_concurrent_execution_attempts:
        return f"its sink does not support concurrent execution attempts{_how_to_support(stage.sink)}"
    return None


def _how_to_support(sink: Sink) -> str:
    """What to say where that is so."""
    is_declared = isinstance(sink, DataSourceSink) and sink.concurrent_attempts is None
    return ": its class does not say supports_concurrent_execution_attempts = True" if is_declared else ""


def why_not_read_twice(stage: Stage, options: SpeculationOptions) -> str | None:
    """Why no two attempts may read from a source at the same time; None where they may."""
    if not stage.speculation:
        return "the stage says speculation=False"
    if stage.source is not None and stage.source.side_effects:
        return "its function may have side effects: it does not say side_effects=False"
    if stage.is_source and options.source_enabled is False:
        return "it is a source and speculation.sourceEnabled is false"
    return None


def refuse_streaming(graph: PipelineGraph, options: SpeculationOptions) -> None:
    """Raises PipelineError when speculation is on and a source is unbounded (`S2-9`)."""
    for stage in graph.stages:
        if options.enabled and stage.is_streaming:
            raise PipelineError(
                f"source {stage.name!r} is a streaming source and speculation is on",
                remedy="speculation is for bounded data: set speculation.enabled to false",
                stage=stage.name,
            )
