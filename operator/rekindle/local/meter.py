"""CPU that a run used: its processes are looked at now and then, for a killed one leaves no account."""

from collections.abc import Callable
from typing import Protocol

import psutil

from rekindle.local.sessions import session_pids

_EVERY_SECONDS = 1.0


class HasPid(Protocol):
    """A driver, as far as the meter is concerned."""

    @property
    def pid(self) -> int:
        """The leader of its session."""


class CpuMeter:
    """Goes along with a run (`Companion`) and adds up the CPU time of its sessions' processes.

    What a process used after it was last seen is missing: up to a second of each.
    """

    def __init__(self, sessions: Callable[[], tuple[int, ...]]) -> None:
        """`sessions` gives those of the cluster; the driver's is added."""
        self._sessions, self._next = sessions, 0.0
        self._seen: dict[tuple[int, float], float] = {}

    @property
    def core_seconds(self) -> float:
        """Seconds of CPU time, user and system, of all processes seen."""
        return sum(self._seen.values())

    def step(self, now: float, driver: HasPid) -> None:
        """Look, if it is time. `now` is seconds since the epoch."""
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        for pid in session_pids(driver.pid, *self._sessions()):
            try:
                process = psutil.Process(pid)
                used = process.cpu_times()
                self._seen[pid, process.create_time()] = used.user + used.system
            except psutil.Error:
                continue
