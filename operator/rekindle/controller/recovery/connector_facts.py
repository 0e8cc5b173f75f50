"""From what a job master tells of its sources and sinks to what the status holds of them."""

from collections.abc import Iterable, Sequence

from rekindle.api.application_status import SinkStatus, SourceStatus, SubtaskSplits
from rekindle.api.connector_report import (
    MOST_CONNECTORS,
    MOST_REASON,
    CommitState,
    WireSink,
    WireSource,
    WireSplits,
)


def source_statuses(told: Iterable[WireSource]) -> tuple[SourceStatus, ...]:
    """Of the sources that a job master tells of."""
    return tuple(map(_source, told))


def sink_statuses(told: Iterable[WireSink]) -> tuple[SinkStatus, ...]:
    """Of the sinks that a job master tells of."""
    return tuple(map(_sink, told))


def at_their_end(known: Sequence[SinkStatus], told: Iterable[WireSink], why: str) -> list[SinkStatus]:
    """Sinks that were known, and what a driver told of them at its end; `why`: it has failed."""
    found = {one.name: one for one in known}
    for one in sink_statuses(told):
        reason = commit_reason = ""
        if one.commit in (CommitState.REFUSED, CommitState.FAILED):
            commit_reason = why[:MOST_REASON]
        if before := found.get(one.name):
            reason = before.reason
            commit_reason = before.commit_reason if before.commit == one.commit else commit_reason
        found[one.name] = one.model_copy(update={"reason": reason, "commit_reason": commit_reason})
    return list(found.values())[:MOST_CONNECTORS]


def _source(told: WireSource) -> SourceStatus:
    return SourceStatus(
        name=told.name,
        kind=told.kind,
        subtasks=told.subtasks,
        num_splits=told.splits,
        num_assigned_splits=told.assigned,
        num_finished_splits=told.finished,
        num_reread_splits=told.reread,
        num_returned_splits=told.returned,
        registered_readers=told.readers,
        no_more_splits=told.no_more_splits,
        most=_splits(told.most),
        fewest=_splits(told.fewest),
        num_records_in=told.records,
        concurrent_attempts=told.concurrent_attempts,
        reason=told.reason,
    )


def _sink(told: WireSink) -> SinkStatus:
    return SinkStatus(
        name=told.name,
        kind=told.kind,
        mode=told.mode,
        concurrent_attempts=told.concurrent_attempts,
        reason=told.reason,
        num_partitions=told.partitions,
        num_written_partitions=told.written,
        num_records_send=told.records,
        num_aborted_attempts=told.aborted,
        commit=CommitState(told.commit).value,
        commit_reason=told.commit_reason,
    )


def _splits(told: WireSplits | None) -> SubtaskSplits | None:
    return SubtaskSplits(subtask=told.subtask, splits=told.splits) if told is not None else None
