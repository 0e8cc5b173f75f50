"""PostgreSQL's types of Spark's, and whether a table's columns take them.

Names of types are as PostgreSQL's `format_type` spells them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_INTEGER_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_TAKES = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
    "text": ("character varying",),
}
"""Of each type, the others that hold all of its values."""
_CAST_FROM_TEXT = ("json", "jsonb", "uuid")
"""What a text becomes only where that is asked for; one that is none is an error."""
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_LENGTH = re.compile(r"character varying\(\d+\)")


def postgresql_type(kind: Any) -> str | None:
    """The type of a column of Arrow's type `kind`; None where there is none."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        of = postgresql_type(kind.value_type)
        return None if of is None or of.endswith("[]") else f"{of}[]"
    if types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return f"timestamp {'without' if kind.tz is None else 'with'} time zone"
    return next((name for known, name in _simple() if known(kind)), None)


def sent_type(kind: Any) -> Any:
    """The Arrow type that is sent of values of `kind`."""
    import pyarrow

    return pyarrow.time64("us") if pyarrow.types.is_time(kind) else kind


def takes(column: str, written: str) -> bool:
    """Whether a column of the type `column` holds all values of the type `written`, unless its length is bounded or it
    wants a certain form of texts: those that do not fit are an error then, never another value."""
    if written.endswith("[]"):
        return column.endswith("[]") and not cast(column[:-2], written[:-2]) and takes(column[:-2], written[:-2])
    if column == written or column in _TAKES.get(written, ()) or cast(column, written):
        return True
    if written == "text":
        return _LENGTH.fullmatch(column) is not None
    digits = _digits(written)
    if digits is None or not column.startswith("numeric"):
        return False
    there = _digits(column)
    return there is None or (there[0] >= digits[0] and there[1] >= digits[1])


def cast(column: str, written: str) -> str:
    """What an INSERT has to say behind a value of the type `written`, for a column of the type `column`."""
    return f"::{column}" if written == "text" and column in _CAST_FROM_TEXT else ""


def _digits(kind: str) -> tuple[int, int] | None:
    """Before and behind the point; None for what is no number, or has no bounds."""
    if kind in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[kind], 0
    if found := _NUMERIC.fullmatch(kind):
        precision, scale = map(int, found.groups())
        return precision - scale, scale
    return None


def _simple() -> list[tuple[Callable[[Any], bool], str]]:
    from pyarrow import types

    return [
        (types.is_int8, "smallint"),
        (types.is_int16, "smallint"),
        (types.is_int32, "integer"),
        (types.is_int64, "bigint"),
        (types.is_float32, "real"),
        (types.is_float64, "double precision"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_binary, "bytea"),
        (types.is_large_binary, "bytea"),
        (types.is_boolean, "boolean"),
        (types.is_date32, "date"),
        (types.is_time, "time without time zone"),
        (types.is_duration, "interval"),
    ]
