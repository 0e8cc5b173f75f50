"""CPU time by session."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.cpu import CpuSampler

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
PARENT = f"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's Python daemon does: children leave no account
sys.stdin.readline()
subprocess.run([sys.executable, "-c", {BURN.format(1.5)!r}])
{BURN.format(0.2)}
print("done", flush=True)
sys.stdin.readline()
"""


def test_children_that_ended_count_and_other_sessions_and_earlier_times_do_not():
    process = subprocess.Popen(
        [sys.executable, "-c", BURN.format(0.3) + PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with CpuSampler(process.pid) as used, CpuSampler() as others:
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
    process.communicate("\n")
    assert used.seconds >= 0.2 + 1.0  # the child's last moments are not seen
    assert others.seconds == 0
