"""Durations, sizes and ratios as Spark and Kubernetes users write them."""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

YEAR = 365 * 24 * 3600
"""Seconds: the longest that anything may be told to wait."""

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

_CORES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?")
_CPU = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([numk]?)")


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


def parse_cores(value: object) -> float:
    """Cores of `"2"`, `"57m"`, `"123456n"`, as metrics of Kubernetes have them. ValueError otherwise."""
    found = _CPU.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no amount of CPU; write such as 57m or 2")
    return float(found.group(1)) * _CORES[found.group(2)]


def mebibytes(text: str, default_unit: str = "m") -> int:
    """MiB of a JVM memory size, rounded up; Spark reads a bare number as MiB in most settings."""
    return -(-parse_size(f"{text}{default_unit}" if text.isdigit() else text) // (1 << 20))


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


_POSITIVE = r"([0-9]*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)"
_NUMBER = r"[0-9]+(\.[0-9]+)?"
_TIME_UNIT = r"([uUmM]?[sS]|[mM]([iI][nN])?|[hHdD])?"
_SIZE_UNIT = r"([kKmMgGtTpP]?([iI]?[bB])?)"


def _text_or_whole_number(number: str, unit: str, **more: Any) -> WithJsonSchema:
    """How the API server checks a quantity: it knows no numbers that may be texts or fractions."""
    return WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": rf"^\s*{number}\s*{unit}\s*$", **more})


DURATION_UNIT = "x-rekindle-duration"
"""Marks a duration in a JSON schema, so that its default is shown as one."""

_ANY_TIME = _text_or_whole_number(_NUMBER, _TIME_UNIT, minimum=0, **{DURATION_UNIT: True})
_SOME_TIME = _text_or_whole_number(_POSITIVE, _TIME_UNIT, minimum=1, **{DURATION_UNIT: True})

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    _ANY_TIME,
]
"""Seconds; written as a number or as Spark writes times."""

PositiveDuration = Annotated[Duration, Field(gt=0), _SOME_TIME]
"""More than no time."""

SecondOrMore = Annotated[Duration, Field(ge=1), _SOME_TIME]
"""A second at least."""

Size = Annotated[int, BeforeValidator(parse_size), _text_or_whole_number(_NUMBER, _SIZE_UNIT, minimum=0)]
"""Bytes; written as a number or as Spark writes sizes."""

PositiveSize = Annotated[Size, Field(ge=1), _text_or_whole_number(_POSITIVE, _SIZE_UNIT, minimum=1)]
"""A byte at least."""

Ratio = Annotated[
    Decimal,
    BeforeValidator(parse_ratio),
    Field(ge=0, le=1),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
"""A share between 0 and 1, kept exact."""

RatioBelowOne = Annotated[Ratio, Field(lt=1), WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1})]
"""A share that is not the whole."""


def _is_memory(value: str) -> str:
    parse_size(value)
    return value


def _matches(pattern: str, what: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise ValueError(f"{value!r} is not {what}")
        return value

    return AfterValidator(check)


_MEMORY = rf"^\s*{_NUMBER}\s*{_SIZE_UNIT}\s*$"
_CPU_OR_BYTES = r"^[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?$"
_FACTOR = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)$"

Memory = Annotated[str, AfterValidator(_is_memory), WithJsonSchema({"type": "string", "pattern": _MEMORY})]
"""A JVM memory size, such as `512m` or `2g`."""

KubernetesQuantity = Annotated[
    str,
    _matches(_CPU_OR_BYTES, "a quantity of Kubernetes; write such as 500m or 2 for cores, 2Gi for memory"),
    WithJsonSchema({"type": "string", "pattern": _CPU_OR_BYTES}),
]
"""Cores or bytes as Kubernetes writes them: `500m`, `2`, `2Gi`."""

Factor = Annotated[
    str,
    _matches(_FACTOR, "a number; write such as 0.1, in quotes"),
    WithJsonSchema({"type": "string", "pattern": _FACTOR}),
]
"""A number that Kubeflow writes as a text, such as `"0.1"`."""
