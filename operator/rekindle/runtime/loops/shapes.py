"""The columns of what goes through a loop, found out before it begins: its functions get frames without rows.

Nothing is computed for that. What does not fit is told with the names of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import AtEnd, Entry, InnerLoop, Operator, Transform, Union, Update
from rekindle.runtime.errors import PipelineMisuse
from rekindle.runtime.loops.frames import Columns, Frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Call = Callable[..., "DataFrame"]
"""`call(operator, *frames)`: its function's result, with errors that name it."""


class Shapes:
    """Of one loop that is a stage, and of those within it.

    Args:
        first: what goes in.
        tables: [stage -> its result].
    """

    def __init__(
        self,
        body: LoopBody,
        first: DataFrame,
        tables: Mapping[str, DataFrame],
        frames: Frames,
        call: Call,
    ) -> None:
        self._tables, self._frames, self._call = tables, frames, call
        self._known: dict[Operator, DataFrame] = {}
        self._unknown: set[Operator] = set()
        self._loops = list(body.loops())
        self._inputs: dict[LoopBody, DataFrame] = {body: frames.like(first)}
        for loop in self._loops:
            for operator in loop.operators:
                self.of(operator)
        for loop in self._loops:
            self._check_feedback(loop)
            for operator in loop.operators:
                if isinstance(operator, Update):
                    self._check_update(operator)
        self.output = self.of(body.output)

    def of(self, operator: Operator) -> DataFrame:
        """Without rows. Raises PipelineMisuse where a loop's feedback is made of nothing but itself."""
        if operator not in self._known:
            if operator in self._unknown:
                raise PipelineMisuse(
                    f"loop {operator.scope.name}: the columns of {operator.name!r} follow from themselves",
                    remedy="make the feedback of something that comes in, or of an update, which says its columns",
                )
            self._unknown.add(operator)
            self._known[operator] = self._made(operator)
        return self._known[operator]

    def _made(self, operator: Operator) -> DataFrame:
        match operator:
            case Entry(gives_input=True):
                return self._inputs[self._loop_of(operator)]
            case Entry():
                return self.of(self._loop_of(operator).feedback)
            case Transform(inputs=(source,), tables=tables):
                return self._call(operator, self.of(source), *(self._tables[name] for name in tables))
            case Update(schema=schema):
                return self._frames.empty(schema)
            case Union(inputs=(source, *others)):
                for other in others:
                    self._check_alike(operator, self.of(source), self.of(other))
                return self.of(source)
            case AtEnd(inputs=(source,)):
                return self.of(source)
            case InnerLoop(inputs=(source,), body=body):
                self._inputs[body] = self.of(source)
                return self.of(body.output)
        raise AssertionError(f"{operator} is no operator of a loop")

    def columns(self, operator: Operator) -> Columns:
        """Of what it makes."""
        return self._columns(self.of(operator))

    def _columns(self, frame: DataFrame) -> Columns:
        return self._frames.columns(frame)

    def _loop_of(self, entry: Entry) -> LoopBody:
        return next(loop for loop in self._loops if entry in loop.operators)

    def _check_feedback(self, loop: LoopBody) -> None:
        """Where it comes as one stream with the input."""
        if any(isinstance(one, Entry) and one.gives_input and one.gives_feedback for one in loop.operators):
            comes, back = self._columns(self._inputs[loop]), self._columns(self.of(loop.feedback))
            if sorted(comes) != sorted(back):
                raise PipelineMisuse(
                    f"loop {loop.name}: what is fed back has the columns {_said(back)}, what comes in {_said(comes)}",
                    remedy="feed back the same columns, or declare the loop with iterate_with_feedback",
                    stage=loop.name.partition(".")[0],
                )

    def _check_update(self, update: Update) -> None:
        (source,), state = update.inputs, self.of(update)
        made = self._call(update, self.of(source), state, *(self._tables[name] for name in update.tables))
        check_columns(update, self._columns(made), self._columns(state))

    def _check_alike(self, operator: Operator, one: DataFrame, other: DataFrame) -> None:
        if sorted(self._columns(one)) != sorted(self._columns(other)):
            raise PipelineMisuse(
                f"loop {operator.scope.name}: {operator.name} is of streams with the columns "
                f"{_said(self._columns(one))} and {_said(self._columns(other))}",
                remedy="select the same columns, with the same types, before the union",
            )


def check_columns(update: Update, made: Columns, state: Columns) -> None:
    """Raises PipelineMisuse where what an update's function returns is not as its state."""
    if sorted(made) != sorted(state):
        raise PipelineMisuse(
            f"loop {update.scope.name}: update {update.name!r} returns the columns {_said(made)}, its schema says "
            f"{_said(state)}",
            remedy="return the changed rows with the columns of the state; cast them where types differ",
        )
    missing = [key for key in update.keys if key not in dict(state)]
    if missing:
        raise PipelineMisuse(
            f"loop {update.scope.name}: update {update.name!r} has the key {missing[0]!r}, which its schema has not",
            remedy="name columns of the schema",
        )


def check_alike(operator: Operator, made: Columns, shape: Columns) -> None:
    """Raises PipelineMisuse where an operator has made other columns of a batch than of none."""
    if sorted(made) != sorted(shape):
        raise PipelineMisuse(
            f"loop {operator.scope.name}: {operator.name!r} makes the columns {_said(made)} of a batch, and "
            f"{_said(shape)} of one without rows",
            remedy="let the columns of its result not depend on the rows",
        )


def _said(found: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in found) or "none"
