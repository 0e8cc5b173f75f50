"""What a killed driver cost, from a handmade journal and event log."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.event_log import TaskRun, fold_tasks, read_tasks
from benchmarks.recovery import account

KILLED_AT = 120.0


def stage(name: str, partitions: int, exchange: str = "blocking") -> dict[str, Any]:
    return {"name": name, "partitions": partitions, "exchange": exchange}


def note(t: float, name: str, **fields: Any) -> dict[str, Any]:
    return {"t": t, "kind": "note", "note": name, **fields}


def finished(attempt: str, finished_at: float, seen_at: float | None = None) -> dict[str, Any]:
    output = {"rows": 1, "bytes": 1, "digest": None, "node": None}
    event = {"type": "AttemptFinished", "attempt": attempt, "finished_at": finished_at, "output": output}
    return {"t": seen_at or finished_at, "kind": "event", "event": event}


def journal(*after: dict[str, Any]) -> list[dict[str, Any]]:
    """`source` is finished and one of two partitions of `work`, when the driver is killed at 120."""
    return [
        note(100, "RunStarted", stages=[stage("source", 2), stage("work", 2), stage("fused", 1, "pipelined")]),
        note(101, "DriverStarted"),
        finished("source[0]#0", 105),
        finished("source[1]#0", 106),
        finished("work[0]#0", 118),
        note(127, "DriverStarted"),
        *after,
        note(150, "RunFinished"),
    ]


TASKS = [
    TaskRun("", True, 0, 101, 102),
    TaskRun("source", False, 0, 102, 104),
    TaskRun("source", True, 0, 104, 105),
    TaskRun("source", True, 1, 104, 106),
    TaskRun("work", False, 0, 106, 116),
    TaskRun("work", True, 0, 116, 118),
    TaskRun("work", True, 1, 117, None),
]


def test_of_a_deterministic_stage_the_map_side_and_what_was_not_stored_is_lost():
    found = account(journal(finished("work[1]#1", 140)), TASKS, KILLED_AT)
    assert (found.total, found.before, found.gap) == (50, 20, 7)
    assert found.tasks_before == 1 + 2 + 1 + 2 + 10 + 2 + 3
    assert found.tasks_lost == 1 + 10 + 3
    assert found.finished_stages_rerun == ()


def test_a_partition_that_was_made_again_was_lost():
    found = account(journal(finished("work[0]#1", 139), finished("work[1]#1", 140)), TASKS, KILLED_AT)
    assert found.tasks_lost == 1 + 10 + 2 + 3


def test_a_stage_stored_just_before_the_kill_is_kept_though_only_the_next_driver_saw_it():
    found = account(journal(finished("work[1]#0", 119.9, seen_at=128)), TASKS, KILLED_AT)
    assert found.tasks_lost == 1


def test_a_finished_stage_that_runs_again_is_named():
    again = finished("source[1]#1", 135), finished("work[1]#1", 140)
    found = account(journal(*again), TASKS, KILLED_AT)
    assert found.finished_stages_rerun == ("source",)
    assert found.tasks_lost == 1 + 2 + 2 + 10 + 3


def job(description: str | None, *stages: int) -> dict[str, Any]:
    properties = {"spark.job.description": description} if description else {}
    return {"Event": "SparkListenerJobStart", "Stage IDs": list(stages), "Properties": properties}


def task(event: str, number: int, stage: int, partition: int, launched: int, ended: int = 0) -> dict[str, Any]:
    info = {"Task ID": number, "Partition ID": partition, "Launch Time": launched, "Finish Time": ended}
    return {"Event": f"SparkListenerTask{event}", "Stage ID": stage, "Task Info": info}


EVENTS = [
    job(None, 0),
    task("Start", 0, 0, 0, 1000),
    task("End", 0, 0, 0, 1000, 2500),
    job("work", 1, 2),
    job("work[3] copy #1", 3, 4),
    task("Start", 1, 1, 0, 2000),
    task("End", 1, 1, 0, 2000, 4000),
    task("Start", 2, 4, 3, 4000),
]


def test_tasks_are_known_by_the_stage_whose_job_they_are_in():
    assert fold_tasks(EVENTS) == [
        TaskRun("", True, 0, 1.0, 2.5),
        TaskRun("work", False, 0, 2.0, 4.0),
        TaskRun("work", True, 3, 4.0, None),
    ]


def test_a_log_that_was_cut_is_read_up_to_there(tmp_path):
    lines = [json.dumps(event) for event in EVENTS]
    path = tmp_path / "app-1.inprogress"
    path.write_text("\n".join([*lines[:6], lines[6][:40]]))
    assert fold_tasks(EVENTS[:6]) == read_tasks(path)
    assert read_tasks(path)[-1].seconds(until=5.0) == 3.0
