"""CPU time of processes by session, from the kernel's accounts by way of psutil."""

from __future__ import annotations

import psutil

from rekindle.local.sessions import session_pids


def cpu_seconds(*sessions: int) -> float:
    """Seconds of CPU time, user and system, that the sessions' processes have used.

    A process that ended is in its parent's account of ended children, on Linux; so the difference of two
    calls misses only those whose parents ended as well. Other systems keep no such account.
    """
    return sum(_of(pid) for pid in session_pids(*sessions))


def _of(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:  # it ended meanwhile
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
