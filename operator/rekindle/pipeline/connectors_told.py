"""The two ends of a pipeline as rows of `rekindle explain`: what each source and sink is, and who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rekindle.pipeline.eligibility import why_not_read_twice, why_not_speculated
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.sinks import FileSink, Sink, WrittenElsewhere
from rekindle.pipeline.stage import Stage

if TYPE_CHECKING:
    from rekindle.core.options import SpeculationOptions

HEADER = ["stage", "is", "how", "attempts at a time", ""]


def connector_rows(graph: PipelineGraph, options: SpeculationOptions) -> Iterator[list[str]]:
    """One for each source and sink, under `HEADER`."""
    for stage in graph.stages:
        if stage.source is not None:
            why_not = why_not_read_twice(stage, options)
            how = f"{stage.source.name}, by splits"
            yield [stage.name, "source", how, "one" if why_not else "several", why_not or ""]
        elif stage.is_source:
            yield [stage.name, "source", "a function of spark", "as Spark plans", ""]
        if stage.sink is not None:
            why_not = why_not_speculated(graph, stage, options)
            notes = filter(None, (why_not, _repeats(stage.sink)))
            yield [stage.name, "sink", _how(stage), "one" if why_not else "several", "; ".join(notes)]


def _how(stage: Stage) -> str:
    """`FileSink csv, error`"""
    sink = stage.sink
    kind = type(sink).__name__
    if isinstance(sink, FileSink):
        return f"{kind} {sink.format}, {sink.mode}"
    if isinstance(sink, WrittenElsewhere):
        return " ".join(filter(None, (kind, sink.format_name))) + f", {sink.mode}"
    return kind


def _repeats(sink: Sink) -> str:
    """What becomes of a commit that was cut off, where that ends the run."""
    if isinstance(sink, WrittenElsewhere) and not sink.may_repeat:
        return "a commit that was cut off is not repeated (repeatable)"
    return ""
