"""How an operator ends that is neither head nor entry of a loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from rekindle.core.loops.alignment import Alignment
from rekindle.core.loops.scopes import StreamScope
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt


@dataclass(frozen=True, slots=True)
class RegularOperator:
    """Type 3: neither head nor entry of a loop (`S10-11`). With the default scope it is in no loop (`S10-1`).

    Attributes:
        terminated: it has ended, and sends nothing more.
    """

    scope: StreamScope
    inputs: Alignment
    terminated: bool = False

    @classmethod
    def of(cls, scope: StreamScope, channels: frozenset[str]) -> Self:
        return cls(scope, Alignment(scope.level, channels))

    def on_data(self, channel: str) -> Step[Self]:
        """Data arrives. Raises ProtocolViolation after the end of the channel."""
        self.inputs.check_open(channel)
        return Step(self)

    def on_attempt(self, channel: str, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        """`status` is the operator's own, now."""
        inputs, aligned = self.inputs.receive(channel, attempt)
        if aligned is None:
            return Step(replace(self, inputs=inputs))
        if aligned.ends(self.scope.level):
            after = replace(self, inputs=inputs)
            return after.on_idle() if status is OperatorStatus.IDLE else Step(after)
        visited = replace(self, inputs=inputs.adding(status))
        return Step(visited, (replace(aligned.adding(status), visited_level=self.scope.level),))

    def on_idle(self) -> Step[Self]:
        """The operator has nothing to do any more: if nothing can come either, it ends."""
        newest = self.inputs.newest
        if self.terminated or newest is None or not self.inputs.has_ended:
            return Step(self)
        ended = replace(self, terminated=True)
        return Step(ended, (TerminationAttempt.completion(self.scope, newest.attempt_id),))
