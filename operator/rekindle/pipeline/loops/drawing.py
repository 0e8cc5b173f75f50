"""A loop as nested boxes of a Mermaid flow chart."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import AtEnd, Entry, InnerLoop, Operator, Transform, Union, Update


def boxes(body: LoopBody, indent: str = "  ") -> Iterator[str]:
    """A box for each scope, with what is in it; what goes round is a dotted arrow."""
    path = _id(body.name)
    yield f'{indent}subgraph loop_{path}["loop {body.name}"]'
    for operator in body.operators:
        if isinstance(operator, InnerLoop):
            yield from boxes(operator.body, indent + "  ")
        else:
            yield f'{indent}  {_node(body, operator)}["{operator.name}<br/>{_kind(operator)}"]'
    for operator in body.operators:
        for source in operator.inputs:
            to = entry_of(operator.body) if isinstance(operator, InnerLoop) else _node(body, operator)
            yield f"{indent}  {_maker(body, source)} --> {to}"
    for entry in body.operators:
        if isinstance(entry, Entry) and entry.gives_feedback:
            yield f"{indent}  {_maker(body, body.feedback)} -.->|feedback| {_node(body, entry)}"
    yield f"{indent}end"


def entry_of(body: LoopBody) -> str:
    """The node that what comes in goes to."""
    return _node(body, body.operators[0])


def exit_of(body: LoopBody) -> str:
    """The node that what comes out is from."""
    return _maker(body, body.output)


def _maker(body: LoopBody, operator: Operator) -> str:
    return exit_of(operator.body) if isinstance(operator, InnerLoop) else _node(body, operator)


def _node(body: LoopBody, operator: Operator) -> str:
    return f"l_{_id(body.name)}_{operator.name}"


def _id(path: str) -> str:
    return path.replace(".", "_")


def _kind(operator: Operator) -> str:
    match operator:
        case Entry(gives_input=True, gives_feedback=True):
            return "input and feedback"
        case Entry():
            return "entry"
        case Transform(tables=tables):
            return f"transform with {', '.join(tables)}" if tables else "transform"
        case Update(keys=keys):
            return f"state by {', '.join(keys)}"
        case Union():
            return "union"
        case AtEnd():
            return "state at the end"
    return ""
