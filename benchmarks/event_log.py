"""Seconds of tasks, from Spark's event log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONF = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.eventLog.buffer.kb": "1k",  # else a killed driver takes the last events with it
}


@dataclass(frozen=True)
class TaskRun:
    """One task attempt. Times are seconds since the epoch; `ended` is None when the log does not say.

    Attributes:
        stage: the pipeline's stage whose job it was part of; "" for jobs that are none's.
        is_result: it writes a result partition; else it is of the stage's map side.
    """

    stage: str
    is_result: bool
    partition: int
    launched: float
    ended: float | None

    def seconds(self, until: float) -> float:
        """Its length, up to `until` where no end is known."""
        return max(0.0, (self.ended if self.ended is not None else until) - self.launched)


def read_tasks(path: Path) -> list[TaskRun]:
    """All tasks of one driver's event log, which may be cut in its last line."""
    return fold_tasks(_events(path.read_text(encoding="utf-8", errors="replace").splitlines()))


def fold_tasks(events: Iterable[dict[str, Any]]) -> list[TaskRun]:
    """The tasks that events tell of, in the order of their launch."""
    job_of: dict[int, tuple[str, bool]] = {}  # Spark's stage -> (stage of the pipeline, is the result stage)
    tasks: dict[int, TaskRun] = {}
    for event in events:
        match event["Event"]:
            case "SparkListenerJobStart":
                job_of.update(_stages(event))
            case "SparkListenerTaskStart" | "SparkListenerTaskEnd":
                info = event["Task Info"]
                name, is_result = job_of.get(event["Stage ID"], ("", False))
                ended = info["Finish Time"] / 1000 or None
                launched, partition = info["Launch Time"] / 1000, info["Partition ID"]
                tasks[info["Task ID"]] = TaskRun(name, is_result, partition, launched, ended)
    return list(tasks.values())


def _stages(event: dict[str, Any]) -> dict[int, tuple[str, bool]]:
    """The stages of a job; the one with the highest number makes its result."""
    stages = event["Stage IDs"]
    description = event.get("Properties", {}).get("spark.job.description", "")
    name = description.partition("[")[0]  # a copy's is `stage[3] copy #1`
    return {stage: (name, stage == max(stages)) for stage in stages}


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return
