"""CPU time of processes by session, from the kernel's accounts by way of psutil."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil

from rekindle.local.sessions import session_pids

_EVERY_SECONDS = 0.25


class CpuSampler:
    """What the processes of some sessions use, user and system, while the block runs.

    It looks several times a second, for a process that ended need not be in anybody's account: Spark's Python daemon
    ends workers that were idle for a minute, and ignores their end. What a process used after it was last seen is
    missing.
    """

    def __init__(self, *sessions: int) -> None:
        self._sessions = sessions
        self._seen: dict[tuple[int, float], float] = {}
        self._before = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="cpu-sampler", daemon=True)

    def __enter__(self) -> CpuSampler:
        self._look()
        self._before = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> float:
        """Seconds of CPU time so far; all of them after the block."""
        return sum(self._seen.values()) - self._before

    def _sample(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self._look()

    def _look(self) -> None:
        for pid in session_pids(*self._sessions):
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                self._seen[pid, process.create_time()] = float(times.user + times.system)
            except psutil.Error:  # it ended meanwhile
                continue
