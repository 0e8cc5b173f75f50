"""The baton of the termination protocol (FLIP-15, part III): what goes from operator to operator, in order with data.

An attempt of a scope visits the scope's operators and, in the loops within it, each operator more than once: first on
its way in, then again for each level that has been collected, so that what comes out of a loop has seen all of it. How
far it is, is its completed level:

    None         on its way in
    m > level    the loop at level m that it went through has been collected
    its level    the scope itself is complete: its operators end

`level` is that of the scope. Levels are completed from the inner to the outer ones, so they fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from rekindle.core.loops.scopes import StreamScope


class OperatorStatus(StrEnum):
    """Of one operator, or of all that an attempt has visited.

    BUSY is an operator with input that it has not processed, output that it has not sent, or work of its own that may
    still make some; a feedback channel that holds data, in memory or spilled; and a head through which data went since
    it was visited last (`S10-23`).
    """

    IDLE = "IDLE"
    BUSY = "BUSY"

    def and_of(self, other: OperatorStatus) -> OperatorStatus:
        """BUSY if any is (`S10-17`)."""
        return OperatorStatus.BUSY if OperatorStatus.BUSY in (self, other) else OperatorStatus.IDLE


@dataclass(frozen=True, slots=True)
class TerminationAttempt:
    """An attempt to end a scope, on its way (`S10-7`).

    Attributes:
        scope: whose attempt it is; None where no loop has taken it up yet.
        attempt_id: rises with each attempt of that scope.
        visited_level: scope level of the operator that it comes from.
        completed_level: the scope level that was completed last, None before the first.
        status: of all that it has visited.
    """

    scope: StreamScope | None
    attempt_id: int
    visited_level: int
    completed_level: int | None
    status: OperatorStatus

    @classmethod
    def of_source(cls) -> Self:
        """What a regular source broadcasts at its end of stream (`S10-9`)."""
        return cls(None, 0, 0, 0, OperatorStatus.IDLE)

    @classmethod
    def completion(cls, scope: StreamScope, attempt_id: int) -> Self:
        """A scope is complete. Outside of all loops that is what sources say (`S10-20`)."""
        return cls(scope if scope.level else None, attempt_id, scope.level, scope.level, OperatorStatus.IDLE)

    @property
    def scope_level(self) -> int:
        return 0 if self.scope is None else self.scope.level

    @property
    def round(self) -> tuple[int, int]:
        """(scope level, attempt id), larger for a later attempt: outer scopes try first."""
        return self.scope_level, self.attempt_id

    def ends(self, level: int) -> bool:
        """Whether operators of that scope level end with it: their scope is complete, or all of a loop within it."""
        return self.completed_level == self.scope_level >= level

    def order(self, level: int) -> tuple[bool, tuple[int, int], float]:
        """Larger is newer, for an operator of that scope level."""
        if self.ends(level):
            return True, (0, 0), 0
        return False, self.round, -(math.inf if self.completed_level is None else self.completed_level)

    def seen_from(self, level: int) -> Self | None:
        """What it says to an operator of that scope level.

        What comes out of a loop says nothing before that loop has been collected (`S10-6`); then it is like what comes
        from an operator of the own level.
        """
        if self.visited_level > level and self._is_inside(level):
            return None
        if self.ends(level) or self.completed_level is None or self.completed_level <= level:
            return self
        return replace(self, completed_level=None)

    def _is_inside(self, level: int) -> bool:
        """Whether it comes from within a loop that it has not been all through."""
        return self.completed_level is None or self.completed_level > max(self.scope_level, level + 1)

    def adding(self, status: OperatorStatus) -> Self:
        return replace(self, status=self.status.and_of(status))
