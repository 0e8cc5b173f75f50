"""What a driver tells of its sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.api.connector_report import MOST_KIND, MOST_REASON, CommitState, WireSink, WireSource, WireSplits
from rekindle.core.ids import ResultPartitionID
from rekindle.core.options import SpeculationOptions
from rekindle.core.split_progress import SplitCounts, SubtaskSplits
from rekindle.pipeline.eligibility import why_not_read_twice, why_not_speculated
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.sinks import Sink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.state import RunState


def source_facts(state: RunState, counts: Mapping[str, SplitCounts]) -> tuple[WireSource, ...]:
    """Of the sources that this driver hands out splits of, [stage -> how far it has been read]."""
    options = state.settings.to_core().speculation if counts else SpeculationOptions()
    return tuple(
        _source(state, stage, counts[stage.name], why_not_read_twice(stage, options))
        for stage in state.graph.stages
        if stage.name in counts
    )


def sink_facts(state: RunState) -> tuple[WireSink, ...]:
    """Of all sinks."""
    sinks = [(stage, stage.sink) for stage in state.graph.stages if stage.sink is not None]
    options = state.settings.to_core().speculation if sinks else SpeculationOptions()
    return tuple(_sink(state, stage, sink, why_not_speculated(state.graph, stage, options)) for stage, sink in sinks)


def _source(state: RunState, stage: Stage, counts: SplitCounts, why_not: str | None) -> WireSource:
    return WireSource(
        name=stage.name,
        kind=(stage.source.name if stage.source is not None else "")[:MOST_KIND],
        subtasks=counts.subtasks,
        splits=counts.splits,
        assigned=counts.assigned,
        finished=counts.finished,
        reread=counts.reread,
        returned=counts.returned,
        readers=counts.readers,
        no_more_splits=counts.no_more_splits,
        most=_splits(counts.most),
        fewest=_splits(counts.fewest),
        records=state.core.records(stage.name) if stage.exchange is ExchangeMode.BLOCKING else None,
        concurrent_attempts=why_not is None,
        reason=(why_not or "")[:MOST_REASON],
    )


def _sink(state: RunState, stage: Stage, sink: Sink, why_not: str | None) -> WireSink:
    commit, reason = state.commits.get(stage.name, (CommitState.PENDING, ""))
    outputs = (state.core.output(ResultPartitionID(stage.name, one)) for one in range(stage.partitions))
    return WireSink(
        name=stage.name,
        kind=type(sink).__name__[:MOST_KIND],
        mode=str(getattr(sink, "mode", ""))[:MOST_KIND],
        concurrent_attempts=why_not is None,
        reason=(why_not or "")[:MOST_REASON],
        partitions=stage.partitions,
        written=sum(output is not None for output in outputs),
        records=state.core.records(stage.name),
        aborted=state.aborted.of(stage.name),
        commit=commit.value,
        commit_reason=reason[:MOST_REASON],
    )


def _splits(one: SubtaskSplits) -> WireSplits:
    return WireSplits(subtask=one.subtask, splits=one.splits)
