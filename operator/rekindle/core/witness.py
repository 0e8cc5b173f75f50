"""The second witness of a slow task: the CPU that its executor's pod uses, beside the pods of others that run tasks.

A pod that gets much less than the others is starved, and that is its node's fault even where the input of the task
would explain some of it. One that gets as much is no proof that its node is well, since a throttled clock shows full
use: it only makes a task that is hardly slow yet no reason to blame a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from statistics import median

from rekindle.core.skew import Blame, Typical, Work, blame

_FRESH_SECONDS = 60.0
_FED_SHARE = 0.8
_LEAST_CORES = 0.1
"""Tasks that use less wait for something else, and who waits longest says nothing of CPUs."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Cores that an executor used, on average from `start` to `end` (epoch seconds)."""

    cores: float
    start: float
    end: float


class Says(Enum):
    """What the witness says of a slow task's pod."""

    STARVED = "STARVED"
    """It gets much less CPU than others."""
    FED = "FED"
    """It gets about as much as others, or more."""
    NOTHING = "NOTHING"


@dataclass(frozen=True, slots=True)
class Statement:
    """What the witness says, and in words by what figures; empty where there are none."""

    says: Says
    evidence: str = ""


def typical_cores(others: Iterable[CpuUse], now: float) -> float:
    """The median of what is told that is not older than a minute; 0.0 where that is nothing."""
    return median([one.cores for one in others if _is_fresh(one, now)] or [0.0])


def statement(use: CpuUse | None, launched_at: float, typical: float, now: float, tolerated_factor: float) -> Statement:
    """Of a task launched then, whose executor has `use`, beside the cores that are typical elsewhere; both for a task.

    A figure older than a minute says nothing, nor does one of a time when the task did not run yet.
    """
    if use is None or use.start < launched_at or not _is_fresh(use, now) or typical < _LEAST_CORES:
        return Statement(Says.NOTHING)
    says = Says.FED if use.cores >= _FED_SHARE * typical else Says.NOTHING
    if use.cores * tolerated_factor <= typical:
        says = Says.STARVED
    return Statement(says, f"its pod uses {use.cores:.2f} CPU a task, others {typical:.2f}")


def _is_fresh(use: CpuUse, now: float) -> bool:
    return abs(now - use.end) <= _FRESH_SECONDS


@dataclass(frozen=True, slots=True)
class Case:
    """A slow task that is to be judged.

    Attributes:
        mild_below: seconds below which it is hardly slow, so that a pod that is fed speaks for its node.
    """

    work: Work
    typical: Typical
    tolerated_factor: float
    mild_below: float = 0.0

    def blame(self, says: Says) -> Blame:
        """What makes it slow, where the witness says that."""
        verdict = blame(self.work, self.typical, self.tolerated_factor, is_starved=says is Says.STARVED)
        is_excused = says is Says.FED and self.work.seconds < self.mild_below
        return Blame.UNKNOWN if is_excused and verdict is Blame.NODE else verdict

    @property
    def needs_witness(self) -> bool:
        """Whether what the witness says could change the verdict."""
        return len({self.blame(says) for says in Says}) > 1
