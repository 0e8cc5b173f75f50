"""The figures of the README: `make bench`.

    python benchmarks/run.py                       everything, three to four hours on two cores
    python benchmarks/run.py --only no-fault       one scenario (may be given several times)
    python benchmarks/run.py --more --runs 2       two rounds more, added to the last results
    python benchmarks/run.py --tables              no run: the tables of the last results

Runs of the contenders take turns, so that a machine that slows down does so for all. Every answer is compared
with DuckDB's. Results go to .build/bench/results.json, the tables to the terminal; docs/benchmarks.md says
how each figure is measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from benchmarks.bench import Bench, Settings
from benchmarks.results import ResultsFile, Run
from benchmarks.scenarios import killed_driver, no_fault, slow_node, splits
from rekindle.local.watchdog import Watchdog

CACHE = Path(__file__).resolve().parents[1] / ".build" / "bench"

_RUNS = {"runs", "settings"}
"""What may differ between results that are put together."""


class Scenario(Protocol):
    """A module of `scenarios`."""

    NAME: str

    def runs(self, bench: Bench) -> Iterator[Run]:
        """All runs, one after the other."""

    def tables(self, found: Sequence[Run]) -> str:
        """Markdown of what was found."""


SCENARIOS: dict[str, Scenario] = {one.NAME: one for one in (no_fault, slow_node, killed_driver, splits)}


def make_parser() -> argparse.ArgumentParser:
    """The command line, with its help."""
    default = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="only this scenario")
    parser.add_argument("--tables", action="store_true", help="print the tables of the last results, run nothing")
    parser.add_argument("--more", action="store_true", help="keep the last results of the same settings, add rounds")
    parser.add_argument("--runs", type=int, default=default.runs, help="rounds (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=default.scale, help="scale of profits (default: %(default)s)")
    parser.add_argument(
        "--scores-scale", type=float, default=default.scores_scale, help="scale of scores (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=default.rounds, help="work of a score (default: %(default)s)")
    parser.add_argument(
        "--slow-workload",
        choices=("scores", "profits"),
        default=default.slow_workload,
        help="what runs with a slow node (default: %(default)s)",
    )
    parser.add_argument(
        "--deadline", type=float, default=default.deadline, help="seconds of one run at most (default: %(default)s)"
    )
    return parser


def about(settings: Settings) -> dict[str, Any]:
    """Settings, versions and machine, to be kept with the results."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "settings": asdict(settings),
        "cores": cores,
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("rekindle", "pyspark", "pyarrow", "duckdb", "tpcgen-cli")},
    }


def changed(was: Mapping[str, Any], settings: Settings) -> list[str]:
    """What differs between the machine, versions and settings of earlier results and those of now."""
    now = {**about(settings), **asdict(settings)}
    before = {**was, **was.get("settings", {})}
    return sorted(
        name for name in before.keys() | now.keys() if before.get(name) != now.get(name) and name not in _RUNS
    )


def run_scenario(scenario: Scenario, bench: Bench, results: ResultsFile, kept: Sequence[Run]) -> list[Run]:
    """All runs of a scenario, after those that are `kept`; each is saved as soon as it is there."""
    bench = replace(bench, first_round=max((run.number for run in kept), default=0) + 1)
    bench.say(f"== {scenario.NAME}, rounds {bench.rounds.start} to {bench.rounds.stop - 1}")
    done = list(kept)
    for run in scenario.runs(bench):
        done.append(run)
        results.save(scenario.NAME, about(bench.settings), done)
        said = f"WRONG: {run.error}" if run.error else f"{run.seconds:.1f} s, {run.core_seconds:.1f} core-s, right"
        bench.say(f"   round {run.number}  {run.contender}: {said}")
    return done


def print_tables(names: Sequence[str], results: ResultsFile) -> None:
    """The tables of what was measured, ready for a Markdown page."""
    for name in names:
        found = results.runs(name)
        if found:
            print(f"\n### {name}\n\n{SCENARIOS[name].tables(found)}")


def main() -> int:
    parser = make_parser()
    options = parser.parse_args()
    names, results = options.only or list(SCENARIOS), ResultsFile(CACHE / "results.json")
    if options.tables:
        print_tables(names, results)
        return 0
    settings = Settings(**{name: getattr(options, name) for name in (one.name for one in fields(Settings))})
    kept = {name: results.runs(name) if options.more else [] for name in names}
    for name in names:
        if kept[name] and (differences := changed(results.about(name), settings)):
            parser.error(f"{name}: the last results have other {', '.join(differences)}: leave --more out")
    CACHE.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: all that was started is ended
    with Watchdog() as watchdog, tempfile.TemporaryDirectory(prefix="work-", dir=CACHE) as work:
        watchdog.own("folder", work)
        bench = Bench(settings, CACHE, Path(work), watchdog)
        done = [run for name in names for run in run_scenario(SCENARIOS[name], bench, results, kept[name])]
    print_tables(names, results)
    return 1 if any(run.error for run in done) else 0


if __name__ == "__main__":
    sys.exit(main())
