"""Durations, sizes and ratios as Spark and Kubernetes users write them."""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

# Spark's suffixes (JavaUtils.timeStringAs, byteStringAs), in seconds and in bytes.
_SECONDS = {
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?")


def parse_duration(value: object) -> float:
    """Seconds of `60`, `"60s"`, `"1min"`, `"500ms"`; a bare number is seconds. ValueError otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
    elif isinstance(value, str):
        text = value.strip().lower()
    else:
        raise ValueError(f"{value!r} is not a duration; write a number of seconds or such as 60s, 1min, 500ms")
    found = _DURATION.fullmatch(text)
    unit = found.group(2) if found else None
    if found is None or (unit and unit not in _SECONDS):
        raise ValueError(f"{value!r} is not a duration; write a number of seconds or such as 60s, 1min, 500ms")
    return float(Decimal(found.group(1)) * _SECONDS[unit or "s"])


def parse_size(value: object) -> int:
    """Bytes of `1024`, `"512m"`, `"2g"`; a bare number is bytes. ValueError otherwise."""
    text = str(value).strip().lower() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{value!r} is not a size; write a number of bytes or such as 512m, 2g")
    return int(Decimal(found.group(1)) * _BYTES[found.group(2)])


def parse_ratio(value: object) -> Decimal:
    """The exact decimal of `0.75` or `"0.75"`: a float's binary tail must not move a rounding (S1-22)."""
    if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
        try:
            ratio = Decimal(str(value))
        except InvalidOperation:
            pass
        else:
            if ratio.is_finite():
                return ratio
    raise ValueError(f"{value!r} is not a number; write such as 0.75")


def format_duration(seconds: float) -> str:
    """Seconds in Spark's notation, read back by `parse_duration`: `60.0` is `"60s"`, `0.5` is `"500ms"`."""
    exact = Decimal(str(seconds))
    for unit in ("s", "ms", "us"):
        amount = exact / _SECONDS[unit]
        if amount == amount.to_integral_value():
            return f"{int(amount)}{unit}"
    return f"{exact:f}s"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
"""Seconds; written as a number or as Spark writes times."""

Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes; written as a number or as Spark writes sizes."""

Ratio = Annotated[Decimal, BeforeValidator(parse_ratio), Field(ge=0, le=1)]
"""A share between 0 and 1, kept exact."""
