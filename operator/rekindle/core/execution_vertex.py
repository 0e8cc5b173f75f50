"""An execution vertex: it may have several current executions (S2-15).

Attempts are equals (S2-2). The first to finish is admitted and never given up again for a sibling's fate
(S2-35); only a reset takes it back. A vertex is never without a current execution (S2-33).
"""

from __future__ import annotations

from rekindle.core.execution import Execution, ExecutionState, InvariantViolation
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID

_PRIORITY = {state: rank for rank, state in enumerate(ExecutionState)}


class ExecutionVertex:
    """One subtask and its executions (FLIP-168's SpeculativeExecutionVertex).

    Attributes:
        version: of the partition that its current executions write; a reset raises it.
    """

    __slots__ = ("_current", "_next_attempt", "_past", "id", "version")

    def __init__(self, vertex_id: ExecutionVertexID, created_at: float, version: int = 1, attempt: int = 0) -> None:
        self.id = vertex_id
        self.version = version
        self._next_attempt = attempt
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
    def next_attempt(self) -> int:
        """The number of the attempt that is created next."""
        return self._next_attempt

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
