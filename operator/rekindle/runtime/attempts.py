"""Which of Spark's task attempts is which attempt of the core's.

The core numbers the attempts of an execution vertex; Spark numbers tasks, and retries a failed task by
itself. A copy's task is the attempt the copy was made for. Any other task takes the oldest live attempt of
its vertex that no live task stands for; where there is none, Spark runs something nobody asked for (its own
speculation of a result task). Such a task becomes the next copy that the core asks for; until then it stays
unbound, as it does where a copy is on its way already. If it commits first, that is as good: where there is a copy,
a copy has won.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import SparkJob, TaskView
from rekindle.runtime.stage_run import CopyJob


@dataclass
class AttemptBindings:
    """[Spark task id -> attempt], and back, for this driver."""

    _attempts: dict[int, ExecutionAttemptID] = field(default_factory=dict)
    _tasks: dict[ExecutionAttemptID, TaskView] = field(default_factory=dict)
    _nodes: dict[int, str] = field(default_factory=dict)
    _failed: set[int] = field(default_factory=set)
    _of_jobs: dict[SparkJob, list[ExecutionAttemptID]] = field(default_factory=dict)

    def attempt_of(self, task: int) -> ExecutionAttemptID | None:
        """What a task stands for, by Spark's id of it."""
        return self._attempts.get(task)

    def task_of(self, attempt: ExecutionAttemptID) -> int | None:
        """Spark's id of the task that runs `attempt`, None when it was not seen running."""
        task = self._tasks.get(attempt)
        return task.task if task else None

    def started_at(self, attempt: ExecutionAttemptID) -> float | None:
        """When its task was launched, in epoch seconds of the driver; None when no task is known."""
        task = self._tasks.get(attempt)
        return task.started_at if task else None

    def node_of(self, task: int) -> str | None:
        return self._nodes.get(task)

    def first_failure(self, task: TaskView) -> bool:
        """True once per failed task."""
        if task.task in self._failed:
            return False
        self._failed.add(task.task)
        return True

    def cancelled_jobs(self) -> list[SparkJob]:
        """Those with attempts that were not taken from them yet."""
        return [job for job in self._of_jobs if job.cancelled]

    def take_from(self, job: SparkJob) -> list[ExecutionAttemptID]:
        """The attempts that tasks of `job` stood for, which is over."""
        return self._of_jobs.pop(job, [])

    def bind(
        self, task: TaskView, stage: str, job: SparkJob, copies: Sequence[CopyJob], core: ExecutionGraph
    ) -> ExecutionAttemptID | None:
        """The attempt that `task` of `job` now stands for, or None when it stands for none; `copies`: of the stage."""
        self._nodes[task.task] = task.node
        vertex = ExecutionVertexID(stage, task.partition)
        jobs = {copy.attempt: copy.job for copy in copies if copy.partition == task.partition}
        its_own = job if any(copy.job is job for copy in copies) else None  # the stage's has none for an attempt
        wanted = [one for one in self._free(vertex, core) if jobs.get(one.attempt) is its_own]
        if not wanted:
            return None
        self.adopt(task, job, wanted[0])
        return wanted[0]

    def adopt(self, task: TaskView, job: SparkJob, attempt: ExecutionAttemptID) -> None:
        """From now on `task` of `job` stands for `attempt`."""
        self._attempts[task.task] = attempt
        self._tasks[attempt] = task
        self._of_jobs.setdefault(job, []).append(attempt)

    def winner(
        self, manifest: Manifest, core: ExecutionGraph, vertex: ExecutionVertexID, *, ours: bool
    ) -> ExecutionAttemptID | None:
        """The attempt that committed a manifest.

        A task of this driver that stands for no attempt takes the oldest live one whose task was not seen; where there
        is none, Spark's own speculation was the quickest, and it takes the copy. Others' take the oldest live one.

        Args:
            ours: the manifest was written by a task of this driver.
        """
        if ours and manifest.task in self._attempts:
            return self._attempts[manifest.task]
        unseen = self._free(vertex, core) if ours else []
        candidates = unseen or _live(vertex, core, copies_first=ours)
        return candidates[0] if candidates else None

    def is_bound(self, task: int) -> bool:
        """Whether `task` stands for an attempt."""
        return task in self._attempts

    def _free(self, vertex: ExecutionVertexID, core: ExecutionGraph) -> list[ExecutionAttemptID]:
        return [attempt for attempt in _live(vertex, core) if attempt not in self._tasks]


def _live(vertex: ExecutionVertexID, core: ExecutionGraph, *, copies_first: bool = False) -> list[ExecutionAttemptID]:
    """Attempts that may still finish, oldest first; or first the copies."""
    live = [one for one in core.current_executions(vertex) if not one.state.is_terminal]
    live.sort(key=lambda one: (copies_first and not one.speculative, one.attempt_id))
    return [one.attempt_id for one in live]
