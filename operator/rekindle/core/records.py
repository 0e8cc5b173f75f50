"""Values as JSON types and back, by the types of their fields. Ids are their text form, enums their value."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID

_IDS = (ExecutionVertexID, ExecutionAttemptID, ResultPartitionID)


def encode(value: Any) -> Any:
    """`value` in JSON types. JSON has no infinity: it is the text "inf"."""
    if isinstance(value, _IDS):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


Decoder = Callable[[Any, str], Any]
"""(what JSON has, its place) -> the value. Raises ValueError with the place."""


def decode(kind: Any, value: Any, where: str) -> Any:
    """The value of type `kind` that `encode` made `value` of; `where` is its place, for the ValueError."""
    return _decoder(kind)(value, where)


@cache
def _decoder(kind: Any) -> Decoder:
    """How values of a type are read, worked out once for each type: a journal has them by the hundred thousand."""
    if kind in _IDS:
        return lambda value, where: kind.parse(_of_type(str, value, where))
    if is_dataclass(kind):
        return _dataclass(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return _optional(get_args(kind))
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value, _: kind(value)
    if kind is Fraction:
        return lambda value, where: Fraction(_of_type(str, value, where))
    if kind is float:
        return _float
    return lambda value, where: _of_type(kind, value, where)


def _dataclass(kind: Any) -> Decoder:
    fields = {name: _decoder(hint) for name, hint in get_type_hints(kind).items()}

    def of(value: Any, where: str) -> Any:
        given = _of_type(dict, value, where)
        if given.keys() != fields.keys():
            raise ValueError(f"{where}: expected the fields {sorted(fields)}, found {sorted(map(str, given))}")
        return kind(**{name: field(given[name], f"{where}.{name}") for name, field in fields.items()})

    return of


def _optional(kinds: tuple[Any, ...]) -> Decoder:
    (inner,) = (_decoder(one) for one in kinds if one is not type(None))
    may_be_none = type(None) in kinds
    return lambda value, where: None if value is None and may_be_none else inner(value, where)


def _tuple(kinds: tuple[Any, ...]) -> Decoder:
    first, *others = (_decoder(kind) for kind in kinds if kind is not Ellipsis)

    def of_any(value: Any, where: str) -> tuple[Any, ...]:
        return tuple(first(item, f"{where}[{place}]") for place, item in enumerate(_of_type(list, value, where)))

    def of_each(value: Any, where: str) -> tuple[Any, ...]:
        items = _of_type(list, value, where)
        if len(items) != len(kinds):
            raise ValueError(f"{where}: expected {len(kinds)} items, found {len(items)}")
        return tuple(one(items[place], f"{where}[{place}]") for place, one in enumerate((first, *others)))

    return of_any if kinds[-1] is Ellipsis else of_each


def _float(value: Any, where: str) -> float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"{where}: expected a number, found {value!r}")
    return float(value)


def _of_type(kind: Callable[..., Any], value: Any, where: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):  # type: ignore[arg-type]
        raise ValueError(f"{where}: expected {kind.__name__}, found {value!r}")
    return value
