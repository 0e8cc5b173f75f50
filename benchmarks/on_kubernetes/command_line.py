"""What the command lines of benchmarks have in common."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import Run
from rekindle.controller.kube import KubeError
from tests.kind.processes import Failed

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line, with the seconds since the benchmark began."""
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {text}", flush=True)


def show(found: Sequence[Run], table: str, markdown: Path | None, title: str = "") -> int:
    """Print the table, and write it where that is asked for; the exit code."""
    print(f"\n{title}{table}\n", flush=True)
    if markdown is not None:
        markdown.write_text(f"{table}\n", encoding="utf-8")
    return 1 if any(run.error is not None for run in found) else 0


def positive(text: str) -> int:
    """A number from 1 on. ValueError otherwise."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def percent(text: str) -> int:
    """A share that is neither nothing nor all. ArgumentTypeError otherwise."""
    try:
        number = positive(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 99:
        raise argparse.ArgumentTypeError(f"{text}: a whole number from 1 to 99 is needed")
    return number


def exit_code(error: BaseException, interrupted: str | None = None) -> int:
    """What an error means to who called; one that nobody foresaw is raised again.

    Args:
        interrupted: what is said where it is an interruption.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
        if interrupted is not None:
            say(f"interrupted; {interrupted}")
        return 130 if isinstance(error, KeyboardInterrupt) else 143
    if not isinstance(error, Failed | KubeError):
        raise error
    print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
    return 1
