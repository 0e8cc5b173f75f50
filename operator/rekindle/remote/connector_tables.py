"""Sources and sinks of an application as tables for a terminal: how far they are, and what keeps them there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rekindle.api.application_status import ApplicationStatus, SinkStatus, SourceStatus
from rekindle.remote.tables import printable

_SOURCES = ("SOURCE", "KIND", "SUBTASKS", "READ/ASSIGNED/SPLITS", "AGAIN", "FEWEST–MOST", "COPIES")
_SINKS = ("SINK", "KIND", "MODE", "WRITTEN", "ROWS", "COMMIT")
_NUMBERS = {"SUBTASKS", "READ/ASSIGNED/SPLITS", "AGAIN", "FEWEST–MOST", "WRITTEN", "ROWS"}


def show_connectors(console: Console, status: ApplicationStatus) -> None:
    """A line for each source that is read by splits, and for each sink; nothing where there are none."""
    for columns, rows in (
        (_SOURCES, [source_cells(source) for source in status.sources]),
        (_SINKS, [sink_cells(sink) for sink in status.sinks]),
    ):
        if rows:
            console.print()
            console.print(_table(columns, rows))


def source_cells(source: SourceStatus) -> tuple[str, ...]:
    """The texts of a source, in the order of the columns."""
    splits = source.num_finished_splits, source.num_assigned_splits, source.num_splits
    return (
        source.name,
        source.kind,
        str(source.subtasks),
        "/".join(map(str, splits)),
        str(source.num_reread_splits),
        f"{source.fewest.splits}–{source.most.splits}" if source.fewest and source.most else "",
        "yes" if source.concurrent_attempts else _with_reason("no", source.reason),
    )


def sink_cells(sink: SinkStatus) -> tuple[str, ...]:
    """The texts of a sink, in the order of the columns."""
    return (
        sink.name,
        sink.kind,
        sink.mode,
        f"{sink.num_written_partitions}/{sink.num_partitions}",
        str(sink.num_records_send),
        _with_reason(sink.commit, sink.commit_reason),
    )


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        is_number = column in _NUMBERS
        table.add_column(column, no_wrap=is_number, overflow="fold", justify="right" if is_number else "left")
    for cells in rows:
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
