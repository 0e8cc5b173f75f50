"""A source that is read by splits, on several nodes: who is slow reads fewer, and who is lost costs what it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness import Application

PROGRAM = "../../cluster/apps/splits.py"
ROWS = 10


def ticks(
    folder: Path, splits: int, seconds: float, long: float, *how: str, speculation: str = "baselineLowerBound: 5s"
):
    """Four subtasks on three nodes: the last finds what is left."""
    return Application(folder, PROGRAM, "4", str(splits), str(seconds), str(long), *how, speculation=speculation)


def is_right(application: Application, splits: int) -> bool:
    """Whether each number is there once."""
    return sorted(application.published("select n from {sink}")) == [(n,) for n in range(ROWS * splits)]


@pytest.mark.requirement("S4-4", "S4-16", "S4-30", "S4-31")
def test_an_executor_and_a_driver_that_are_killed_cost_what_was_being_read(tmp_path):
    """Three subtasks are stored when the driver is killed. Asked again, the source would name its splits in another
    order."""
    application = ticks(tmp_path, 30, 0.2, 12.0, "sleep")
    outcome = application.run("kill-executor:node=2@stage=ticks", "kill-driver@stage=ticks,fraction=0.7")
    assert outcome.code == 0, outcome.err
    assert outcome.report["drivers"] == 2
    assert outcome.restarted() == {"ticks": 1}
    assert is_right(application, 30)


@pytest.mark.requirement("S4-1", "S4-4", "S4-17", "S4-18")
def test_a_slow_node_is_blocked_and_a_copy_reads_the_same_splits_elsewhere(tmp_path):
    """Each node has a reader that holds a split when one of them is made slow, however long their start has taken."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    application = ticks(tmp_path, 10, 2.0, 2.0, "burn", str(meeting), speculation="baselineLowerBound: 3s")
    slow = f"slow-node:node=1,factor=0.05@file={meeting}/fault"
    outcome = application.run(slow, options=("--hold-cores", "0.6"))
    assert outcome.code == 0, outcome.err
    assert is_right(application, 10)
    assert {block["node"] for block in outcome.report["blocks"]} == {"127.0.0.2"}, outcome.err
    assert outcome.stage("ticks")["speculativeLaunched"] >= 1, outcome.err
