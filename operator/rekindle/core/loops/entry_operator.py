"""How the operator ends through which data enters a loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from rekindle.core.loops.alignment import Alignment
from rekindle.core.loops.scopes import StreamScope
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt


@dataclass(frozen=True, slots=True)
class EntryOperator:
    """Type 2: reads what enters a loop, and what the loop's head feeds back (`S10-12`).

    Attributes:
        scope: of its loop.
        inputs: the channels from outside.
        feedback: the one from the head.
        current: what it has sent into the loop last, with the status that it has collected.
        held: a pass that waits until its attempt has been round the loop.
        terminated: it has ended, and sends nothing more.
    """

    scope: StreamScope
    inputs: Alignment
    feedback: Alignment
    current: TerminationAttempt | None = None
    held: TerminationAttempt | None = None
    terminated: bool = False

    @classmethod
    def of(cls, scope: StreamScope, channels: frozenset[str], feedback: str) -> Self:
        return cls(scope, Alignment(scope.level - 1, channels), Alignment(scope.level, frozenset({feedback})))

    def on_data(self, channel: str) -> Step[Self]:
        """Data arrives. Raises ProtocolViolation after the end of the channel."""
        (self.feedback if channel in self.feedback.channels else self.inputs).check_open(channel)
        return Step(self)

    def on_attempt(self, channel: str, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        """`status` is the operator's own, now."""
        if channel in self.feedback.channels:
            feedback, aligned = self.feedback.receive(channel, attempt)
            after = replace(self, feedback=feedback)
            return Step(after) if aligned is None else after._from_head(aligned, status)
        inputs, aligned = self.inputs.receive(channel, attempt)
        after = replace(self, inputs=inputs)
        return Step(after) if aligned is None else after._from_outside(aligned, status)

    def _from_outside(self, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        if attempt.ends(self.inputs.level):  # all around have ended: the own scope is the outermost that has not
            first = TerminationAttempt(self.scope, 0, self.scope.level, None, OperatorStatus.IDLE)
            return replace(self, held=None)._send([first], status)
        if self._has_been_round(attempt):
            return self._send([attempt], status)
        on_its_way_in = replace(attempt, completed_level=None)
        held = None if attempt == on_its_way_in else attempt
        return replace(self, held=held)._send([] if self._has_begun(attempt) else [on_its_way_in], status)

    def _from_head(self, attempt: TerminationAttempt, status: OperatorStatus) -> Step[Self]:
        if attempt.ends(self.scope.level):
            ended = replace(self, terminated=True)
            return Step(ended, (TerminationAttempt.completion(self.scope, attempt.attempt_id),))
        if self.current is not None and attempt.round < self.current.round:
            return Step(self)
        released = [] if self.held is None else [self.held]
        return replace(self, held=None)._send([attempt, *released], status)

    def _send(self, attempts: list[TerminationAttempt], status: OperatorStatus) -> Step[Self]:
        """Into the loop, with all that was collected for the attempt so far."""
        current, emit = self.current, list[TerminationAttempt]()
        for attempt in attempts:
            known = attempt if current is None or current.round != attempt.round else attempt.adding(current.status)
            current = replace(known.adding(status), visited_level=self.scope.level)
            emit.append(current)
        return Step(replace(self, current=current), tuple(emit))

    def _has_begun(self, attempt: TerminationAttempt) -> bool:
        return self.current is not None and self.current.round == attempt.round

    def _has_been_round(self, attempt: TerminationAttempt) -> bool:
        newest = self.feedback.newest
        return newest is not None and newest.round == attempt.round
