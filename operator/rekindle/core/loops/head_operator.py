"""The head of a loop: it decides that its loop is done.

It stands where feedback enters the feedback channel (`S10-21`); what it emits goes into that channel, behind the data
that is there, to the entry of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from rekindle.core.loops.alignment import Alignment, ProtocolViolation
from rekindle.core.loops.scopes import StreamScope
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt


@dataclass(frozen=True, slots=True)
class HeadOperator:
    """Type 1.

    Attributes:
        scope: of its loop.
        inputs: the channels that feed back.
        attempt_id: of its own attempt that is under way; 0 before the first (`S10-14`).
        saw_data: data went through since its own attempt began, or since one of an outer scope visited it.
        terminated: its scope is complete.
    """

    scope: StreamScope
    inputs: Alignment
    attempt_id: int = 0
    saw_data: bool = False
    terminated: bool = False

    @classmethod
    def of(cls, scope: StreamScope, channels: frozenset[str]) -> Self:
        return cls(scope, Alignment(scope.level, channels))

    def on_data(self, channel: str) -> Step[Self]:
        """Data arrives, and goes on into the feedback channel. Raises ProtocolViolation once the scope is complete."""
        if self.terminated:
            raise ProtocolViolation(f"loop '{self.scope}' is complete, and channel '{channel}' feeds data back")
        return Step(replace(self, saw_data=True))

    def on_attempt(self, channel: str, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        """`status` is that of the feedback channel, now."""
        inputs, aligned = self.inputs.receive(channel, attempt)
        after = replace(self, inputs=inputs)
        if aligned is None or self.terminated:
            return Step(after)
        if aligned.scope != self.scope:
            return after._visited(aligned, status)
        if self.attempt_id == 0:
            return after._attempt(status)
        return after._returned(aligned, status)

    def _visited(self, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        """An outer scope's attempt has been round the loop, or is on its way out and has come by here (`S10-13`)."""
        if attempt.completed_level is not None:
            return Step(self)
        since = OperatorStatus.BUSY if self.saw_data else OperatorStatus.IDLE
        level = self.scope.level
        collected = replace(attempt.adding(status).adding(since), visited_level=level, completed_level=level)
        return Step(replace(self, saw_data=False), (collected,))

    def _attempt(self, status: OperatorStatus) -> Step[Self]:
        """ATTEMPTING, with the next id (`S10-14`, `S10-16`)."""
        after = replace(self, attempt_id=self.attempt_id + 1, saw_data=False)
        return Step(after, (TerminationAttempt(self.scope, after.attempt_id, self.scope.level, None, status),))

    def _returned(self, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        """The own attempt is back (`S10-15`)."""
        if attempt.attempt_id != self.attempt_id:
            return Step(self)
        if self.saw_data or attempt.adding(status).status is OperatorStatus.BUSY:
            return self._attempt(status)
        return Step(replace(self, terminated=True), (TerminationAttempt.completion(self.scope, self.attempt_id),))
