"""Calls that may hang, such as those to a folder whose file server is away, with a deadline.

Nothing ends a system call that hangs. So it is made in a thread of its own, which is left behind when it does: whoever
asked goes on, and can end the process.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Deadline:
    """Has calls made, each within `seconds`. Each thread that asks has one that makes its calls, one after another."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._own = threading.local()

    def call(self, function: Callable[..., T], *args: Any, patience: float = 1.0) -> T:
        """What `function` returns or raises. TimeoutError where it takes longer than `seconds` times `patience`."""
        if not hasattr(self._own, "helper"):
            self._own.helper = Helper("rekindle-deadline")
        answer: Future[T] = self._own.helper.ask(function, args)
        try:
            return answer.result(self.seconds * patience)
        except NotInTime:
            if answer.done():  # just now, or it is the function's own
                return answer.result(0)
            del self._own.helper
            raise TimeoutError(errno.ETIMEDOUT, f"no answer for {self.seconds * patience:g} s") from None


_Call = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Helper:
    """A thread that makes calls. It ends with this object, or when the call that hangs does."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()

    def ask(self, function: Callable[..., T], args: tuple[Any, ...] = ()) -> Future[T]:
        """Have a call made, behind those that were asked for before."""
        answer: Future[T] = Future()
        self._calls.put((answer, function, args))
        return answer

    def __del__(self) -> None:
        self._calls.put(None)


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while call := calls.get():
        answer, function, args = call
        try:
            answer.set_result(function(*args))
        except BaseException as error:
            answer.set_exception(error)
        del call, answer, function, args
