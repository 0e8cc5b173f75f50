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


def decode(kind: Any, value: Any, where: str) -> Any:
    """The value of type `kind` that `encode` made `value` of; `where` is its place, for the ValueError."""
    if kind in _IDS:
        return kind.parse(_of_type(str, value, where))
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if get_origin(kind) in (Union, types.UnionType):
        return _optional(kind, value, where)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is Fraction:
        return Fraction(_of_type(str, value, where))
    if kind is float:
        return _float(value, where)
    return _of_type(kind, value, where)


@cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    given, wanted = _of_type(dict, value, where), _types(kind)
    if given.keys() != wanted.keys():
        raise ValueError(f"{where}: expected the fields {sorted(wanted)}, found {sorted(map(str, given))}")
    return kind(**{name: decode(wanted[name], given[name], f"{where}.{name}") for name in wanted})


def _optional(kind: Any, value: Any, where: str) -> Any:
    if value is None and type(None) in get_args(kind):
        return None
    (inner,) = (one for one in get_args(kind) if one is not type(None))
    return decode(inner, value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _of_type(list, value, where)
    if kinds[-1] is Ellipsis:
        return tuple(decode(kinds[0], item, f"{where}[{place}]") for place, item in enumerate(items))
    if len(items) != len(kinds):
        raise ValueError(f"{where}: expected {len(kinds)} items, found {len(items)}")
    return tuple(decode(kind, items[place], f"{where}[{place}]") for place, kind in enumerate(kinds))


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
