"""What a user writes a loop as: a function of streams, or an object with a method `loop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from rekindle.pipeline.loops.streams import LoopStream

Pair = tuple[LoopStream, LoopStream]
"""What is fed back, and what the loop puts out, in this order."""


@runtime_checkable
class LoopFunction(Protocol):
    """A loop whose feedback has the columns of its input (`S8-4`): both come as one stream."""

    @property
    def loop(self) -> Callable[..., Pair]:
        """`loop(stream, …)`; behind the stream come tables, by name."""
        ...


@runtime_checkable
class CoLoopFunction(Protocol):
    """A loop whose feedback has columns of its own (`S8-5`): it comes as a stream beside the input."""

    @property
    def loop(self) -> Callable[..., Pair]:
        """`loop(stream, feedback, …)`; behind these come tables, by name."""
        ...


def body_of(function: Any) -> Callable[..., Any]:
    """The function itself, or the object's method `loop`."""
    body: Callable[..., Any] = getattr(function, "loop", function)
    return body
