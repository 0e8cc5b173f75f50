"""A stage of a running driver as the core sees it: a job vertex, whose attempts are Spark's own.

It is made anew at each look, from what the driver tells of it: detectors keep no state, and nothing that was missed
or told twice stays. Only what its finished tasks make of it is kept, for as long as they are the same ones: there are
a thousand of them for each that runs.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rekindle.controller.speculation.spark_rest import Stage, Task
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import NO_NODE, ExecutionAttemptID
from rekindle.core.job_graph import JobVertex
from rekindle.core.skew import Typical, Work

MOST_ATTEMPTS = 8

NOWHERE = NO_NODE[1]


@dataclass(frozen=True, slots=True)
class SeenStage:
    """A stage, which of Spark's tasks each attempt is, and what its finished ones have taken and read."""

    vertex: ExecutionJobVertex
    tasks: Mapping[ExecutionAttemptID, Task]
    typical: Typical

    @property
    def name(self) -> str:
        """Of its job vertex."""
        return self.vertex.job_vertex.name


@dataclass(frozen=True, slots=True)
class SeenStages:
    """What a slow-task detector looks at (`core.slow_tasks.GraphView`)."""

    stages: Sequence[SeenStage]

    def execution_job_vertices(self) -> Sequence[ExecutionJobVertex]:
        """One for each stage."""
        return [stage.vertex for stage in self.stages]


class FinishedPart:
    """What these finished tasks make of a stage; it does not change, and running ones are put beside it.

    Of several tasks of a partition the first counts. `told` is given as it is: the same list is the same tasks.
    """

    def __init__(
        self, stage: Stage, told: Sequence[Task], nodes: Mapping[str, str], blank: ExecutionJobVertex | None = None
    ) -> None:
        """`blank`: what `FinishedPart.blank` of the same stage was, so that it need not be made again."""
        self._told, self._nodes = told, dict(nodes)
        if blank is None or blank.parallelism != stage.tasks:
            blank = ExecutionJobVertex.create(JobVertex(f"stage {stage.key}", stage.tasks))
        self.blank = blank
        """The stage before any of its tasks. It is shared, and never changed."""

        self._tasks: dict[ExecutionAttemptID, Task] = {}
        self._first_end: dict[int, float] = {}
        kept = _each_once(told, stage)
        changing = _with_new(blank.tasks, {task.index for task in kept})
        self._vertex = ExecutionJobVertex(blank.job_vertex, changing, blank.pending.copy())
        for task in sorted(kept, key=lambda one: (ended_at(one), one.attempt)):
            if not self._vertex.tasks[task.index].is_finished:
                execution = _deployed(self._vertex, task, nodes, task.input_bytes)
                self._vertex.admit(execution, ended_at(task))
                self._tasks[execution.attempt_id] = task
                self._first_end[task.index] = ended_at(task)
        self.placed = sum(1 for one in self._tasks.values() if one.seconds and one.executor in nodes)
        """How many of those that count are on known nodes."""

        self._input = median([one.input_bytes for one in kept if one.input_bytes is not None] or [0])
        self._typical = Typical.of([work_of(one, one.seconds or 0.0) for one in self._tasks.values()])

    def is_of(self, stage: Stage, told: Sequence[Task], nodes: Mapping[str, str]) -> bool:
        """Whether it would be made of the same."""
        return told is self._told and nodes == self._nodes and stage.tasks == self._vertex.parallelism

    @property
    def alone(self) -> SeenStage:
        """Without what runs. To be looked at only."""
        return SeenStage(self._vertex, self._tasks, self._typical)

    def beside(self, running: Iterable[Task], stage: Stage, nodes: Mapping[str, str]) -> SeenStage:
        """With what runs; what runs beside a task that has finished does not count.

        Where one was launched after that, what the first has made is lost, and it counts no more.
        """
        live = _each_once(running, stage)
        launched: dict[int, float] = {}
        for task in live:
            launched[task.index] = max(task.launched_at, launched.get(task.index, 0.0))
        if any(at > self._first_end.get(index, math.inf) for index, at in launched.items()):
            left = [one for one in self._told if launched.get(one.index, 0.0) <= ended_at(one)]
            return FinishedPart(stage, left, self._nodes, self.blank).beside(running, stage, nodes)
        there = self._vertex
        tasks = _with_new(there.tasks, launched)
        vertex = ExecutionJobVertex(
            there.job_vertex, tasks, there.pending.copy(), there.finished, there.finishing_order
        )
        told = self._tasks.copy()
        for task in sorted(live, key=lambda one: (one.launched_at, one.attempt)):
            if not vertex.tasks[task.index].is_finished:
                told[_deployed(vertex, task, nodes, _to_read(task, self._input)).attempt_id] = task
        return SeenStage(vertex, told, self._typical)


def _with_new(tasks: Sequence[ExecutionVertex], subtasks: Iterable[int]) -> tuple[ExecutionVertex, ...]:
    """Of these subtasks those that have not finished are new, so that they may change; all others are shared."""
    found = list(tasks)
    for subtask in subtasks:
        if not found[subtask].is_finished:
            found[subtask] = ExecutionVertex(found[subtask].id, 0.0)
    return tuple(found)


def seen_stage(stage: Stage, finished: Sequence[Task], running: Iterable[Task], nodes: Mapping[str, str]) -> SeenStage:
    """The stage with these tasks; `nodes`: [executor -> node], of an executor that is not there it is not known."""
    return FinishedPart(stage, finished, nodes).beside(running, stage, nodes)


def work_of(task: Task, seconds: float) -> Work:
    """What a task has done in so many seconds."""
    return Work(seconds, task.input_bytes, task.input_records)


def _each_once(tasks: Iterable[Task], stage: Stage) -> list[Task]:
    """The newest attempts of each index; Spark makes two at once, and a driver may tell of as many as it likes.

    A task that starts or ends between two pages of an answer moves the others, and one may be on both.
    """
    by_index: dict[int, dict[int, Task]] = {}
    for one in tasks:
        if one.index < stage.tasks:
            by_index.setdefault(one.index, {})[one.attempt] = one
    return [attempts[number] for attempts in by_index.values() for number in heapq.nlargest(MOST_ATTEMPTS, attempts)]


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
