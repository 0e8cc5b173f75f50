"""What a killed driver cost: from the run's journal and the event logs of its drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.event_log import TaskRun
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionVertexID
from rekindle.runtime.journal import Record


@dataclass(frozen=True)
class Recovery:
    """A run whose driver was killed once. All but `finished_stages_rerun` are seconds.

    Attributes:
        total: from the run's first record to its last.
        before: from the run's first record to the kill.
        gap: from the kill to the first record of the new driver.
        tasks_before: of tasks, run before the kill; what starting over would run again.
        tasks_lost: of tasks, those whose work was not kept.
        finished_stages_rerun: stages that were finished and of which a task ran again; should be none.
    """

    total: float
    before: float
    gap: float
    tasks_before: float
    tasks_lost: float
    finished_stages_rerun: tuple[str, ...]


def account(records: Sequence[Record], before: Sequence[TaskRun], killed_at: float) -> Recovery:
    """The cost of a kill.

    Args:
        records: the run's whole journal.
        before: tasks of the driver that was killed.
        killed_at: seconds since the epoch.
    """
    starts = [record["t"] for record in records if record.get("note") == "DriverStarted"]
    kept = kept_partitions(records, killed_at)
    stages = _partitions(records)
    finished = {name for name, count in stages.items() if all(ExecutionVertexID(name, i) in kept for i in range(count))}
    lost = [task for task in before if not _is_kept(task, finished, kept)]
    return Recovery(
        total=run_seconds(records),
        before=killed_at - records[0]["t"],
        gap=starts[1] - killed_at,
        tasks_before=sum(task.seconds(killed_at) for task in before),
        tasks_lost=sum(task.seconds(killed_at) for task in lost),
        finished_stages_rerun=tuple(sorted(_finished_once(records, killed_at) - finished)),
    )


def run_seconds(records: Sequence[Record]) -> float:
    """From the first record of a run to its last."""
    return float(records[-1]["t"] - records[0]["t"])


def kept_partitions(records: Sequence[Record], killed_at: float) -> set[ExecutionVertexID]:
    """Partitions whose last finished attempt ended before the kill: what was made of them was kept."""
    last = {event.attempt.vertex_id: event.finished_at for event in _finishes(records)}
    return {vertex for vertex, finished_at in last.items() if finished_at <= killed_at}


def _finished_once(records: Sequence[Record], killed_at: float) -> set[str]:
    """Stages that had all their partitions before the kill."""
    made = {event.attempt.vertex_id for event in _finishes(records) if event.finished_at <= killed_at}
    return {
        name
        for name, count in _partitions(records).items()
        if all(ExecutionVertexID(name, number) in made for number in range(count))
    }


def _finishes(records: Sequence[Record]) -> list[ev.AttemptFinished]:
    events = (ev.from_record(record["event"]) for record in records if record["kind"] == "event")
    return [event for event in events if isinstance(event, ev.AttemptFinished)]


def _partitions(records: Sequence[Record]) -> dict[str, int]:
    """Stored stages with the number of their partitions."""
    started = next(record for record in records if record.get("note") == "RunStarted")
    return {stage["name"]: stage["partitions"] for stage in started["stages"] if stage["exchange"] == "blocking"}


def _is_kept(task: TaskRun, finished: set[str], kept: set[ExecutionVertexID]) -> bool:
    """A finished stage keeps all its tasks' work; of another, only stored partitions are left."""
    return task.stage in finished or (task.is_result and ExecutionVertexID(task.stage, task.partition) in kept)
