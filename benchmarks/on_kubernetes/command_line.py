"""What the command lines of benchmarks have in common."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rekindle.controller.kube import KubeError
from tests.kind.processes import Failed


def positive(text: str) -> int:
    """A number from 1 on. ValueError otherwise."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def exit_code(error: BaseException) -> int:
    """What an error means to who called; one that nobody foresaw is raised again."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
        return 130 if isinstance(error, KeyboardInterrupt) else 143
    if not isinstance(error, Failed | KubeError):
        raise error
    print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
    return 1
