"""Streams within a loop, and what can be made of them. They are used when a pipeline is built, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rekindle.core.loops.scopes import Operand, ScopeError, StreamScope, check_same_scope
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.loops.operators import AtEnd, Operator, Transform, Union, Update

if TYPE_CHECKING:
    from rekindle.pipeline.loops.functions import CoLoopFunction, LoopFunction
    from rekindle.pipeline.loops.trace import Trace


class LoopTable:
    """The stored result of another stage, whole, for each batch of the loops that it was brought into."""

    def __init__(self, name: str, scope: StreamScope) -> None:
        self.name, self.scope = name, scope

    def __repr__(self) -> str:
        return f"LoopTable({self.name!r} in {self.scope})"


class LoopStream:
    """Rows that go through a loop, in batches (`S8-9`).

    Which rows make a batch is not the body's to know, but for this: what one batch was made into goes on as one batch.
    """

    def __init__(self, operator: Operator, trace: Trace) -> None:
        self._operator, self._trace = operator, trace

    @property
    def name(self) -> str:
        """Of the operator that makes it."""
        return self._operator.name

    @property
    def scope(self) -> StreamScope:
        """The loop that it is in."""
        return self._operator.scope

    @property
    def operator(self) -> Operator:
        return self._operator

    def __repr__(self) -> str:
        return f"LoopStream({self.name!r} in {self.scope})"

    def transform(self, fn: Callable[..., Any], *tables: LoopTable, name: str | None = None) -> LoopStream:
        """Rows made from rows.

        Args:
            fn: `fn(batch, *tables)`, all of them DataFrames, returns one. It is called for each batch, by itself.
            tables: of this scope.
            name: of the operator; the function's name unless given.
        """
        self._check("transform", *tables)
        names = tuple(table.name for table in tables)
        own = self._trace.name_of(fn, name, "transform")
        return self._made(Transform(own, self.scope, (self._operator,), _callable(fn, own), names))

    def update(
        self,
        fn: Callable[..., Any],
        *tables: LoopTable,
        key: str | Sequence[str],
        schema: str,
        name: str | None = None,
    ) -> LoopStream:
        """Keep a state, a row for each key, and go on with the rows that a batch has changed.

        Args:
            fn: `fn(batch, state, *tables)` returns the rows of the state that are new, or other than they were, one for
                each key. They replace those of the same keys, and are what the stream goes on with.
            key: column or columns that tell rows of the state apart.
            schema: of the state's rows.
            tables, name: as of `transform`.
        """
        self._check("update", *tables)
        keys = (key,) if isinstance(key, str) else tuple(key)
        own = self._trace.name_of(fn, name, "update")
        if not keys or not all(isinstance(one, str) and one for one in keys):
            raise PipelineError(
                f"loop {self.scope.name!r}: update {own!r} has key={key!r}",
                remedy="name the columns that tell rows of its state apart, such as key='city'",
                stage=self._trace.stage,
            )
        if not isinstance(schema, str) or not schema.strip():
            raise PipelineError(
                f"loop {self.scope.name!r}: update {own!r} has schema={schema!r}",
                remedy="say which columns its state has, such as schema='city STRING, km DOUBLE'",
                stage=self._trace.stage,
            )
        names = tuple(table.name for table in tables)
        return self._made(Update(own, self.scope, (self._operator,), _callable(fn, own), keys, schema, names))

    def union(self, *others: LoopStream, name: str | None = None) -> LoopStream:
        """The rows of this stream and of others of its scope (`S8-10`); columns go by name."""
        self._check("union", *others)
        if len({one.operator for one in (self, *others)}) <= len(others):
            raise PipelineError(
                f"loop {self.scope.name!r}: union of {self.name!r} has a stream twice",
                remedy="name each stream once; to have its rows twice, transform it",
                stage=self._trace.stage,
            )
        own = self._trace.unique(name or "union")
        return self._made(Union(own, self.scope, (self._operator, *(other.operator for other in others))))

    def at_end(self, *, name: str | None = None) -> LoopStream:
        """Of a stream that `update` has made: all rows of its state, once the loop has ended."""
        if not isinstance(self._operator, Update):
            raise PipelineError(
                f"loop {self.scope.name!r}: at_end of {self.name!r}, which keeps no state",
                remedy="call it on what update(...) returns",
                stage=self._trace.stage,
            )
        if self.scope.level > 1:
            raise PipelineError(
                f"loop {self.scope.name!r}: at_end of {self.name!r} in a loop within a loop, which ends when the loops "
                "around it have ended: nothing could take these rows any more",
                remedy="put rows out when they are final, or keep the state in the outermost loop",
                stage=self._trace.stage,
            )
        return self._made(AtEnd(self._trace.unique(name or f"{self.name}_at_end"), self.scope, (self._operator,)))

    def iterate(self, function: LoopFunction | Callable[..., Any], *tables: LoopTable, name: str = "") -> LoopStream:
        """A loop within this one, whose feedback has the columns of this stream (`S8-6`, `S8-8`).

        What it puts out is in this scope.
        """
        self._check("iterate", *tables)
        return self._trace.inner(self, function, tables, name, own_feedback=False)

    def iterate_with_feedback(
        self, function: CoLoopFunction | Callable[..., Any], *tables: LoopTable, name: str = ""
    ) -> LoopStream:
        """A loop within this one, whose feedback has columns of its own (`S8-6`)."""
        self._check("iterate_with_feedback", *tables)
        return self._trace.inner(self, function, tables, name, own_feedback=True)

    def _check(self, operation: str, *others: LoopStream | LoopTable) -> None:
        wrong = next((one for one in others if not isinstance(one, LoopStream | LoopTable)), None)
        if wrong is not None:
            raise PipelineError(
                f"loop {self.scope.name!r}: {operation} of {self.name!r} is given a {type(wrong).__name__}",
                remedy="give it what the body's parameters are, and what is made of them",
                stage=self._trace.stage,
            )
        try:
            check_same_scope(f"{operation} in loop {self.scope.name!r}", *map(_operand, (self, *others)))
        except ScopeError as error:
            raise self._trace.error(error) from None

    def _made(self, operator: Operator) -> LoopStream:
        self._trace.operators.append(operator)
        return LoopStream(operator, self._trace)


def _operand(one: LoopStream | LoopTable) -> Operand:
    return Operand(one.name, one.scope)


def _callable(fn: object, name: str) -> Callable[..., Any]:
    if not callable(fn):
        raise PipelineError(f"{name!r} is a {type(fn).__name__}", remedy="give a function of DataFrames")
    return fn
