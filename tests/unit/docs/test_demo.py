"""The table at the end of `make demo`, of reports as they are folded from a journal."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from examples.flights.demo import SCENARIOS, table, verdict
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.runtime.journal import note
from rekindle.runtime.report import ReportFold


def report(sum_of_rows: int, columns: str) -> dict[str, Any]:
    attempt = ExecutionAttemptID(ExecutionVertexID("routes", 0), 0)
    output = ev.PartitionOutput(7, 10, f"7-{sum_of_rows:016x}-{5:016x}-{columns}", "n")
    sink = {"name": "routes", "partitions": 1, "exchange": "blocking", "sink": "out"}
    events = ev.AttemptDeployed(attempt, "n", 1.0), ev.AttemptFinished(attempt, 2.0, output)
    fold = ReportFold()
    for record in (
        note(0.0, "RunStarted", application="flights", run=1, fingerprints={}, stages=[sink]),
        note(0.0, "DriverStarted", attempt=1, writer="w"),
        note(1.0, "StageStarted", stage="routes", partitions=1),
        *({"t": 2.0, "kind": "event", "event": ev.to_record(event)} for event in events),
        note(3.0, "StageFinished", stage="routes"),
    ):
        fold.add(record)
    return {**fold.report(), "differences": []}


def test_the_table_shows_the_digests_that_the_verdict_compares():
    same, other = report(0xABC << 48, "c1"), report(0xDEF << 48, "c1")
    console = Console(record=True, width=120)
    console.print(table([(SCENARIOS[0], same), (SCENARIOS[1], other)]))
    (line,) = (line for line in console.export_text().splitlines() if "digest of routes" in line)
    assert [cell.strip() for cell in line.strip("│ ").split("│")] == [
        "digest of routes",
        "0abc00-000000",
        "0def00-000000",
    ]
    assert verdict([(SCENARIOS[0], same), (SCENARIOS[1], other)]) == ["the runs gave different answers"]
    assert verdict([(SCENARIOS[0], same), (SCENARIOS[1], report(0xABC << 48, "c2"))]) == [
        "the runs gave different answers"
    ]
    assert verdict([(SCENARIOS[0], same), (SCENARIOS[1], report(0xABC << 48, "c1"))]) == []
