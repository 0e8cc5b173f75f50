"""The benchmark of slow nodes, once and short: that its chain works. Its times are not judged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cluster.api import until
from tests.cluster.deployment import JOBS, ROOT
from tests.cluster.marks import needs_nodes
from tests.cluster.node_blocks import blocks, marks, told
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import kubectl

pytestmark = [pytest.mark.timeout(600), pytest.mark.soak, needs_nodes]

CONTENDERS = ("oracle", "rekindle")


def test_all_contenders_find_one_answer_and_nothing_is_left(installed, tmp_path):
    until("a cluster without applications", lambda: not applications(), 60)
    command = [sys.executable, "benchmarks/slow_node_on_kubernetes.py", "--scenario", "a", "--seconds", "5"]
    command += ["--contenders", *CONTENDERS, "--deadline", "120", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")]
    assert rows == ["", "---", *CONTENDERS]
    runs = json.loads((tmp_path / "slow_node_on_kubernetes.json").read_text())["scenarios"]["a"]["runs"]
    assert len({run["details"]["answer"] for run in runs}) == 1
    until("nothing of it is left", lambda: not applications() and not blocks() and not marks(), 30, tell=told)
    assert why_unhealthy() is None


def applications() -> str:
    return kubectl("get", "sparkapplications", "-n", JOBS, "-o", "name")
