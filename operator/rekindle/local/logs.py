"""Waiting for a line in a process's log, and its last lines when that goes wrong."""

import re
import subprocess
import time
from pathlib import Path

from rekindle.runtime.errors import EnvironmentProblem

_POLL = 0.05


def tail(log: Path, lines: int = 15, width: int = 200) -> str:
    """The last lines of a log that are not empty, each cut to `width`."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(line[:width] for line in [x for x in text.splitlines() if x.strip()][-lines:])


def wait_for_line(
    what: str, process: "subprocess.Popen[bytes]", log: Path, pattern: re.Pattern[str], until: float
) -> re.Match[str]:
    """The first match of `pattern` in the log. `until` is on the monotonic clock.

    Raises EnvironmentProblem, with the log's last lines, when the process ends or the time is over.
    """
    while True:
        ended = process.poll()
        found = pattern.search(log.read_text(encoding="utf-8", errors="replace"))
        if found is not None:
            return found
        if ended is not None:
            raise EnvironmentProblem(
                f"{what} ended at its start (exit {ended}):\n{tail(log)}",
                remedy="mend what its last lines say, and run again",
            )
        if time.monotonic() > until:
            raise EnvironmentProblem(
                f"{what} was not ready in time:\n{tail(log)}",
                remedy="is the machine busy? Try again, or with fewer --nodes",
            )
        time.sleep(_POLL)
