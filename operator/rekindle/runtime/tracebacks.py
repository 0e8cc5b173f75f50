"""Which frames of a Python traceback are the user's own, and which Rekindle's, PySpark's or Py4J's.

A frame is judged by the folder that its package lies in, never by a word in its path: a user's project may be
called `rekindle` or `pyspark` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+')
_PACKAGES = ("rekindle", "pyspark", "py4j")
_ELSEWHERE = re.compile(
    r"pyspark\.zip/pyspark/|py4j[^/]*\.zip/py4j/|/(?:site|dist)-packages/(?:rekindle|pyspark|py4j)/"
)
"""Where those packages lie on another machine: in Spark's archives, or installed in another Python."""


def is_users_file(filename: str) -> bool:
    """Whether code of this file is the user's rather than Rekindle's, PySpark's or Py4J's."""
    return not filename.startswith(_folders()) and _ELSEWHERE.search(filename) is None


def users_lines(traceback: Iterable[str]) -> list[str]:
    """The lines of a traceback without the frames that are not the user's, each with its source lines."""
    kept, skipping = [], False
    for line in traceback:
        frame = _FRAME.match(line)
        if frame is not None:
            skipping = not is_users_file(frame["file"])
        elif not line.startswith("    "):
            skipping = False
        if not skipping:
            kept.append(line)
    return kept


@cache
def _folders() -> tuple[str, ...]:
    """The folders of the packages in this Python, each with a slash at its end."""
    specs = [find_spec(package) for package in _PACKAGES]
    return tuple(f"{Path(spec.origin).parent}/" for spec in specs if spec is not None and spec.origin)
