"""CPU time by session."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.cpu import cpu_seconds

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN.format(0.3)!r}])
{BURN.format(0.2)}
print("done", flush=True)
sys.stdin.readline()
"""


def test_ended_children_count_and_other_sessions_do_not():
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    used, others = cpu_seconds(process.pid), cpu_seconds()
    process.communicate("\n")
    assert used >= (0.5 if psutil.LINUX else 0.2)  # what the two burnt; only Linux keeps account of the child
    assert others == 0
    assert cpu_seconds(process.pid) == 0
