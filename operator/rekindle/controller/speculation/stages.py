"""A stage of a running driver as the core sees it: a job vertex, whose attempts are Spark's own.

It is made anew at each look, from what the driver tells of it: detectors keep no state, and nothing that was missed
or told twice stays.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rekindle.controller.speculation.spark_rest import Stage, Task
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import NO_NODE, ExecutionAttemptID
from rekindle.core.job_graph import JobVertex

_MOST_ATTEMPTS = 8

NOWHERE = NO_NODE[1]


@dataclass(frozen=True, slots=True)
class SeenStage:
    """A stage, and which of Spark's tasks each attempt is."""

    vertex: ExecutionJobVertex
    tasks: Mapping[ExecutionAttemptID, Task]


@dataclass(frozen=True, slots=True)
class SeenStages:
    """What a slow-task detector looks at (`core.slow_tasks.GraphView`)."""

    stages: Sequence[SeenStage]

    def execution_job_vertices(self) -> Sequence[ExecutionJobVertex]:
        """One for each stage."""
        return [stage.vertex for stage in self.stages]


def seen_stage(stage: Stage, finished: Iterable[Task], running: Iterable[Task], nodes: Mapping[str, str]) -> SeenStage:
    """The stage with these tasks; `nodes`: [executor -> node], of an executor that is not there it is not known.

    Of several tasks of a partition that have finished the first counts, and what still runs beside it does not. Where
    one was launched after that, what the first has made is lost, and it counts no more.
    """
    vertex = ExecutionJobVertex.create(JobVertex(f"stage {stage.key}", stage.tasks))
    told: dict[ExecutionAttemptID, Task] = {}
    live = _each_once(running, stage)
    launched: dict[int, float] = {}
    for task in live:
        launched[task.index] = max(task.launched_at, launched.get(task.index, 0.0))
    kept = [one for one in _each_once(finished, stage) if launched.get(one.index, 0.0) <= ended_at(one)]
    for task in sorted(kept, key=lambda one: (ended_at(one), one.attempt)):
        if not vertex.tasks[task.index].is_finished:
            execution = _deployed(vertex, task, nodes, task.input_bytes)
            vertex.admit(execution, ended_at(task))
            told[execution.attempt_id] = task
    typical = median([one.input_bytes for one in kept if one.input_bytes is not None] or [0])
    for task in sorted(live, key=lambda one: (one.launched_at, one.attempt)):
        if not vertex.tasks[task.index].is_finished:
            told[_deployed(vertex, task, nodes, _to_read(task, typical)).attempt_id] = task
    return SeenStage(vertex, told)


def _each_once(tasks: Iterable[Task], stage: Stage) -> list[Task]:
    """The newest attempts of each index; Spark makes two at once, and a driver may tell of as many as it likes.

    A task that starts or ends between two pages of an answer moves the others, and one may be on both.
    """
    by_index: dict[int, dict[int, Task]] = {}
    for one in tasks:
        if one.index < stage.tasks:
            by_index.setdefault(one.index, {})[one.attempt] = one
    return [attempts[number] for attempts in by_index.values() for number in heapq.nlargest(_MOST_ATTEMPTS, attempts)]


def ended_at(task: Task) -> float:
    """When a finished task ended, in epoch seconds of the driver's clock."""
    return task.launched_at + (task.seconds or 0.0)


def _to_read(task: Task, typical: float) -> int | None:
    """How much a running task has to read, of which it tells only what it has read so far: hardly less than others."""
    return None if task.input_bytes is None else max(task.input_bytes, int(typical))


def _deployed(vertex: ExecutionJobVertex, task: Task, nodes: Mapping[str, str], input_bytes: int | None) -> Execution:
    """The attempt that the task is, as it was when it was launched."""
    there = vertex.tasks[task.index]
    scheduled = vertex.schedule(task.index) if task.index in vertex.pending else _copy(there, task)
    deployed = scheduled.deployed(nodes.get(task.executor, NOWHERE), task.launched_at, input_bytes)
    there.put(deployed)
    return deployed


def _copy(vertex: ExecutionVertex, task: Task) -> Execution:
    copy = vertex.create(task.launched_at, speculative=task.speculative).to(ExecutionState.SCHEDULED)
    vertex.put(copy)
    return copy
