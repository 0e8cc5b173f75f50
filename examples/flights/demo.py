"""The flights pipeline three times: undisturbed, with a slow node, and with nearly everything lost.

    python examples/flights/demo.py                 about three minutes on two cores
    python examples/flights/demo.py --copies 5      more data, so that the faults weigh more

Each run is `rekindle run examples/flights/app.yaml` with other faults and a store of its own. At the end one
table says what each run cost, and whether all three gave the same answer and DuckDB agrees with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.flights.data import write_data
from examples.flights.oracle import differences

HERE = Path(__file__).resolve().parent

HOLD = ("--hold-cores", "0.6")
"""Each node gets 0.6 of a core, so that the healthy nodes do not inherit what the slow one leaves."""


@dataclass(frozen=True)
class Scenario:
    """A run of the demo: its title in the table, and the faults as `--chaos` takes them."""

    title: str
    faults: tuple[str, ...]


SCENARIOS = (
    Scenario("undisturbed", ()),
    Scenario("a node at a twentieth of its speed", ("slow-node:node=1,factor=0.05@stage=legs",)),
    Scenario(
        "executor, partition and driver lost",
        (
            "kill-executor:node=2@stage=legs,fraction=0.3",
            "lose-partition:stage=legs,partition=3@stage=described,fraction=0.2",
            "kill-driver@stage=described,fraction=0.5",
        ),
    ),
)


def run(scenario: Scenario, folder: Path, data: Path) -> dict[str, Any]:
    """Run the pipeline under faults; its report, with `answers` equal to the oracle's or not.

    Raises:
        SystemExit: the run failed; what it printed says why.
    """
    out, report = folder / "out", folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "rekindle.cli",
        "run",
        str(HERE / "app.yaml"),
        "--store",
        str(folder / "store"),
    ]
    command += ["--report", str(report), *HOLD]
    for fault in scenario.faults:
        command += ["--chaos", fault]
    environment = {**os.environ, "FLIGHTS_DATA": str(data), "FLIGHTS_OUT": str(out)}
    ended = subprocess.run(command, env=environment, check=False, timeout=900)
    if ended.returncode != 0:
        sys.exit(f"demo: the run '{scenario.title}' ended with exit code {ended.returncode}")
    result: dict[str, Any] = json.loads(report.read_text())
    result["differences"] = differences(data, out)
    return result


def digests(report: dict[str, Any]) -> dict[str, str]:
    """Sink stage -> digest of what it published."""
    return {stage["name"]: stage["digest"] for stage in report["stages"] if stage["sink"]}


MEASURES: dict[str, Callable[[dict[str, Any]], object]] = {
    "seconds": lambda report: f"{report['seconds']:.1f}",
    "tasks run": lambda report: report["tasks"]["run"],
    "tasks run again": lambda report: report["tasks"]["rerun"],
    "copies launched": lambda report: report["speculation"]["launched"],
    "copies that won": lambda report: report["speculation"]["effective"],
    "nodes blocked": lambda report: len({block["node"] for block in report["blocks"]}),
    "executors lost": lambda report: report["executorsLost"],
    "drivers": lambda report: report["drivers"],
    "recoveries": lambda report: len(report["recoveries"]),
}


def table(reports: list[tuple[Scenario, dict[str, Any]]]) -> Table:
    shown = Table(title="The flights pipeline, three times", title_justify="left")
    shown.add_column("")
    for scenario, _ in reports:
        shown.add_column(scenario.title, justify="right")
    for name, measure in MEASURES.items():
        shown.add_row(name, *(str(measure(report)) for _, report in reports))
    for sink in digests(reports[0][1]):
        shown.add_row(f"digest of {sink}", *(_short(digests(report)[sink]) for _, report in reports))
    return shown


def _short(digest: str) -> str:
    """The first digits of a digest's two sums: enough to see whether two are equal."""
    _, first, second, *_ = digest.split("-")  # behind these is what the columns are
    return f"{first[:6]}-{second[:6]}"


def verdict(reports: list[tuple[Scenario, dict[str, Any]]]) -> list[str]:
    """What is wrong, in sentences; empty when all is as it should be."""
    wrong = [f"{scenario.title}: {line}" for scenario, report in reports for line in report["differences"]]
    if len({tuple(sorted(digests(report).items())) for _, report in reports}) != 1:
        wrong.append("the runs gave different answers")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=2, help="how often the year is flown (default: 2)")
    parser.add_argument("--json", type=Path, help="also write the three reports to this file")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="rekindle-demo-") as name:
        folder = Path(name)
        data = write_data(folder / "data", options.copies)
        reports = []
        for number, scenario in enumerate(SCENARIOS, start=1):
            console.rule(f"{number} of {len(SCENARIOS)}: {scenario.title}", align="left")
            reports.append((scenario, run(scenario, folder / str(number), data)))
    console.print()
    console.print(table(reports))
    if options.json:
        options.json.write_text(json.dumps({scenario.title: report for scenario, report in reports}, indent=2))
    wrong = verdict(reports)
    console.print("\n".join(wrong) or "The same answer three times, and DuckDB's is equal to the last digit.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
