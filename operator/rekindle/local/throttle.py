"""Less CPU for a node: a quota of the kernel where we may set one, else stop and continue at a duty cycle."""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Protocol

from rekindle.local.sessions import signal_all
from rekindle.local.watchdog import remove_cgroup

_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000  # the kernel refuses less


class Throttle(Protocol):
    """Limits the CPU of one node's processes."""

    kind: str
    signals: AbstractContextManager[object]
    """Held while processes are stopped or continued by others."""

    def adopt(self, pid: int) -> None:
        """Take in a process that was just started; what it starts later is taken in with it."""

    def limit(self, cores: float | None) -> None:
        """At most this many cores' worth of CPU time for all of them together; None is no limit."""

    def close(self) -> None:
        """Lift the limit and leave nothing."""


class CgroupThrottle:
    """A CPU quota: cgroup v1 `cpu.cfs_quota_us` or v2 `cpu.max`."""

    kind = "CPU quota"

    def __init__(self, folder: Path) -> None:
        """Makes the cgroup. Raises OSError where that, or setting a quota, is not allowed."""
        self.folder = folder
        self.signals: AbstractContextManager[object] = nullcontext()  # a quota sends none
        folder.mkdir()
        try:
            self.limit(1.0)
            self.limit(None)
        except OSError:
            folder.rmdir()
            raise

    def adopt(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, cores: float | None) -> None:
        quota = None if cores is None else max(_LEAST_QUOTA_US, round(cores * _PERIOD_US))
        if (self.folder / "cpu.max").exists():
            (self.folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def close(self) -> None:
        remove_cgroup(self.folder)


class DutyCycleThrottle:
    """Stops and continues the processes so that they may run for a share of each period.

    A share of the time is a share of `full` cores: a node that keeps fewer busy is slowed less than asked.
    """

    kind = "duty cycle"

    def __init__(
        self,
        pids: Callable[[], list[int]],
        full: float,
        *,
        period: float = 0.2,
        send: Callable[[list[int], bool], None] | None = None,
    ) -> None:
        """`pids` gives the node's processes now; `send(pids, run)` stops or continues them.

        Whoever changes what `pids` gives holds `signals` meanwhile: a process that was taken out must not be
        continued by a list from before.
        """
        self.signals: AbstractContextManager[object] = threading.Lock()
        self._pids, self._full, self._period = pids, full, period
        self._send = send or (lambda pids, run: signal_all(pids, SIGCONT if run else SIGSTOP))
        self._share = 1.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def adopt(self, pid: int) -> None:
        """Nothing to do: the processes are looked up in each period."""

    def limit(self, cores: float | None) -> None:
        self._share = 1.0 if cores is None else min(1.0, cores / self._full)
        if self._share < 1.0 and self._thread is None:
            self._thread = threading.Thread(target=self._cycle, name="duty-cycle", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _cycle(self) -> None:
        while not self._ended.is_set():
            share = self._share
            if share < 1.0:
                self._send_all(False)
                self._ended.wait(self._period * (1 - share))
                self._send_all(True)
            self._ended.wait(self._period * share)

    def _send_all(self, run: bool) -> None:
        with self.signals:
            self._send(self._pids(), run)


def cgroup_parent(mounts: str, own: str) -> Path | None:
    """Where a cgroup with the cpu controller can be made: below our own, so that its limits hold for us.

    Args: the texts of /proc/self/mounts and /proc/self/cgroup. None where there is no such controller.
    """
    paths = {}  # controller -> our path; "" is v2's one hierarchy
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for line in mounts.splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(",") and "cpu" in paths:
            return Path(mount + paths["cpu"])
        if kind == "cgroup2" and "cpu" not in paths and "" in paths:
            return Path(mount + paths[""])
    return None


def make_cgroup_throttle(name: str) -> CgroupThrottle | None:
    """A quota for one node, or None where this user or system has none to give."""
    try:
        mounts, own = Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()
        parent = cgroup_parent(mounts, own)
        if parent is None or not os.access(parent, os.W_OK):
            return None
        subtree = parent / "cgroup.subtree_control"
        if subtree.exists() and "cpu" not in subtree.read_text().split():
            subtree.write_text("+cpu")
        return CgroupThrottle(parent / name)
    except OSError:
        return None
