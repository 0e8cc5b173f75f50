"""A table cut into ranges of one column, as conditions of SQL. Dates and times are counted, as integers are.

Bounds only say where to cut: the first range has what is below them too, and null, and the last what is above, as with
Spark's JDBC source.
"""

from __future__ import annotations

import datetime
import itertools
from enum import Enum

_EPOCH = datetime.datetime(1970, 1, 1)
_DAY, _MICROSECOND = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)


class Axis(Enum):
    """What a partition column counts in: whole numbers, days or microseconds since 1970."""

    NUMBER = "a whole number, such as 1000"
    DATE = "a date, such as 2013-01-31"
    TIME = "a date and time, such as 2013-01-31 12:00:00"
    INSTANT = "a date and time, in UTC where it names no zone, such as 2013-01-31 12:00:00+01:00"


def position(axis: Axis, text: str) -> int:
    """Where a bound lies. Raises ValueError for what is none."""
    if axis is Axis.NUMBER:
        return int(text)
    at = datetime.datetime.fromisoformat(text.strip())
    if axis is Axis.INSTANT and at.tzinfo is not None:
        at = at.astimezone(datetime.UTC).replace(tzinfo=None)
    if at.tzinfo is not None or (axis is Axis.DATE and at.time() != datetime.time()):
        raise ValueError(f"{text!r} says more than a value of the column")
    return (at - _EPOCH) // (_DAY if axis is Axis.DATE else _MICROSECOND)


def literal(axis: Axis, place: int) -> str:
    """The value at a position, in SQL. Raises OverflowError for years that are not from 1 to 9999."""
    if axis is Axis.NUMBER:
        return str(place)
    at = _EPOCH + place * (_DAY if axis is Axis.DATE else _MICROSECOND)
    if axis is Axis.DATE:
        return f"DATE '{at.date()}'"
    return f"TIMESTAMP '{at}'" if axis is Axis.TIME else f"TIMESTAMPTZ '{at}+00'"


def asked_position(axis: Axis, value: str) -> str:
    """What gives the position of a value, in SQL. It may be one beside it: bounds need not be exact."""
    if axis is Axis.NUMBER:
        return f"CAST({value} AS bigint)"
    if axis is Axis.DATE:
        return f"{value} - DATE '1970-01-01'"
    return f"CAST(extract(epoch FROM {value}) * 1000000 AS bigint)"


def cuts(lower: int, upper: int, count: int) -> list[int]:
    """Where the second range begins, and the third, and so on: `count` ranges of equal width from `lower` to `upper`,
    fewer where there are fewer positions."""
    width = max(1, upper - lower + 1)
    count = min(count, width)
    return [lower + width * number // count for number in range(1, count)]


def conditions(column: str, axis: Axis, between: list[int]) -> list[str]:
    """One for each range: each row meets one of them, whatever its value. Empty where there is one range only.

    Args:
        column: as SQL names it.
        between: as `cuts` returns it.
    """
    if not between:
        return [""]
    at = [literal(axis, place) for place in between]
    middle = [f"{column} >= {start} AND {column} < {stop}" for start, stop in itertools.pairwise(at)]
    return [f"{column} < {at[0]} OR {column} IS NULL", *middle, f"{column} >= {at[-1]}"]
