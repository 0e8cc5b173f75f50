"""An application as a text: what is shown of its recovery."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from rekindle.remote.tables import show_status

STAGES = [{"name": "A", "partitions": 3, "finished": 3, "released": True}, {"name": "B", "partitions": 4, "running": 2}]
LAST = {"attempt": 2, "restarted": {"m": "0", "B": "0-3"}, "reusedPartitions": 3}


def shown(**recovery: Any) -> list[str]:
    """The lines, with single blanks."""
    status = {"applicationState": {"state": "RUNNING"}, "attempt": 2, "recovery": recovery}
    text = io.StringIO()
    body = {"metadata": {"namespace": "team", "name": "pi"}, "status": status}
    show_status(Console(file=text, width=200), body)
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("as_planned", "how"),
    [({}, "planned"), ({"asPlanned": True}, "as planned"), ({"asPlanned": False}, "not as planned")],
)
def test_what_a_recovery_costs_is_shown(as_planned, how):
    lines = shown(last={**LAST, **as_planned})
    assert f"recovery attempt 2: m[0], B[0-3] again, 3 result partitions stay ({how})" in lines


def test_when_a_task_ran_again_is_shown():
    lines = shown(last={**LAST, "asPlanned": True, "firstTaskAfterSeconds": 22})
    assert "3 result partitions stay (as planned); its first task began 22 s after the loss" in "\n".join(lines)


def test_what_there_is_of_each_stage_is_shown():
    lines = shown(stages=STAGES)
    head = lines.index("STAGE PARTITIONS FINISHED RUNNING MISSING RESULT")
    assert lines[head + 1 : head + 3] == ["A 3 3 0 0 released", "B 4 0 2 0"]


def test_of_what_is_no_pipeline_neither_is():
    assert not any(line.startswith(("recovery", "STAGE")) for line in shown())
