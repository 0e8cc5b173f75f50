"""What the declarations of a pipeline may say together: names, inputs, cycles, readers, targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from rekindle.pipeline.checks import is_count
from rekindle.pipeline.declaration import Declaration, Role
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.sinks import WrittenElsewhere

Declarations = Sequence[Declaration]
WiringCheck = Callable[[Declarations], None]

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_pipeline(name: str, declared: Declarations, default_partitions: int) -> None:
    """The pipeline's own arguments."""
    if not (isinstance(name, str) and _PIPELINE_NAME.fullmatch(name)):
        raise PipelineError(
            f"pipeline {name!r} has a name that cannot be part of a file name",
            remedy="use letters, digits, '.', '_' and '-', such as Pipeline('flight-delays')",
        )
    if not is_count(default_partitions):
        raise PipelineError(
            f"pipeline {name!r} has default_partitions={default_partitions!r}",
            remedy="default_partitions is a whole number of at least 1",
        )
    if not declared:
        raise PipelineError(
            f"pipeline {name!r} has no stages",
            remedy="declare functions with @pipeline.source, @pipeline.stage and @pipeline.sink before build",
        )


def check_names_are_unique(declared: Declarations) -> None:
    seen: dict[str, Declaration] = {}
    for one in declared:
        if first := seen.get(one.name):
            raise one.error(
                f"has the name of another {first.role} ({first.location})",
                "rename one of the functions, or give one of the decorators name=...",
            )
        seen[one.name] = one


def check_inputs_exist(declared: Declarations) -> None:
    names = [one.name for one in declared]
    for one in declared:
        for name in one.inputs:
            if name not in names:
                near = get_close_matches(name, names, 1)
                raise one.error(
                    f"reads {name!r}, which no stage makes",
                    f"did you mean {near[0]!r}?" if near else f"the stages are {', '.join(names)}",
                )


def check_sinks_are_ends(declared: Declarations) -> None:
    by_name = _by_name(declared)
    for one in declared:
        for name in one.inputs:
            if by_name[name].role is Role.SINK:
                raise one.error(
                    f"reads {name!r}, which is a sink",
                    f"move what both need into a @pipeline.stage and read that here and in {name!r}",
                )


def check_no_cycle(declared: Declarations) -> None:
    try:
        TopologicalSorter({one.name: one.inputs for one in declared}).prepare()
    except CycleError as error:
        path = _from_first_declared(error.args[1][:-1], declared)
        raise _by_name(declared)[path[0]].error(
            f"reads its own result: {' -> '.join((*path, path[0]))}",
            "take one of these inputs away; each arrow goes from a result to the stage that reads it",
        ) from None


def _from_first_declared(cycle: Sequence[str], declared: Declarations) -> tuple[str, ...]:
    start = cycle.index(next(one.name for one in declared if one.name in cycle))
    return (*cycle[start:], *cycle[:start])


def check_every_result_is_read(declared: Declarations) -> None:
    for one in declared:
        if one.role is not Role.SINK and not _readers(one, declared):
            raise one.error(
                "makes a result that no stage reads",
                "name it as a parameter of another stage, declare it with @pipeline.sink(path), or remove it",
            )


def check_pipelined_has_one_reader(declared: Declarations) -> None:
    for one in declared:
        readers = _readers(one, declared)
        if one.options.exchange == ExchangeMode.PIPELINED and len(readers) > 1:
            raise one.error(
                f"is pipelined, and {len(readers)} stages read it ({', '.join(readers)})",
                "a pipelined result is computed inside its one reader: "
                "say exchange='blocking' to store it or exchange='cached' to persist it",
            )


def check_pointwise_sources(declared: Declarations) -> None:
    by_name = _by_name(declared)
    for one in declared:
        if not one.options.pointwise:
            continue
        source = by_name[one.main_inputs[0]]
        if source.options.exchange != ExchangeMode.BLOCKING:
            raise one.error(
                f"is pointwise on {source.name!r}, which is {source.options.exchange}: nothing is stored",
                f"say exchange='blocking' on {source.name!r}, or remove pointwise=True",
            )


def check_loops_read_what_is_stored(declared: Declarations) -> None:
    """All activations, under all drivers, read the same."""
    by_name = _by_name(declared)
    for one in declared:
        for name in one.inputs if one.options.loop is not None else ():
            if by_name[name].options.exchange != ExchangeMode.BLOCKING:
                raise one.error(
                    f"is a loop and reads {name!r}, which is {by_name[name].options.exchange}: nothing is stored",
                    f"say exchange='blocking' on {name!r}",
                )


def check_targets_are_apart(declared: Declarations) -> None:
    seen: dict[str, Declaration] = {}
    for one in declared:
        if one.options.sink is None:
            continue
        sink = one.options.sink
        place = sink.place if isinstance(sink, WrittenElsewhere) else sink.target
        for other, first in seen.items():
            if _inside(place, other) or _inside(other, place):
                if isinstance(sink, WrittenElsewhere) and sink.path is None:
                    raise one.error(f"writes to the same place as sink {first.name!r} ({sink.target})", "name another")
                where = "to the same path as" if place == other else "inside or around the path of"
                raise one.error(f"writes {where} sink {first.name!r} ({place})", "give each sink a folder of its own")
        seen[place] = one


def _inside(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def topological(declared: Declarations) -> tuple[Declaration, ...]:
    """Inputs before the stages that read them; what could go either way stays as declared."""
    order = {one.name: position for position, one in enumerate(declared)}
    sorter = TopologicalSorter({one.name: one.inputs for one in declared})
    sorter.prepare()
    result: list[Declaration] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=order.__getitem__)
        result += [declared[order[name]] for name in ready]
        sorter.done(*ready)
    return tuple(result)


def _by_name(declared: Declarations) -> Mapping[str, Declaration]:
    return {one.name: one for one in declared}


def _readers(one: Declaration, declared: Declarations) -> tuple[str, ...]:
    return tuple(other.name for other in declared if one.name in other.inputs)


WIRING_CHECKS: tuple[WiringCheck, ...] = (
    check_names_are_unique,
    check_inputs_exist,
    check_sinks_are_ends,
    check_no_cycle,
    check_every_result_is_read,
    check_pipelined_has_one_reader,
    check_pointwise_sources,
    check_loops_read_what_is_stored,
    check_targets_are_apart,
)
"""In the order in which they are made: later ones rely on earlier ones."""
