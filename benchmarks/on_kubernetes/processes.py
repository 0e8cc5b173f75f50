"""The processes whose cost is measured: the operator, and each spark-submit."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import re
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from rekindle.local.java import source_root
from rekindle.local.sessions import end_sessions
from rekindle.local.watchdog import Watchdog
from tests.kind.processes import Failed, last_lines

LOGS = Path(__file__).resolve().parents[2] / ".build" / "bench" / "logs"

_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_END_SECONDS = 20.0
_MB = 1e6


def adopt_orphans() -> None:
    """Have what our processes leave behind come to us: the JVM that works out spark-submit's command often is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True)
class Usage:
    """What a process and all it started used: CPU time, user and system, and the most memory that one of them held."""

    core_seconds: float
    peak_mb: float

    @classmethod
    def of(cls, *used: resource.struct_rusage) -> Usage:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = max(one.ru_maxrss for one in used) * unit
        return cls(sum(one.ru_utime + one.ru_stime for one in used), peak / _MB)


class Child:
    """A process in a session of its own. A context manager: at its end the session is gone."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: str, watchdog: Watchdog) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log, self._watchdog = LOGS / f"{log}.log", watchdog
        self.usage: Usage | None = None
        self.began = time.monotonic()
        with open(self.log, "wb") as output:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.pid = self._process.pid
        watchdog.own("session", self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def poll(self) -> int | None:
        """Its exit code once it has ended; then `usage` is known."""
        if self.usage is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if not pid:
                return None
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.usage = Usage.of(used, *self._orphans())
            self._watchdog.done("session", self.pid)
        return int(self._process.returncode)

    def _orphans(self) -> Iterator[resource.struct_rusage]:
        with suppress(ChildProcessError):
            while (found := os.wait4(-self.pid, os.WNOHANG))[0]:
                yield found[2]

    def end(self) -> Usage:
        """Ask it to end, and end it if it does not."""
        if self.poll() is None:
            end_sessions(self.pid, grace=_END_SECONDS)
        while self.poll() is None:
            time.sleep(0.01)
        assert self.usage is not None
        return self.usage

    def last_words(self) -> str:
        return f"the end of {self.log.name}:\n{last_lines(self.log.read_text(errors='replace'), 12)}"


class OperatorProcess(Child):
    """The operator of this source tree, on this machine, for the applications of one namespace."""

    def __init__(self, namespace: str, watchdog: Watchdog, *options: str) -> None:
        self.port = _free_port()
        command = [sys.executable, "-m", "rekindle.controller", "--namespaces", namespace]
        command += ["--lease-name", "benchmark", "--identity", f"benchmark-{self.port}", "--port", str(self.port)]
        command += options
        environment = {**os.environ, "POD_NAMESPACE": namespace, "PYTHONPATH": str(source_root())}
        super().__init__(command, environment, f"operator-{namespace}", watchdog)
        self._account = psutil.Process(self.pid)

    def core_seconds(self) -> float:
        """CPU time so far, user and system."""
        times = self._account.cpu_times()
        return float(times.user + times.system)

    def rss_mb(self) -> float:
        return float(self._account.memory_info().rss) / _MB

    def peak_mb(self) -> float:
        """The most memory that it has held so far; what it holds now where the kernel does not tell."""
        status = Path(f"/proc/{self.pid}/status")
        peak = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
        return int(peak[1]) * 1024 / _MB if peak else self.rss_mb()

    async def metrics(self) -> list[Sample]:
        """What it tells at /metrics; [] while nobody answers there."""
        text = await asyncio.to_thread(self._metrics)
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def _metrics(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    async def until_it_works(self) -> float:
        """Until it holds its Lease; seconds since it was started."""

        async def leads() -> bool:
            return total(await self.metrics(), "rekindle_leader") == 1

        await self.until("the operator works", leads, 60)
        return time.monotonic() - self.began

    async def until(self, what: str, seen: Callable[[], object], seconds: float, *, every: float = 0.02) -> None:
        """Until `seen`, which may be asynchronous. Raises Failed where that is not in time, or the operator ended."""
        deadline = time.monotonic() + seconds
        while not (await found if inspect.isawaitable(found := seen()) else found):
            self.check()
            if time.monotonic() > deadline:
                raise Failed(f"not seen within {seconds:g} s: {what}; {self.last_words()}")
            await asyncio.sleep(every)

    def check(self) -> None:
        if (code := self.poll()) is not None:
            raise Failed(f"the operator ended with exit code {code}; {self.last_words()}")


def total(samples: Iterable[Sample], name: str, **labels: str) -> float:
    """The sum of the samples of that name that have these labels."""
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])
