"""From a loop's function to its body: it is called once, with streams that note what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rekindle.core.loops.scopes import DEFAULT_SCOPE, Operand, ScopeError, StreamScope, check_feedback, check_same_scope
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.functions import body_of
from rekindle.pipeline.loops.operators import AtEnd, Entry, InnerLoop, Operator, Update
from rekindle.pipeline.loops.streams import LoopStream, LoopTable


class Trace:
    """What the body of one loop is made of, while its function runs. `stage`: of the pipeline, for errors."""

    def __init__(self, stage: str, path: str, scope: StreamScope) -> None:
        self.stage, self.path, self.scope = stage, path, scope
        self.operators: list[Operator] = []
        self._names: set[str] = set()

    def name_of(self, fn: Any, given: str | None, otherwise: str) -> str:
        """Of an operator. Raises PipelineError for one that was said, and is another's."""
        if given is None:
            found = getattr(fn, "__name__", otherwise)
            return self.unique(found if found.isidentifier() else otherwise)  # such as <lambda>
        if not given.isidentifier() or given in self._names:
            why = "has that name already" if given in self._names else "cannot be called so"
            raise PipelineError(
                f"loop {self.path!r}: an operator {why}: name={given!r}",
                remedy="use letters, digits and _, and each name once",
                stage=self.stage,
            )
        self._names.add(given)
        return given

    def unique(self, name: str) -> str:
        """`name`, or with a number behind it where there is one of that name."""
        number, found = 1, name
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found

    def inner(
        self, stream: LoopStream, function: Any, tables: Sequence[LoopTable], name: str, *, own_feedback: bool
    ) -> LoopStream:
        """A loop within this one."""
        own = self.name_of(body_of(function), name or None, "loop")
        names = [table.name for table in tables]
        body = traced(self.stage, f"{self.path}.{own}", self.scope, function, names, own_feedback=own_feedback)
        operator = InnerLoop(own, self.scope, (stream.operator,), body)
        self.operators.append(operator)
        return LoopStream(operator, self)

    def error(self, error: ScopeError) -> PipelineError:
        said, _, remedy = str(error).partition("; ")
        return PipelineError(said, remedy=remedy, stage=self.stage)


def traced(
    stage: str,
    path: str,
    outer: StreamScope,
    function: Any,
    tables: Sequence[str],
    *,
    own_feedback: bool,
    most_activations: int | None = None,
    feedback_first: bool = False,
) -> LoopBody:
    """The body of a loop.

    Args:
        path: its name, with those of the loops around it.
        outer: the scope that it is in; its own is a new one (`S8-15`).
        tables: names of results that it reads whole, in the order of the function's parameters.
        own_feedback: whether feedback is a stream beside the input.

    Raises:
        PipelineError: names the loop, what is wrong with it and the remedy.
    """
    scope = outer.nest(path.rpartition(".")[2])
    trace = Trace(stage, path, scope)
    entries = _entries(trace, own_feedback)
    streams = [LoopStream(entry, trace) for entry in entries]
    returned = body_of(function)(*streams, *(LoopTable(name, scope) for name in tables))
    feedback, output = _pair(trace, returned)
    body = LoopBody(path, scope, tuple(trace.operators), feedback, output, most_activations, feedback_first)
    _check_all_read(trace, body)
    _check_ends(trace, body)
    return body


def root(stage: str, function: Callable[..., Any], tables: Sequence[str], **more: Any) -> LoopBody:
    """Of a loop that is a stage."""
    return traced(stage, stage, DEFAULT_SCOPE, function, tables, **more)


def _entries(trace: Trace, own_feedback: bool) -> list[Entry]:
    sides = [("input", True, not own_feedback), ("feedback", False, True)][: 1 + own_feedback]
    entries = [Entry(trace.unique(name), trace.scope, (), *gives) for name, *gives in sides]
    trace.operators += entries
    return entries


def _pair(trace: Trace, returned: Any) -> tuple[Operator, Operator]:
    """(feedback, output), checked (`S8-22`)."""
    is_pair = isinstance(returned, tuple | list) and len(returned) == 2
    if not is_pair or not all(isinstance(one, LoopStream) for one in returned):
        what = [type(one).__name__ for one in returned] if is_pair else type(returned).__name__
        raise PipelineError(
            f"loop {trace.path!r}: its function returned {what}",
            remedy="return two streams: what is fed back, and what the loop puts out",
            stage=trace.stage,
        )
    feedback, output = returned
    try:
        check_feedback(Operand(feedback.name, feedback.scope), trace.scope)
        check_same_scope(
            f"the output of loop {trace.path!r}",
            Operand(output.name, output.scope),
            Operand(trace.operators[0].name, trace.scope),
        )
    except ScopeError as error:
        raise trace.error(error) from None
    return feedback.operator, output.operator


def _check_ends(trace: Trace, body: LoopBody) -> None:
    """What is made of a state at the end comes when nothing goes round any more."""
    late = set[Operator]()
    for operator in body.operators:
        if isinstance(operator, AtEnd) or late & set(operator.inputs):
            late.add(operator)
    wrong = [one.name for one in body.operators if one in late and isinstance(one, InnerLoop | Update)]
    if body.feedback in late:
        wrong.append("the feedback")
    if wrong:
        raise PipelineError(
            f"loop {trace.path!r}: {wrong[0]} is made of a state at the end, when nothing goes round any more",
            remedy="use what at_end returns for the output alone",
            stage=trace.stage,
        )


def _check_all_read(trace: Trace, body: LoopBody) -> None:
    read = {operator for one in body.operators for operator in one.inputs} | {body.feedback, body.output}
    for operator in body.operators:
        if operator not in read:
            raise PipelineError(
                f"loop {trace.path!r}: nothing reads {operator.name!r}",
                remedy="feed it back, put it out or make something of it; else take it out of the body",
                stage=trace.stage,
            )
