"""A soft check of type hints: a hint that cannot be right is an error, a hint we cannot judge is not.

Hints are matched by name, for PySpark must not be imported before there is a session to use it with.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from rekindle.pipeline.declaration import signature
from rekindle.pipeline.stage import SPARK_PARAMETER, StageFunction


def wrong_hints(fn: StageFunction) -> Iterator[tuple[str, str, str]]:
    """(what has the hint, the hint as text, the class expected) for each hint that cannot be right."""
    found = signature(fn)
    for parameter in found.parameters.values():
        expected = "SparkSession" if parameter.name == SPARK_PARAMETER else "DataFrame"
        if parameter.annotation is not parameter.empty and not _fits(fn, parameter.annotation, expected):
            yield f"parameter {parameter.name!r}", _text(parameter.annotation), expected
    result = found.return_annotation
    if result is not found.empty and not _fits(fn, result, "DataFrame"):
        yield "the result", _text(result), "DataFrame"


def _fits(fn: StageFunction, annotation: object, expected: str) -> bool:
    hint = _resolved(fn, annotation) if isinstance(annotation, str) else annotation
    if hint is None:
        return False
    if not isinstance(hint, type):
        return True  # a union, a type variable, a name known to type checkers only
    return hint in (object, Any) or any(
        base.__name__ == expected and base.__module__.partition(".")[0] == "pyspark" for base in hint.__mro__
    )


def _resolved(fn: StageFunction, text: str) -> object:
    """The object that a plain name means, `text` itself for all else: no user code is evaluated."""
    names = {**vars(builtins), **getattr(fn, "__globals__", {})}
    first, *attributes = text.split(".")
    value = names.get(first, text)
    for attribute in attributes:
        value = getattr(value, attribute, text)
    return value


def _text(annotation: object) -> str:
    return getattr(annotation, "__name__", str(annotation))
