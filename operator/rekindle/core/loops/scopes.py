"""Stream scopes: which loop an operator is in, and which loops that one is in (FLIP-15, part I)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations


class ScopeError(ValueError):
    """A stream is used outside of its scope, or a scope is asked for that there is not."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamScope:
    """The context of one loop, with the chain of those around it (`S8-12`).

    It is equal to itself alone: operators in the same loop have the same scope (`S8-18`), and two loops have two, also
    where their names are the same.

    Attributes:
        name: of the loop, to be read by people.
        outer: the scope around it; None of the default scope.
        level: how many scopes are around it (`S8-16`).
    """

    name: str
    outer: StreamScope | None
    level: int

    def __str__(self) -> str:
        return self.name if self.outer is None else f"{self.outer} > {self.name}"

    def nest(self, name: str = "loop") -> StreamScope:
        """A new scope within this one, another one each time (`S8-15`)."""
        return StreamScope(name, self, self.level + 1)

    def unnest(self) -> StreamScope:
        """The scope around it. Raises ScopeError for the default scope (`S8-19`)."""
        if self.outer is None:
            raise ScopeError("the default scope has none around it: nothing is left to unnest outside of all loops")
        return self.outer

    def scope_for_level(self, level: int) -> StreamScope:
        """The scope of that level among itself and those around it; FLIP-15's getContextForLevel. Raises ScopeError
        where there is none (`S8-19`)."""
        if not 0 <= level <= self.level:
            raise ScopeError(
                f"scope '{self}' has no level {level}: its levels are 0 (the default scope) to {self.level}"
            )
        scope = self
        while scope.level > level:
            scope = scope.unnest()
        return scope

    def is_inner_of(self, other: StreamScope) -> bool:
        """Whether it is within `other`, at any depth; no scope is within itself (`S8-17`)."""
        return self.level > other.level and self.scope_for_level(other.level) == other

    def is_outer_of(self, other: StreamScope) -> bool:
        """Whether `other` is within it, at any depth (`S8-17`)."""
        return other.is_inner_of(self)


DEFAULT_SCOPE = StreamScope("default", None, 0)
"""Of all operators that are in no loop (`S8-13`)."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A stream that an operation takes, by the name that its user knows."""

    name: str
    scope: StreamScope


def check_same_scope(operation: str, *operands: Operand) -> None:
    """Union, join, connect, co-group and the like take streams of one scope only (`S8-10`). Raises ScopeError."""
    for left, right in combinations(operands, 2):
        if left.scope != right.scope:
            alike = ", another loop of that name" if str(left.scope) == str(right.scope) else ""
            raise ScopeError(
                f"{operation} takes streams of one scope: '{left.name}' is in scope '{left.scope}', '{right.name}' in "
                f"scope '{right.scope}'{alike}; bring the outer stream in as input of the loop, or the inner one out "
                "as its output"
            )


def check_feedback(feedback: Operand, loop: StreamScope) -> None:
    """What a loop feeds back is in its own scope (`S8-22`), so that none is closed outside of the loop around it
    (`S8-3`). Raises ScopeError."""
    if feedback.scope != loop:
        raise ScopeError(
            f"the feedback of loop '{loop}' must be in that scope, and '{feedback.name}' is in scope "
            f"'{feedback.scope}'; return a stream that the loop's own body makes"
        )
