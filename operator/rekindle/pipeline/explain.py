"""A pipeline as text, before it runs: stages, exchanges, regions, what is speculated and why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rekindle.pipeline.connectors_told import HEADER, connector_rows
from rekindle.pipeline.distribution import Pointwise
from rekindle.pipeline.eligibility import refuse_streaming, why_not_speculated
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import deterministic, has_map_side, members, reader_of
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.loops.drawing import boxes, entry_of, exit_of
from rekindle.pipeline.stage import Stage

if TYPE_CHECKING:
    from rekindle.core.options import SpeculationOptions


def explain(graph: PipelineGraph, speculation: SpeculationOptions, missing_levers: Sequence[str] = ()) -> str:
    """The explanation that `rekindle explain` prints; needs no Spark.

    Args:
        missing_levers: what the session lacks and what is therefore not done, one sentence each.

    Raises:
        PipelineError: a streaming source meets speculation.
    """
    refuse_streaming(graph, speculation)
    rows = [_row(stage) for stage in graph.stages]
    levers = [f"- {lever}" for lever in missing_levers]
    sections = [
        [_title(graph)],
        ["Stages", *_table(["stage", "reads", "result", "exchange", ""], rows)],
        ["Sources and sinks", *_table(HEADER, list(connector_rows(graph, speculation)))],
        ["Regions (what restarts together)", *(f"- {line}" for line in _regions(graph))],
        ["Speculation", *_speculation(graph, speculation)],
        ["Missing settings of the session", *(levers or ["none"])],
        ["Mermaid", mermaid(graph, speculation).rstrip()],
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def mermaid(graph: PipelineGraph, speculation: SpeculationOptions) -> str:
    """The same as a Mermaid flow chart. A fused region is a box; what a dotted arrow brings is not stored.

    Raises:
        PipelineError: a streaming source meets speculation.
    """
    refuse_streaming(graph, speculation)
    lines = ["flowchart LR", *_nodes(graph, speculation), *_arrows(graph)]
    return "\n".join(lines) + "\n"


def _title(graph: PipelineGraph) -> str:
    sinks = sum(stage.sink is not None for stage in graph.stages)
    return f"Pipeline {graph.name}: {_count(len(graph.stages), 'stage')}, {_count(sinks, 'sink')}"


def _row(stage: Stage) -> list[str]:
    note = f"-> {stage.sink}" if stage.sink else stage.description
    return [stage.name, ", ".join(stage.inputs) or "(source)", _result(stage), str(stage.exchange), note]


def _result(stage: Stage) -> str:
    if stage.exchange is ExchangeMode.PIPELINED:
        return "not stored"
    return f"{stage.partitions} × {stage.distribution}"


def _regions(graph: PipelineGraph) -> Iterator[str]:
    for stage in graph.stages:
        if stage.exchange is ExchangeMode.PIPELINED:
            continue
        inside = [member.name for member in members(graph, stage)[:-1]]
        with_fused = f", with {' and '.join(inside)} computed inside" if inside else ""
        if stage.exchange is ExchangeMode.CACHED:
            yield f"{stage.name}: one region{with_fused}; lost with its executors and then computed again"
        elif has_map_side(stage):
            yield f"{stage.name}.map: one region{with_fused}; {_if_lost(deterministic(graph, stage))}"
            yield f"{stage.name}: {_each(stage)}"
        else:
            yield f"{stage.name}: {_each(stage)}{with_fused}"


def _each(stage: Stage) -> str:
    return f"{_count(stage.partitions, 'region')}, one per result partition"


def _if_lost(promise: bool | None) -> str:
    if promise is True:
        return "made again alone, for it promises the same rows"
    also = "" if promise is False else " unless its output proves equal"
    return f"made again, it restarts the whole stage{also}"


def _speculation(graph: PipelineGraph, options: SpeculationOptions) -> list[str]:
    rows = []
    for stage in graph.stages:
        if stage.exchange is ExchangeMode.PIPELINED:
            rows.append([stage.name, "-", f"computed inside {reader_of(graph, stage).name}"])
            continue
        reason = why_not_speculated(graph, stage, options)
        copies = f"up to {options.max_concurrent_executions} attempts of a partition at a time"
        rows.append([stage.name, "no" if reason else "yes", reason or copies])
    lines = _table(["stage", "copies", ""], rows)
    if options.enabled:
        lines.append("The map sides' tasks are copied by Spark itself (spark.speculation.*), in every stage.")
    return lines


def _nodes(graph: PipelineGraph, speculation: SpeculationOptions) -> Iterator[str]:
    for stage in graph.stages:
        if stage.exchange is ExchangeMode.PIPELINED:
            continue
        if stage.loop is not None:
            yield from boxes(stage.loop)
        node = _node(stage, _copies(graph, stage, speculation))
        inside = members(graph, stage)[:-1]
        if inside:
            yield f'  subgraph region_{stage.name}["one region"]'
            yield from (f"    {_node(member)}" for member in inside)
            yield f"    {node}"
            yield "  end"
        else:
            yield f"  {node}"


def _arrows(graph: PipelineGraph) -> Iterator[str]:
    for stage in graph.stages:
        for name in stage.inputs:
            is_first = stage.loop is not None and name == stage.inputs[0]
            to = entry_of(stage.loop) if stage.loop is not None and is_first else f"n_{stage.name}"
            yield f"  n_{name} {_arrow(graph.stage(name), stage)} {to}"
        if stage.loop is not None:
            yield f"  {exit_of(stage.loop)} --> n_{stage.name}"
        if stage.sink:
            yield f'  n_{stage.name} ==> o_{stage.name}[("{_escape(str(stage.sink))}")]'


def _copies(graph: PipelineGraph, stage: Stage, speculation: SpeculationOptions) -> str:
    reason = why_not_speculated(graph, stage, speculation)
    return f"no copies: {reason}" if reason else "speculated"


def _node(stage: Stage, *more: str) -> str:
    lines = [stage.name, _result(stage), *more]
    return f'n_{stage.name}["{"<br/>".join(_escape(line) for line in lines)}"]'


def _arrow(source: Stage, stage: Stage) -> str:
    label = str(source.exchange)
    if isinstance(stage.distribution, Pointwise):
        label += ", pointwise" if stage.distribution.source == source.name else ", broadcast"
    line = "-->" if source.exchange is ExchangeMode.BLOCKING else "-.->"
    return f"{line}|{label}|"


def _escape(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Left-aligned columns, as wide as their widest cell."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
