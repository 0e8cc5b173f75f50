"""What this machine cannot do, said before and after the tests rather than by skipping some."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from tests.tools import bucket


def limits() -> list[str]:
    """One line for each thing that the tests do in a lesser way here, and why."""
    found = []
    if not has_loopback_aliases():
        found.append(
            "127.0.0.2 cannot be bound (Linux has it, macOS not): all Spark nodes share one host, so nothing "
            "that needs a second node (speculation, blocking) can pass here"
        )
    if not has_cpu_quotas():
        found.append(
            "no CPU quotas (they need Linux, root and a writable cgroup): slow nodes are made by stopping "
            "and continuing their processes instead"
        )
    if (why := bucket.missing()) is not None:
        found.append(f"{why}; until then the tests of stores in buckets are left out")
    return found


def has_loopback_aliases() -> bool:
    """Whether Spark Workers can be told apart by loopback addresses of their own."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError:
            return False
    return True


def has_cpu_quotas() -> bool:
    """Whether this process may make a cgroup with a CPU limit (cgroup v2, or v1 with its cpu controller)."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    root = Path("/sys/fs/cgroup")
    unified, legacy = root / "cgroup.controllers", root / "cpu"
    if unified.is_file():
        return "cpu" in unified.read_text().split() and os.access(root, os.W_OK)
    return legacy.is_dir() and os.access(legacy, os.W_OK)
