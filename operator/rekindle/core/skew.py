"""Is a slow task slow because it has much to do? Then its node is none the worse (data skew), and is not blocked.

What it has read so far is compared with what is typical of the tasks of its job vertex that have finished, in bytes
and in records: either may show the skew, since a key's rows may be short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Self


@dataclass(frozen=True, slots=True)
class Work:
    """What one task has done: its execution time so far, or in all, and its input; None where that is not known."""

    seconds: float
    input_bytes: int | None
    input_records: int | None


class Blame(Enum):
    """What makes a slow task slow."""

    NODE = "NODE"
    """Nothing but its node explains it."""
    SKEW = "SKEW"
    """It has much more to read than others."""
    UNKNOWN = "UNKNOWN"
    """The others read something, and what it reads has not been told yet; or it is hardly slow, and gets its CPU."""


_UNITS: tuple[Callable[[Work], int | None], ...] = (lambda work: work.input_bytes, lambda work: work.input_records)


@dataclass(frozen=True, slots=True)
class Typical:
    """What the finished tasks of a job vertex have taken and read.

    Attributes:
        middles: [unit -> its amount and the seconds, medians of those that have read something of it]; None where
            most have read nothing.
    """

    middles: tuple[tuple[float, float] | None, ...]

    @classmethod
    def of(cls, finished: Sequence[Work]) -> Self:
        return cls(tuple(_middle(finished, unit) for unit in _UNITS))


def blame(slow: Work, typical: Typical, tolerated_factor: float, *, is_starved: bool = False) -> Blame:
    """What makes `slow` slow, beside what others of its job vertex have taken and read.

    Input explains a time where there is more than `tolerated_factor` times as much of it as is typical, however long
    it takes: a key's rows may cost more than in proportion. And it does where there is more of it than is typical, and
    the time for each part of it is within that factor. Where its pod is starved of CPU, only the latter explains it.
    """
    most = math.inf if is_starved else tolerated_factor
    by_unit = zip(_UNITS, typical.middles, strict=True)
    verdicts = [_verdict(slow.seconds, unit(slow), middle, tolerated_factor, most) for unit, middle in by_unit]
    if Blame.SKEW in verdicts:
        return Blame.SKEW
    return Blame.UNKNOWN if Blame.UNKNOWN in verdicts and not is_starved else Blame.NODE


def _verdict(
    seconds: float, amount: int | None, middle: tuple[float, float] | None, tolerated_factor: float, most: float
) -> Blame:
    """`most`: a larger share than this of the typical input explains any time."""
    if middle is None:
        return Blame.NODE  # these tasks read nothing
    if amount is None:
        return Blame.UNKNOWN
    typical_amount, typical_seconds = middle
    share = amount / typical_amount
    is_as_fast = share > 1 and seconds <= tolerated_factor * typical_seconds * share
    return Blame.SKEW if share > most or is_as_fast else Blame.NODE


def _middle(finished: Sequence[Work], unit: Callable[[Work], int | None]) -> tuple[float, float] | None:
    known = [(amount, work.seconds) for work in finished if (amount := unit(work))]
    if 2 * len(known) <= len(finished):
        return None
    return median(amount for amount, _ in known), median(seconds for _, seconds in known)
