"""A stage of a running driver as the core sees it: a job vertex, whose attempts are Spark's own.

It is made anew at each look, from what the driver tells of it: detectors keep no state, and nothing that was missed
or told twice stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rekindle.controller.speculation.spark_rest import Stage, Task
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import NO_NODE, ExecutionAttemptID
from rekindle.core.job_graph import JobVertex

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

    Of several tasks of a partition that have finished the first counts, and what still runs beside it does not.
    """
    name = f"stage {stage.key.stage_id}.{stage.key.attempt}"
    vertex = ExecutionJobVertex.create(JobVertex(name, stage.tasks))
    told: dict[ExecutionAttemptID, Task] = {}
    for task in sorted(finished, key=lambda one: one.launched_at + (one.seconds or 0.0)):
        if task.index < stage.tasks and not vertex.tasks[task.index].is_finished:
            attempt = _deployed(vertex, task, nodes)
            execution = vertex.tasks[task.index].current(attempt)
            assert execution is not None
            vertex.admit(execution, task.launched_at + (task.seconds or 0.0))
            told[attempt] = task
    for task in sorted(running, key=lambda one: one.launched_at):
        if task.index < stage.tasks and not vertex.tasks[task.index].is_finished:
            told[_deployed(vertex, task, nodes)] = task
    return SeenStage(vertex, told)


def _deployed(vertex: ExecutionJobVertex, task: Task, nodes: Mapping[str, str]) -> ExecutionAttemptID:
    """The attempt that the task is, as it was when it was launched."""
    there = vertex.tasks[task.index]
    scheduled = vertex.schedule(task.index) if task.index in vertex.pending else _copy(there, task)
    deployed = scheduled.deployed(nodes.get(task.executor, NOWHERE), task.launched_at, task.input_bytes)
    there.put(deployed)
    return deployed.attempt_id


def _copy(vertex: ExecutionVertex, task: Task) -> Execution:
    copy = vertex.create(task.launched_at, speculative=task.speculative).to(ExecutionState.SCHEDULED)
    vertex.put(copy)
    return copy
