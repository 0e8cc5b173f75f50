"""A process that cleans up when the launcher cannot: it reads a pipe, and the pipe's end is the signal.

The kernel closes a killed process's pipes, SIGKILL or not, on Linux and macOS alike. (`PR_SET_PDEATHSIG` is
Linux only, follows the thread that forked, and does not reach grandchildren.) Each line on the pipe is JSON:

    {"own": "session", "name": "4711"}     also "folder" and "cgroup", named by their paths
    {"done": "session", "name": "4711"}    it is gone; its number may be another's soon

At the pipe's end everything owned is removed: sessions, then cgroups, then folders.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from rekindle.local.java import source_root
from rekindle.local.sessions import end_sessions

Kind = Literal["session", "folder", "cgroup"]


class Watchdog:
    """The launcher's end of the pipe. A context manager: at its end nothing owned is left either way."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rekindle.local.watchdog"],
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source_root())},
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def own(self, kind: Kind, name: object) -> None:
        """Remove this if the launcher dies."""
        self._tell({"own": kind, "name": str(name)})

    def done(self, kind: Kind, name: object) -> None:
        """This is gone."""
        self._tell({"done": kind, "name": str(name)})

    def close(self, deadline: float = 30.0) -> None:
        """Close the pipe, which makes the watchdog clean up, and wait for it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(deadline)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, message: dict[str, str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def watch(lines: Iterable[str]) -> None:
    """Read what is owned until the lines end, then remove it."""
    owned: dict[str, list[str]] = {"session": [], "folder": [], "cgroup": []}
    for line in lines:
        message = json.loads(line)
        if "own" in message:
            owned[message["own"]].append(message["name"])
        elif message["name"] in owned[message["done"]]:
            owned[message["done"]].remove(message["name"])
    end_sessions(*(int(name) for name in owned["session"]))
    for name in owned["cgroup"]:
        remove_cgroup(Path(name))
    for name in owned["folder"]:
        shutil.rmtree(name, ignore_errors=True)


def remove_cgroup(folder: Path, deadline: float = 2.0) -> None:
    """Remove an empty cgroup; the kernel may see its last process for a moment longer than we do."""
    end = time.monotonic() + deadline
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                return
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin)
