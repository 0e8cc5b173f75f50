"""Executions, and the vertices that hold them: an execution vertex may have several current ones (S2-15).

Attempts are equals (S2-2). The first to finish is admitted and never given up again for a sibling's fate
(S2-35); only a reset takes it back. A vertex is never without a current execution (S2-33).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_graph import JobVertex


class InvariantViolation(AssertionError):
    """The state contradicts itself: a defect of the core, never of its input."""


class ExecutionState(StrEnum):
    """States of an execution, the likelier to finish the earlier (S2-21, S2-23)."""

    FINISHED = "FINISHED"
    RUNNING = "RUNNING"
    INITIALIZING = "INITIALIZING"
    DEPLOYING = "DEPLOYING"
    SCHEDULED = "SCHEDULED"
    CREATED = "CREATED"
    CANCELING = "CANCELING"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL

    @property
    def can_finish(self) -> bool:
        """S2-29. FINISHED is among them."""
        return self in _CAN_FINISH

    @property
    def is_running(self) -> bool:
        """Whether the clock of its execution time is going (S1-16)."""
        return self in _RUNNING


_TERMINAL = frozenset({ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED})
_RUNNING = frozenset({ExecutionState.RUNNING, ExecutionState.INITIALIZING, ExecutionState.DEPLOYING})
_CAN_FINISH = _RUNNING | {ExecutionState.FINISHED, ExecutionState.SCHEDULED, ExecutionState.CREATED}
_PRIORITY = {state: rank for rank, state in enumerate(ExecutionState)}

_ENDS = {ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED, ExecutionState.CANCELING}
_NEXT: dict[ExecutionState, set[ExecutionState]] = {
    ExecutionState.CREATED: {ExecutionState.SCHEDULED, ExecutionState.CANCELED},
    ExecutionState.SCHEDULED: _ENDS | _RUNNING,
    ExecutionState.DEPLOYING: _ENDS | {ExecutionState.INITIALIZING, ExecutionState.RUNNING},
    ExecutionState.INITIALIZING: _ENDS | {ExecutionState.RUNNING},
    ExecutionState.RUNNING: _ENDS,
    ExecutionState.CANCELING: {ExecutionState.CANCELED},
    # A failed or cancelled attempt may have committed before it was lost; commits are the truth.
    ExecutionState.FAILED: {ExecutionState.FINISHED},
    ExecutionState.CANCELED: {ExecutionState.FINISHED},
    ExecutionState.FINISHED: set(),
}


@dataclass(frozen=True, slots=True)
class Execution:
    """One attempt, as it is now.

    Attributes:
        created_at, deployed_at, finished_at: timestamps of CREATED, DEPLOYING and FINISHED.
        node: where it was deployed, None before.
        input_bytes: how much it has to read, None where that is not known.
        speculative: it is a copy.
    """

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    created_at: float
    speculative: bool = False
    deployed_at: float | None = None
    finished_at: float | None = None
    node: str | None = None
    input_bytes: int | None = None

    def execution_time(self, now: float) -> float:
        """Seconds from DEPLOYING to FINISHED, or to `now` while it runs; else 0 (S1-15 to S1-17)."""
        if self.deployed_at is None:
            return 0.0
        if self.state is ExecutionState.FINISHED and self.finished_at is not None:
            return self.finished_at - self.deployed_at
        return now - self.deployed_at if self.state.is_running else 0.0

    def to(self, state: ExecutionState) -> Execution:
        """Raises InvariantViolation for a step that no execution takes."""
        return self._as(state, self.deployed_at, self.finished_at, self.node, self.input_bytes)

    def deployed(self, node: str, at: float, input_bytes: int | None = None) -> Execution:
        return self._as(ExecutionState.RUNNING, at, self.finished_at, node, input_bytes)

    def finished(self, at: float) -> Execution:
        return self._as(ExecutionState.FINISHED, self.deployed_at, at, self.node, self.input_bytes)

    def _as(
        self,
        state: ExecutionState,
        deployed_at: float | None,
        finished_at: float | None,
        node: str | None,
        input_bytes: int | None,
    ) -> Execution:
        """A later state of this one; written out, as `replace` takes five times as long."""
        if state not in _NEXT[self.state]:
            raise InvariantViolation(f"{self.attempt_id} cannot go from {self.state} to {state}")
        return Execution(
            self.attempt_id, state, self.created_at, self.speculative, deployed_at, finished_at, node, input_bytes
        )


class ExecutionVertex:
    """One subtask and its executions (FLIP-168's SpeculativeExecutionVertex).

    Attributes:
        version: of the partition that its current executions write; a reset raises it.
    """

    __slots__ = ("_current", "_next_attempt", "_past", "id", "version")

    def __init__(self, vertex_id: ExecutionVertexID, created_at: float) -> None:
        self.id = vertex_id
        self.version = 1
        self._next_attempt = 0
        self._current: dict[int, Execution] = {}  # [attempt -> execution], oldest first
        self._past: dict[int, Execution] = {}  # the same, of this version, no longer current
        self.create(created_at, speculative=False)

    @property
    def executions(self) -> tuple[Execution, ...]:
        """The current executions, oldest first."""
        return tuple(self._current.values())

    @property
    def representative(self) -> Execution:
        """The current execution of the highest rank; among equals the one created first (S2-20 to S2-22)."""
        if not self.has_siblings:
            return next(iter(self._current.values()))
        return min(self._current.values(), key=lambda one: (_PRIORITY[one.state], one.attempt_id.attempt))

    @property
    def has_siblings(self) -> bool:
        """Whether there is more than one current execution."""
        return len(self._current) > 1

    @property
    def live(self) -> tuple[Execution, ...]:
        """Current executions that may still finish, and have not."""
        return tuple(one for one in self.executions if one.state.can_finish and not one.state.is_terminal)

    @property
    def can_finish(self) -> bool:
        return any(one.state.can_finish for one in self._current.values())

    @property
    def is_finished(self) -> bool:
        return any(one.state is ExecutionState.FINISHED for one in self._current.values())

    def current(self, attempt: ExecutionAttemptID) -> Execution | None:
        """The current execution of that id, None when it is not current."""
        return self._current.get(attempt.attempt)

    def of_this_version(self, attempt: ExecutionAttemptID) -> Execution | None:
        """The execution of that id, current or past, if what it writes is still valid."""
        return self._current.get(attempt.attempt) or self._past.get(attempt.attempt)

    def create(self, now: float, *, speculative: bool) -> Execution:
        """A new execution in CREATED, added to the current ones (S2-16)."""
        attempt = ExecutionAttemptID(self.id, self._next_attempt)
        self._next_attempt += 1
        self._current[attempt.attempt] = Execution(attempt, ExecutionState.CREATED, now, speculative)
        return self._current[attempt.attempt]

    def put(self, execution: Execution) -> None:
        """The new state of an execution of this version."""
        self._current[execution.attempt_id.attempt] = execution
        if self._past.pop(execution.attempt_id.attempt, None) is not None:
            self._current = dict(sorted(self._current.items()))

    def drop(self, attempt: ExecutionAttemptID) -> None:
        """An ended execution leaves and makes room for a copy; the last one stays (S2-32, S2-33).

        Raises InvariantViolation for one that has not ended.
        """
        if not self._current[attempt.attempt].state.is_terminal:
            raise InvariantViolation(f"{attempt} has not ended and cannot leave")
        if self.has_siblings:
            self._past[attempt.attempt] = self._current.pop(attempt.attempt)

    def retry(self, now: float) -> Execution:
        """A new original in place of all executions, of the same version: what they wrote stays valid."""
        self._past |= self._current
        self._current = {}
        return self.create(now, speculative=False)

    def reset(self, now: float) -> Execution:
        """A new original and a new version: what was written is void (S2-24, S7-17)."""
        self.version += 1
        self._current, self._past = {}, {}
        return self.create(now, speculative=False)

    def validate(self) -> None:
        if not self._current:
            raise InvariantViolation(f"{self.id} has no current execution")
        finished = [one for one in self.executions if one.state is ExecutionState.FINISHED]
        if len(finished) > 1:
            raise InvariantViolation(f"{self.id} has {len(finished)} finished executions")
        if finished and self.live:
            raise InvariantViolation(f"{self.id} has finished, and {self.live[0].attempt_id} still runs")
        if self._current.keys() & self._past.keys() or max(self._current) >= self._next_attempt:
            raise InvariantViolation(f"{self.id}: an attempt number is used twice")


class FinishingOrder:
    """Execution times of the finished subtasks of a job vertex, the first to finish first (S1-23).

    Who finishes next is nearly always the last so far, and does not move the median of the first (S1-12): neither
    is worked out again for it.
    """

    def __init__(self) -> None:
        self._order: list[tuple[float, int, float | None]] = []  # (finished at, subtask, seconds or not known)
        self._reset: set[int] = set()  # subtasks still in the order that have finished no longer
        self._typical: dict[int, float] = {}  # [how many of the first -> the median of their seconds]

    def add(self, execution: Execution) -> None:
        """Of a finished execution."""
        self._leave_out_reset()
        assert execution.finished_at is not None
        seconds = None if execution.deployed_at is None else execution.finished_at - execution.deployed_at
        entry = (execution.finished_at, execution.attempt_id.vertex_id.subtask, seconds)
        if not self._order or self._order[-1] < entry:
            self._order.append(entry)
        else:
            insort(self._order, entry)
            self._typical.clear()

    def reset(self, subtask: int) -> None:
        self._reset.add(subtask)
        self._typical.clear()

    def typical(self, first: int) -> float:
        """The median execution time of the `first` to finish, in seconds; 0 where none was seen to be deployed.

        Raises ValueError when fewer have finished.
        """
        self._leave_out_reset()
        if first > len(self._order):
            raise ValueError(f"{len(self._order)} have finished, {first} are asked about")
        if first not in self._typical:
            times = [seconds for _, _, seconds in self._order[:first] if seconds is not None]
            self._typical[first] = median(times) if times else 0.0
        return self._typical[first]

    def _leave_out_reset(self) -> None:
        """All at once: a restart resets subtasks by the thousand."""
        if self._reset:
            self._order = [entry for entry in self._order if entry[1] not in self._reset]
            self._reset.clear()


@dataclass(slots=True)
class ExecutionJobVertex:
    """A job vertex at run time: its subtasks, and which of them wait or have finished.

    Attributes:
        pending: subtasks with nothing deployed.
        finished: subtasks with an admitted execution.
        finishing_order: and how long these took.
    """

    job_vertex: JobVertex
    tasks: tuple[ExecutionVertex, ...]
    pending: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    finishing_order: FinishingOrder = field(default_factory=FinishingOrder)

    @classmethod
    def create(cls, vertex: JobVertex) -> ExecutionJobVertex:
        subtasks = range(vertex.parallelism)
        tasks = tuple(ExecutionVertex(ExecutionVertexID(vertex.name, subtask), 0.0) for subtask in subtasks)
        return cls(vertex, tasks, pending=set(subtasks))

    @property
    def parallelism(self) -> int:
        return self.job_vertex.parallelism

    @property
    def is_finished(self) -> bool:
        return len(self.finished) == len(self.tasks)

    @property
    def unfinished(self) -> set[int]:
        return set(range(len(self.tasks))) - self.finished

    @property
    def started(self) -> set[int]:
        """Subtasks that are deployed or have finished (S7-9: the others are left alone)."""
        return set(range(len(self.tasks))) - self.pending

    @property
    def waiting_again(self) -> set[int]:
        """Pending subtasks that were reset: somebody may have read what they made before."""
        return {subtask for subtask in self.pending if self.tasks[subtask].version > 1}

    def schedule(self, subtask: int) -> Execution:
        """Its one CREATED execution becomes SCHEDULED."""
        task = self.tasks[subtask]
        self.pending.remove(subtask)
        task.put(task.representative.to(ExecutionState.SCHEDULED))
        return task.representative

    def admit(self, execution: Execution, at: float) -> Execution:
        """The execution finishes, and with it its vertex (S2-3)."""
        vertex_id = execution.attempt_id.vertex_id
        finished = execution.finished(at)
        self.tasks[vertex_id.subtask].put(finished)
        self.pending.discard(vertex_id.subtask)
        self.finished.add(vertex_id.subtask)
        self.finishing_order.add(finished)
        return finished

    def reset(self, subtask: int, now: float) -> None:
        self.tasks[subtask].reset(now)
        if subtask in self.finished:
            self.finished.remove(subtask)
            self.finishing_order.reset(subtask)
        self.pending.add(subtask)

    def retry(self, subtask: int, now: float) -> None:
        self.tasks[subtask].retry(now)
        self.pending.add(subtask)


class ExecutionVertices:
    """All job vertices of a job at run time, in topological order."""

    def __init__(self, vertices: Iterable[JobVertex]) -> None:
        self._by_name = {vertex.name: ExecutionJobVertex.create(vertex) for vertex in vertices}

    def __getitem__(self, name: str) -> ExecutionJobVertex:
        return self._by_name[name]

    def __iter__(self) -> Iterator[ExecutionJobVertex]:
        return iter(self._by_name.values())

    def created(self, now: float) -> None:
        """The job begins: this is when the first executions were created."""
        for vertex in self:
            for task in vertex.tasks:
                task.put(replace(task.representative, created_at=now))

    def task(self, vertex_id: ExecutionVertexID) -> ExecutionVertex:
        """Raises KeyError for an id that is not of this job."""
        task = self.find(vertex_id)
        if task is None:
            raise KeyError(f"{vertex_id} is no execution vertex of this job")
        return task

    def find(self, vertex_id: ExecutionVertexID) -> ExecutionVertex | None:
        vertex = self._by_name.get(vertex_id.vertex)
        known = vertex is not None and 0 <= vertex_id.subtask < vertex.parallelism
        return vertex.tasks[vertex_id.subtask] if vertex is not None and known else None
