"""One execution: its states, and the steps between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rekindle.core.ids import ExecutionAttemptID


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
