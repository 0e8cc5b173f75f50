"""What a job master tells the operator of its job: the graph, and what there is of each result (design: the inventory).

The operator keeps the last one that it heard, and works out of it what a lost driver will cost. Result partitions are
told in groups that are alike, as ranges: a stage of 100,000 that has run to its end is one line. A driver is user code:
what arrives is a job that can be planned with in a second, or is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from rekindle.api.connector_report import MOST_CONNECTORS, WireSink, WireSource
from rekindle.api.quantities import YEAR
from rekindle.api.wire import Wire
from rekindle.core.inventory import Alike, Group, JobInventory, Reached
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.ranges import Ranges, check_ranges
from rekindle.core.recovery_plan import RecoveryPlan

MOST_SUBTASKS, MOST_RANGES = 100_000, 3_000
"""Of a job, in all. One with more, or in more pieces, is not told."""

MOST_WHYS, MOST_WHY = 10, 200
"""Reasons for what a driver did, and characters of one."""

_MOST_VERTICES, _MOST_EDGES = 500, 2_000
_MOST_ACROSS = 1_000_000
"""Subtasks on both sides of all exchanges together: what a plan takes grows with them."""

_LATEST = 1e11
"""Epoch seconds: a year of four digits, as a status writes it."""

_Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[\w.-]+$")]
_Subtask = Annotated[int, Field(ge=0, lt=MOST_SUBTASKS)]
_Pair = Annotated[tuple[_Subtask, _Subtask], Field(strict=False)]
_Pairs = Annotated[tuple[_Pair, ...], Field(max_length=MOST_RANGES, strict=False)]
_Why = Annotated[str, StringConstraints(max_length=MOST_WHY)]
_Seconds = Annotated[float, Field(ge=0, le=YEAR)]


class WireGroup(Wire):
    """Subtasks that are alike, from the first to the last of each pair; the fields are those of `core.inventory`."""

    reached: Annotated[Reached, Field(strict=False)]
    version: Annotated[int, Field(ge=1)] = 1
    missing: bool = False
    comparable: bool = False
    awaited: bool = False
    empty: bool = False
    subtasks: _Pairs


class WireVertex(Wire):
    """A job vertex; `seconds`: what one of its subtasks takes, None where none has finished."""

    name: _Name
    parallelism: Annotated[int, Field(ge=1, le=MOST_SUBTASKS)]
    deterministic: bool | None = None
    groups: Annotated[tuple[WireGroup, ...], Field(max_length=MOST_RANGES, strict=False)] = ()
    seconds: _Seconds | None = None


class WireEdge(Wire):
    """An exchange; `held`: finished consumers that wait to see whether they must run again."""

    producer: _Name
    consumer: _Name
    kind: Annotated[ResultKind, Field(strict=False)]
    pattern: Annotated[DistributionPattern, Field(strict=False)]
    held: _Pairs = ()


class WireRestart(Wire):
    """Subtasks of a job vertex that began again."""

    vertex: _Name
    subtasks: _Pairs


class WireRecovery(Wire):
    """What a driver did about the loss of the one before.

    `reused`: result partitions that stayed; `first_task_at`: when its first task began, epoch seconds; `why`: what
    there was besides the loss.
    """

    restart: Annotated[tuple[WireRestart, ...], Field(max_length=_MOST_VERTICES, strict=False)] = ()
    reused: Annotated[int, Field(ge=0, le=MOST_SUBTASKS)] = 0
    first_task_at: Annotated[float, Field(ge=0, le=_LATEST)] | None = None
    why: Annotated[tuple[_Why, ...], Field(max_length=MOST_WHYS, strict=False)] = ()


class JobReport(Wire):
    """A job as it is now."""

    name: _Name
    vertices: Annotated[tuple[WireVertex, ...], Field(max_length=_MOST_VERTICES, strict=False)]
    edges: Annotated[tuple[WireEdge, ...], Field(max_length=_MOST_EDGES, strict=False)] = ()
    released: Annotated[tuple[_Name, ...], Field(max_length=_MOST_VERTICES, strict=False)] = ()
    recovery: WireRecovery | None = None
    sources: Annotated[tuple[WireSource, ...], Field(max_length=MOST_CONNECTORS, strict=False)] = ()
    sinks: Annotated[tuple[WireSink, ...], Field(max_length=MOST_CONNECTORS, strict=False)] = ()

    @model_validator(mode="after")
    def _is_a_job(self) -> Self:
        """Raises ValueError for what is too much, or contradicts itself."""
        sizes = {one.name: one.parallelism for one in self.vertices}
        if why := too_large(self.job_graph()):
            raise ValueError(why)
        for vertex in self.vertices:
            ranges = chain.from_iterable(group.subtasks for group in vertex.groups)
            check_ranges(vertex.name, vertex.parallelism, ranges)
        for edge in self.edges:
            check_ranges(edge.consumer, sizes[edge.consumer], edge.held)
            if edge.kind is ResultKind.PIPELINED:
                raise ValueError(f"exchange {edge.producer} -> {edge.consumer}: PIPELINED stages are one vertex")
        again = self.recovery.restart if self.recovery is not None else ()
        for restart in again:
            check_ranges(restart.vertex, sizes.get(restart.vertex, 0), restart.subtasks)
        if len({one.vertex for one in again}) < len(again) or not sizes.keys() >= set(self.released):
            raise ValueError("recovery.restart or released: a vertex twice, or one that is not of the job")
        for what, names in (
            ("sources", [one.name for one in self.sources]),
            ("sinks", [one.name for one in self.sinks]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{what}: a name twice")
        if (pieces := _pieces(self.inventory()) + sum(len(one.subtasks) for one in again)) > MOST_RANGES:
            raise ValueError(f"{pieces} ranges, which is more than {MOST_RANGES}")
        return self

    def job_graph(self) -> JobGraph:
        """ValueError where it is none: a name twice, an exchange with no vertex, a cycle."""
        vertices = (JobVertex(one.name, one.parallelism, deterministic=one.deterministic) for one in self.vertices)
        return JobGraph(self.name, tuple(vertices), tuple(_edge(one) for one in self.edges))

    def inventory(self) -> JobInventory:
        """What there is of it."""
        return JobInventory(
            {one.name: tuple(_group(group) for group in one.groups) for one in self.vertices if one.groups},
            {_edge(one): one.held for one in self.edges if one.held},
            frozenset(self.released),
        )


def too_large(graph: JobGraph) -> str | None:
    """Why a job is not told; None where it is."""
    subtasks = sum(one.parallelism for one in graph.vertices)
    across = sum(graph.vertex(name).parallelism for edge in graph.edges for name in (edge.producer, edge.consumer))
    for what, count, most in (
        ("job vertices", len(graph.vertices), _MOST_VERTICES),
        ("exchanges", len(graph.edges), _MOST_EDGES),
        ("subtasks", subtasks, MOST_SUBTASKS),
        ("subtasks beside exchanges", across, _MOST_ACROSS),
    ):
        if count > most:
            return f"{count} {what}, which is more than {most}"
    return None if len(set(graph.edges)) == len(graph.edges) else "an exchange is there twice"


def job_report(
    graph: JobGraph,
    inventory: JobInventory,
    seconds: Mapping[str, float],
    recovery: RecoveryPlan | None = None,
    first_task_at: float | None = None,
    sources: Sequence[WireSource] = (),
    sinks: Sequence[WireSink] = (),
) -> JobReport | None:
    """The report of a job; None where it would be too long.

    Args:
        seconds: of one subtask, by job vertex.
        recovery: what this driver did about the loss of the one before.
        first_task_at: when its first task began, epoch seconds.
        sources, sinks: as many of them as are told of, by name.
    """
    try:
        return JobReport(
            name=graph.name,
            vertices=tuple(
                WireVertex(
                    name=vertex.name,
                    parallelism=vertex.parallelism,
                    deterministic=vertex.deterministic,
                    groups=tuple(map(_wire_group, inventory.groups.get(vertex.name, ()))),
                    seconds=seconds.get(vertex.name),
                )
                for vertex in graph.vertices
            ),
            edges=tuple(
                WireEdge(
                    producer=edge.producer,
                    consumer=edge.consumer,
                    kind=edge.kind,
                    pattern=edge.pattern,
                    held=inventory.held.get(edge, ()),
                )
                for edge in graph.edges
            ),
            released=tuple(sorted(inventory.released)),
            recovery=_wire_recovery(recovery, first_task_at) if recovery is not None else None,
            sources=tuple(sources[:MOST_CONNECTORS]),
            sinks=tuple(sinks[:MOST_CONNECTORS]),
        )
    except ValidationError:
        return None


def _pieces(inventory: JobInventory) -> int:
    of_groups: Iterable[Ranges] = (group.subtasks for groups in inventory.groups.values() for group in groups)
    return sum(max(1, len(ranges)) for ranges in chain(of_groups, inventory.held.values()))


def _wire_recovery(plan: RecoveryPlan, first_task_at: float | None) -> WireRecovery:
    told = (WireRestart(vertex=name, subtasks=subtasks) for name, subtasks in plan.restart.items())
    why = tuple(one[:MOST_WHY] for one in plan.why[:MOST_WHYS])
    return WireRecovery(restart=tuple(told), reused=plan.reused, first_task_at=first_task_at, why=why)


def _edge(wire: WireEdge) -> JobEdge:
    return JobEdge(wire.producer, wire.consumer, wire.kind, wire.pattern)


def _group(wire: WireGroup) -> Group:
    alike = Alike(wire.reached, wire.version, wire.missing, wire.comparable, wire.awaited, wire.empty)
    return Group(alike, wire.subtasks)


def _wire_group(group: Group) -> WireGroup:
    alike = group.alike
    return WireGroup(
        reached=alike.reached,
        version=alike.version,
        missing=alike.missing,
        comparable=alike.comparable,
        awaited=alike.awaited,
        empty=alike.empty,
        subtasks=group.subtasks,
    )
