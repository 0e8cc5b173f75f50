"""A driver's failure on one screen: its own words if it left any, else the user's traceback from its log."""

import re
from collections.abc import Mapping
from typing import Any

from rekindle.runtime.tracebacks import users_lines

_TRACEBACK = "Traceback (most recent call last):"
_JVM = re.compile(r"^(\s+at [\w.$]+[(/]|\s*\.\.\. \d+ more|Caused by: |\d\d/\d\d/\d\d \d\d:\d\d:\d\d )")
_PIPELINE_ERROR = re.compile(r"^rekindle\.pipeline\.[\w.]*Error: ", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_MOST_LINES = 30


def from_record(error: Mapping[str, Any]) -> str:
    """The lines of a structured error: what, where, the user's traceback, the remedy."""
    where = " ".join(f"{word} {error[word]}" for word in ("stage", "partition") if error.get(word) is not None)
    message = str(error.get("message") or error.get("kind") or "failed")
    lines = [f"{where}: {message}" if where and where not in message else message]
    if error.get("traceback"):
        lines.append(_cut(str(error["traceback"]).rstrip().splitlines()))
    if error.get("remedy"):
        lines.append(f"-> {error['remedy']}")
    return "\n".join(lines)


def from_logs(program: str, jvm: str) -> str:
    """The user's own part of what a driver left: `program` is its standard error, `jvm` the JVM's log.

    That is the last Python traceback, without the frames of PySpark and the JVM. Without one, the last lines
    of the program that are not the JVM's, or of the JVM's log if the program said nothing.
    """
    start = _last_traceback(program)
    if start is not None:
        lines = program[start:].splitlines()
        return _cut(users_lines([line for line in lines if line.strip() and _JVM.match(line) is None]))
    said = [line for line in program.splitlines() if line.strip() and _JVM.match(line) is None]
    return "\n".join((said or [line for line in jvm.splitlines() if line.strip() and "\tat " not in line])[-15:])


def _last_traceback(text: str) -> int | None:
    """Where the last traceback begins that is not one of a worker, quoted in another's message."""
    found = None
    for match in re.finditer(rf"^{re.escape(_TRACEBACK)}$", text, re.MULTILINE):
        before = text[: match.start()].rstrip()
        if found is None or not before.endswith("Python worker:"):
            found = match.start()
    return found


def pipeline_error(text: str) -> str | None:
    """What a traceback of the user's own frames says is wrong with the pipeline itself (exit code 2), and on which
    line; None where it says something else."""
    error = _PIPELINE_ERROR.search(text)
    if error is None:
        return None
    frames = list(_FRAME.finditer(text, 0, error.start()))
    where = f"{frames[-1]['file']} line {frames[-1]['line']}: " if frames else ""
    return where + text[error.end() :].rstrip()


def _cut(lines: list[str]) -> str:
    """One screen: the beginning says where, the end says what."""
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    return "\n".join(lines)
