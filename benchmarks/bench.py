"""What all scenarios share: settings, folders, the watchdog that leaves nothing behind, progress lines."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rekindle.local.watchdog import Watchdog

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the command line says. `docs/benchmarks.md` explains each.

    Attributes:
        runs: rounds of every scenario.
        scale: TPC-H's scale factor for `profits`; from 2 on, no side of its big joins is small enough to broadcast.
        scores_scale: and for `scores`.
        rounds: steps of a score.
        slow_workload: the workload of the slow-node scenario.
        deadline: seconds that one run may take.
    """

    runs: int = 5
    scale: float = 2.0
    scores_scale: float = 0.1
    rounds: int = 1000
    slow_workload: str = "scores"
    deadline: float = 1800.0


@dataclass(frozen=True)
class Bench:
    """One call of `run.py`. `cache` outlives it, `work` does not. `first_round` follows on what is kept."""

    settings: Settings
    cache: Path
    work: Path
    watchdog: Watchdog
    first_round: int = 1

    @property
    def deadline(self) -> float:
        return self.settings.deadline

    @property
    def rounds(self) -> range:
        """The numbers of the rounds to run."""
        return range(self.first_round, self.first_round + self.settings.runs)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """An empty folder for one run, removed after it."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def log(self, title: str) -> Path:
        """The file for what a contender's last run has logged."""
        logs = self.cache / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.log"

    def say(self, text: str) -> None:
        """A line of progress."""
        print(text, flush=True)


def interleaved(contenders: Sequence[T], rounds: range) -> Iterator[tuple[int, T]]:
    """(round, contender): all of them once in each round, each round beginning with the next one."""
    for number in rounds:
        first = (number - 1) % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield number, contender
