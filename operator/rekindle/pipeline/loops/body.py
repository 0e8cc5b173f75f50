"""A loop as it was built: its operators, what is fed back and what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.core.loops.scopes import StreamScope
from rekindle.pipeline.loops.operators import InnerLoop, Operator


@dataclass(frozen=True, eq=False)
class LoopBody:
    """A loop.

    Attributes:
        name: of the stage that it is; of a loop within another, the names around it with dots between.
        scope: its own.
        operators: in its scope, each behind those that it reads; those that readers of the entry read are the first.
        feedback: what makes the rows that go round again.
        output: what makes the rows that leave it.
        most_activations: with more batches than this the loop fails; None for no bound.
        feedback_first: what was fed back is always read before what comes in (`S9-7`), in all loops within too.
    """

    name: str
    scope: StreamScope
    operators: tuple[Operator, ...]
    feedback: Operator
    output: Operator
    most_activations: int | None = None
    feedback_first: bool = False

    def loops(self) -> Iterator[LoopBody]:
        """This one and all within it, the outer ones first."""
        yield self
        for operator in self.operators:
            if isinstance(operator, InnerLoop):
                yield from operator.body.loops()
