"""Processes by session: whatever a process started, and whatever that started, ends together.

Every process that a run starts is the leader of a session of its own, and what it starts stays in that
session (Spark's executors and PySpark's workers change their process group, never their session). So a node
is a session, and so is a driver.
"""

import os
import signal
import time
from collections.abc import Iterable

import psutil

_POLL = 0.02


def session_pids(*sessions: int) -> list[int]:
    """Living processes of the sessions; zombies do not live."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except (OSError, psutil.Error):  # it ended meanwhile
            continue
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to all of the processes that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def end_sessions(*sessions: int, grace: float = 0.0, deadline: float = 10.0) -> list[int]:
    """End all processes of the sessions; the ones that are left after `deadline` seconds.

    With `grace` they are asked first (SIGTERM) and have that many seconds. Stopped ones are continued, else
    they could not answer.
    """
    if grace > 0:
        pids = session_pids(*sessions)
        signal_all(pids, signal.SIGTERM)
        signal_all(pids, signal.SIGCONT)
        _wait_gone(sessions, grace)
    end = time.monotonic() + deadline
    left = session_pids(*sessions)
    while left and time.monotonic() < end:
        signal_all(left, signal.SIGKILL)  # again and again: one may have forked just before it died
        time.sleep(_POLL)
        left = session_pids(*sessions)
    return left


def _wait_gone(sessions: tuple[int, ...], seconds: float) -> None:
    end = time.monotonic() + seconds
    while session_pids(*sessions) and time.monotonic() < end:
        time.sleep(_POLL)
