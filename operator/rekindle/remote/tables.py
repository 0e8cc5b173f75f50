"""Applications as tables and texts for a terminal or a pipe."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from rekindle.api.application_status import ApplicationStatus, RecoverySummary
from rekindle.controller.clock import parse_time
from rekindle.controller.reading import read_status
from rekindle.controller.recovery.planning import told
from rekindle.controller.resources import Object

_WIDE = 200
"""Columns where nobody looks: a pipe must not be wrapped."""


def show_list(console: Console, bodies: Sequence[Object]) -> None:
    """One line for each application."""
    table = Table(box=None, pad_edge=False)
    for column in ("NAMESPACE", "NAME", "STATE", "ATTEMPTS", "EXECUTORS", "AGE", "MESSAGE"):
        table.add_column(column, no_wrap=column != "MESSAGE", overflow="fold")
    for body in bodies:
        metadata, status = body["metadata"], read_status(body)
        report = status.application_state
        table.add_row(
            metadata["namespace"],
            metadata["name"],
            report.state.value or "NEW",
            str(status.execution_attempts),
            str(status.executors.running),
            age(time.time() - parse_time(metadata["creationTimestamp"])),
            report.error_message,
        )
    console.print(table)


def show_status(console: Console, body: Object) -> None:
    """State, driver, executors, and how it came to that."""
    metadata, status = body["metadata"], read_status(body)
    info, counts = status.driver_info, status.executors
    lines = {
        "application": f"{metadata['namespace']}/{metadata['name']}",
        "state": status.application_state.state.value or "NEW",
        "message": status.application_state.error_message,
        "attempt": f"{status.attempt}, drivers started: {status.execution_attempts}",
        "driver": f"{info.pod_name} on {info.node_name or 'no node'}" if info.pod_name else "",
        "executors": f"{counts.running} running, {counts.pending} pending, {counts.failed} failed",
        "next attempt": status.next_attempt_time or "",
        "recovery": recovery_line(status.recovery.last),
    }
    for name, value in lines.items():
        if value:
            console.print(f"{name:<13} {value}", highlight=False, markup=False, soft_wrap=True)
    if status.recovery.stages:
        console.print()
        console.print(_stages(status))
    if status.transitions:
        console.print()
        console.print(_history(status))
    if info.log_tail:
        console.print("\nthe end of the driver's log:", highlight=False)
        console.print(info.log_tail, highlight=False, markup=False, soft_wrap=True)


def recovery_line(last: RecoverySummary | None) -> str:
    """What the last recovery costs, in a line; empty where there was none."""
    if last is None:
        return ""
    how = {None: "planned", True: "as planned", False: "not as planned"}[last.as_planned]
    began = last.first_task_after_seconds
    when = f"; its first task began {began} s after the loss" if began is not None else ""
    return f"attempt {last.attempt}: {told(last)} ({how}){when}"


def _stages(status: ApplicationStatus) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("STAGE", no_wrap=True, overflow="fold")
    for column in ("PARTITIONS", "FINISHED", "RUNNING", "MISSING"):
        table.add_column(column, justify="right")
    table.add_column("RESULT")
    for stage in status.recovery.stages:
        counts = (stage.partitions, stage.finished, stage.running, stage.missing)
        table.add_row(stage.name, *map(str, counts), "released" if stage.released else "")
    return table


def _history(status: ApplicationStatus) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("AT", "ATTEMPT", "STATE", "REASON", "MESSAGE"):
        table.add_column(column, no_wrap=column != "MESSAGE", overflow="fold")
    for entered in status.transitions:
        table.add_row(entered.at, str(entered.attempt), entered.state.value, entered.reason, entered.message)
    return table


def make_console() -> Console:
    """As wide as the terminal; very wide where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=_WIDE, highlight=False)


def age(seconds: float) -> str:
    """As kubectl writes it, roughly: 12s, 5m, 3h, 2d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(max(seconds, 0))}s"


def printable(text: str) -> str:
    """On one line, and nothing that a terminal would obey: causes of blocks and names of connectors are anybody's."""
    return "".join(character if character.isprintable() else " " for character in text)
