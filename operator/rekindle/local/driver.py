"""One attempt of the driver: a process of its own session, its output, and how it ends.

spark-submit's JVM starts the Python program and merges its standard error into its own standard output. So
the program is started through two lines of shell that send its standard error to a file: what a user prints
is shown, and a traceback is not buried in it.
"""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import psutil

from rekindle.local.sessions import end_sessions, session_pids, signal_all
from rekindle.local.watchdog import Watchdog


class Driver:
    """A driver that was started. Its standard output goes line by line to `say`, the JVM's log to `log`."""

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        watchdog: Watchdog,
        say: Callable[[str], None],
    ) -> None:
        """Starts it in `folder`."""
        self.log, self._watchdog, self._say = log, watchdog, say
        with open(log, "wb") as stream:
            self._process = subprocess.Popen(
                command,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                start_new_session=True,
            )
        watchdog.own("session", self._process.pid)
        self._reader = threading.Thread(target=self._read_output, name="driver-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code (negative: a signal), None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Ctrl-C for the Python program; the JVM around it would end at once and take it along."""
        try:
            programs = [child.pid for child in psutil.Process(self.pid).children()]
        except psutil.Error:
            return
        signal_all(programs or [self.pid], SIGINT)

    def terminate(self) -> None:
        """SIGTERM for everything of it."""
        signal_all(session_pids(self.pid), SIGTERM)

    def kill(self) -> None:
        """SIGKILL for the driver and everything it started here; its executors are the nodes'."""
        end_sessions(self.pid)

    def close(self, grace: float = 0.0) -> None:
        """End what is left of it and forget it; afterwards it is proven gone."""
        end_sessions(self.pid, grace=grace)
        self._process.wait()
        self._reader.join(timeout=5)
        self._watchdog.done("session", self.pid)

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._say(line.decode(errors="replace").rstrip("\n"))


def make_python(path: Path, errors: Path) -> Path:
    """A program at `path` that is this Python with its standard error in the file `errors`."""
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@" 2>>{shlex.quote(str(errors))}\n')
    path.chmod(0o700)
    return path


def read_error(path: Path) -> dict[str, Any] | None:
    """The error that a driver left for its launcher (`RekindleError.to_record`), None when there is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
