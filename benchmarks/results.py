"""What was measured: runs, their medians, and the file they are kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """One run of one contender.

    Attributes:
        number: its round, from 1.
        core_seconds: CPU time of all processes of the cluster and the driver while the job ran.
        error: why there is no answer, or how it is wrong. Such a run counts nowhere.
        details: what else is known, as JSON types.
    """

    contender: str
    number: int
    seconds: float = 0.0
    core_seconds: float = 0.0
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest of some runs."""

    median: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 1
        if self.runs == 1:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} – {self.high:.{digits}f})"


Value = Callable[[Run], float]


def seconds(run: Run) -> float:
    return run.seconds


def core_seconds(run: Run) -> float:
    return run.core_seconds


def spread(runs: Iterable[Run], contender: str, value: Value = seconds) -> Spread | None:
    """The spread of a contender's good runs; None when it has none."""
    values = [value(run) for run in runs if run.contender == contender and run.error is None]
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def ratio(runs: Iterable[Run], contender: str, against: str, value: Value = seconds) -> float | None:
    """Median of one contender's runs by median of another's."""
    runs = list(runs)
    upper, lower = spread(runs, contender, value), spread(runs, against, value)
    return upper.median / lower.median if upper and lower and lower.median else None


def comparison(found: Sequence[Run], titles: Iterable[str], ratios: Mapping[str, Callable[[str], float | None]]) -> str:
    """A table of contenders: seconds, core-seconds, and for each column of `ratios` what it makes of a title."""
    head = ("", "seconds", "core-seconds", *ratios)
    rows = [
        (title, spread(found, title), spread(found, title, core_seconds), *(make(title) for make in ratios.values()))
        for title in titles
    ]
    return markdown(head, rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is words, the others are numbers. None is a dash."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


class ResultsFile:
    """All scenarios' last results, in one JSON file; a scenario that is run again replaces its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def runs(self, scenario: str) -> list[Run]:
        """The runs of a scenario, [] when it was never run."""
        return [Run(**run) for run in self._read().get(scenario, {}).get("runs", [])]

    def about(self, scenario: str) -> dict[str, Any]:
        """Settings and machine of a scenario's runs."""
        about: dict[str, Any] = self._read().get(scenario, {}).get("about", {})
        return about

    def save(self, scenario: str, about: Mapping[str, Any], runs: Iterable[Run]) -> None:
        """Replace a scenario's runs; a reader sees the old file or the new one."""
        scenarios = {**self._read(), scenario: {"about": dict(about), "runs": [asdict(run) for run in runs]}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".new")
        aside.write_text(json.dumps({"format": FORMAT, "scenarios": scenarios}, indent=2) + "\n", encoding="utf-8")
        os.replace(aside, self.path)

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        scenarios: dict[str, Any] = found["scenarios"]
        return scenarios
