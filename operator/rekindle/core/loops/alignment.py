"""Alignment: an operator that reads several channels passes an attempt on when all have brought it (`S10-5`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt


class ProtocolViolation(AssertionError):
    """Something arrived that cannot: a defect of a runtime or of this package, never of a user's loop."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What has arrived on the channels of one operator.

    Attributes:
        level: the scope level of what is read.
        channels: all that are read.
        newest: the newest attempt that any has brought, with the status that all have brought with it. A status stays
            with its attempt, so that it is told again with each level that the attempt completes.
        arrived: the channels that have brought it.
    """

    level: int
    channels: frozenset[str]
    newest: TerminationAttempt | None = None
    arrived: frozenset[str] = frozenset()

    def receive(self, channel: str, attempt: TerminationAttempt) -> tuple[Alignment, TerminationAttempt | None]:
        """What is so now, and the attempt if all channels have brought it with this. Older ones are ignored
        (`S10-18`)."""
        seen = attempt.seen_from(self.level)
        if seen is None or self._is_stale(channel, seen):
            return self, None
        if self.newest is not None and self.newest.round == seen.round:
            seen = seen.adding(self.newest.status)
        fresh = self.newest is None or seen.order(self.level) != self.newest.order(self.level)
        after = replace(self, newest=seen, arrived=frozenset({channel}) | (frozenset() if fresh else self.arrived))
        return after, seen if after.is_complete else None

    def adding(self, status: OperatorStatus) -> Alignment:
        """The operator's own status goes with the newest attempt from now on."""
        return self if self.newest is None else replace(self, newest=self.newest.adding(status))

    def check_open(self, channel: str) -> None:
        """Raises ProtocolViolation where a channel brings data that has said it brings no more."""
        if self.newest is not None and self.newest.ends(self.level) and channel in self.arrived:
            raise ProtocolViolation(f"channel '{channel}' brings data after its end")

    @property
    def is_complete(self) -> bool:
        return self.arrived == self.channels

    @property
    def has_ended(self) -> bool:
        """Whether nothing can come on any channel any more."""
        return self.is_complete and self.newest is not None and self.newest.ends(self.level)

    def _is_stale(self, channel: str, seen: TerminationAttempt) -> bool:
        if self.newest is None:
            return False
        known, order = self.newest.order(self.level), seen.order(self.level)
        return order < known or (order == known and channel in self.arrived)
