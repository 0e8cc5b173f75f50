"""Is a slow task slow because it has much to do? Then its node is none the worse (data skew), and is not blocked.

What it has read so far is compared with what is typical of the tasks of its job vertex that have finished, in bytes
and in records: either may show the skew, since a key's rows may be short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median


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
    """The others read something, and what it reads has not been told yet."""


@dataclass(frozen=True, slots=True)
class _Typical:
    """Medians of those that have finished and have read something."""

    amount: float
    seconds: float


_UNITS: tuple[Callable[[Work], int | None], ...] = (lambda work: work.input_bytes, lambda work: work.input_records)


def blame(slow: Work, finished: Sequence[Work], tolerated_factor: float) -> Blame:
    """What makes `slow` slow, beside what others of its job vertex have taken and read.

    Input explains a time where there is more than `tolerated_factor` times as much of it as is typical, and where the
    time for each part of it is within that factor.
    """
    verdicts = [_by_unit(slow, finished, unit, tolerated_factor) for unit in _UNITS]
    for verdict in (Blame.SKEW, Blame.UNKNOWN):
        if verdict in verdicts:
            return verdict
    return Blame.NODE


def _by_unit(
    slow: Work, finished: Sequence[Work], unit: Callable[[Work], int | None], tolerated_factor: float
) -> Blame:
    typical = _typical(finished, unit)
    if typical is None:
        return Blame.NODE  # these tasks read nothing
    amount = unit(slow)
    if amount is None:
        return Blame.UNKNOWN
    share = amount / typical.amount
    is_more = share > tolerated_factor
    is_as_fast = share > 1 and slow.seconds <= tolerated_factor * typical.seconds * share
    return Blame.SKEW if is_more or is_as_fast else Blame.NODE


def _typical(finished: Iterable[Work], unit: Callable[[Work], int | None]) -> _Typical | None:
    """None where most have read nothing of that unit."""
    every = list(finished)
    known = [(amount, work.seconds) for work in every if (amount := unit(work))]
    if 2 * len(known) <= len(every):
        return None
    return _Typical(median(amount for amount, _ in known), median(seconds for _, seconds in known))
