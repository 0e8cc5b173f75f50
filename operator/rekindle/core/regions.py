"""Pipelined regions: which execution vertices restart as a unit (S6-5 to S6-7).

A region is a weakly connected component over PIPELINED exchanges. Where job vertices have none, each subtask
is a region alone, and nothing is stored for it. Regions that would wait for each other, as a pipelined and
a blocking way between the same two vertices make them, are one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, ResultKind

Subtasks = dict[str, set[int]]
"""[job vertex -> subtasks]: a set of execution vertices, in groups."""

Group = tuple[str, ...]
"""Job vertices that pipelined exchanges connect, in topological order."""


class PipelinedRegions:
    """The regions of a job graph.

    Attributes:
        groups: connected job vertices; each group comes after the groups it reads.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self._graph = job_graph
        self._members: dict[ExecutionVertexID, Subtasks] = {}
        self.groups = _without_cycles(job_graph, _connected(job_graph))
        self._group_of = {name: group for group in self.groups for name in group}
        for group in self.groups:
            if len(group) > 1:
                self._find_regions(group)

    def group_of(self, vertex: str) -> Group:
        return self._group_of[vertex]

    def is_alone(self, vertex: str) -> bool:
        """Whether each subtask of the vertex is a region by itself."""
        return len(self._group_of[vertex]) == 1

    def expand(self, vertex: str, subtasks: Iterable[int]) -> Subtasks:
        """The regions of these execution vertices, together."""
        if self.is_alone(vertex):
            return {vertex: set(subtasks)}
        found: Subtasks = {}
        for subtask in subtasks:
            if subtask not in found.get(vertex, ()):
                for name, members in self._members[ExecutionVertexID(vertex, subtask)].items():
                    found.setdefault(name, set()).update(members)
        return found

    def region(self, vertex_id: ExecutionVertexID) -> tuple[ExecutionVertexID, ...]:
        """The region of one execution vertex, in topological order."""
        found = self.expand(vertex_id.vertex, [vertex_id.subtask])
        return in_order(self._graph, found)

    def _find_regions(self, group: Group) -> None:
        for members in [self._all_of(group)] if self._is_one(group) else self._components(group):
            for name, subtasks in members.items():
                self._members |= dict.fromkeys((ExecutionVertexID(name, one) for one in subtasks), members)

    def _is_one(self, group: Group) -> bool:
        """Whether the group is one region.

        It is where an exchange within it is all-to-all, since each subtask of the others is connected with some of
        these. It is too where its vertices read each other's stored results: each of their regions would wait for
        the whole of a result (S6-11) that all of them make.
        """
        inside = (edge for name in group for edge in self._graph.inputs(name) if edge.producer in group)
        return any(
            edge.kind is not ResultKind.PIPELINED or edge.pattern is DistributionPattern.ALL_TO_ALL for edge in inside
        )

    def _all_of(self, group: Group) -> Subtasks:
        return {name: set(range(self._graph.vertex(name).parallelism)) for name in group}

    def _components(self, group: Group) -> list[Subtasks]:
        """By the pointwise exchanges between them."""
        components = _Components()
        for edge in (edge for name in group for edge in self._graph.inputs(name)):
            if edge.producer in group:
                self._connect(edge, components)
        found: dict[tuple[str, int], Subtasks] = {}
        for name, subtasks in self._all_of(group).items():
            for subtask in sorted(subtasks):
                root = components.root((name, subtask))
                found.setdefault(root, {}).setdefault(name, set()).add(subtask)
        return list(found.values())

    def _connect(self, edge: JobEdge, components: _Components) -> None:
        for producer in range(self._graph.vertex(edge.producer).parallelism):
            for consumer in self._graph.consumers(edge, producer):
                components.union((edge.producer, producer), (edge.consumer, consumer))


def together(*some: Mapping[str, set[int]]) -> Subtasks:
    """The union, without empty entries."""
    union: Subtasks = {}
    for subtasks in some:
        for vertex, ones in subtasks.items():
            if ones:
                union.setdefault(vertex, set()).update(ones)
    return union


def in_order(job_graph: JobGraph, subtasks: Subtasks) -> tuple[ExecutionVertexID, ...]:
    """Execution vertices, producers first."""
    return tuple(
        ExecutionVertexID(name, subtask)
        for name in job_graph.order
        if name in subtasks
        for subtask in sorted(subtasks[name])
    )


class _Components:
    """Union-find over (job vertex, subtask)."""

    def __init__(self) -> None:
        self._parents: dict[tuple[str, int], tuple[str, int]] = {}

    def root(self, one: tuple[str, int]) -> tuple[str, int]:
        parent = self._parents.setdefault(one, one)
        while parent != one:
            self._parents[one] = self._parents[parent]
            one, parent = parent, self._parents[parent]
        return one

    def union(self, one: tuple[str, int], other: tuple[str, int]) -> None:
        self._parents[self.root(other)] = self.root(one)


def _connected(job_graph: JobGraph) -> list[Group]:
    components = _Components()
    for edge in job_graph.edges:
        if edge.kind is ResultKind.PIPELINED:
            components.union((edge.producer, 0), (edge.consumer, 0))
    groups: dict[tuple[str, int], list[str]] = {}
    for name in job_graph.order:
        groups.setdefault(components.root((name, 0)), []).append(name)
    return [tuple(group) for group in groups.values()]


def _without_cycles(job_graph: JobGraph, groups: list[Group]) -> tuple[Group, ...]:
    """All groups in topological order; those that wait for each other are one."""
    while True:
        group_of = {name: group for group in groups for name in group}
        reads: dict[Group, dict[Group, None]] = {group: {} for group in groups}
        for edge in job_graph.edges:
            if group_of[edge.producer] != group_of[edge.consumer]:
                reads[group_of[edge.consumer]][group_of[edge.producer]] = None
        try:
            return tuple(TopologicalSorter(reads).static_order())
        except CycleError as error:
            cycle = set(error.args[1])
            one = tuple(name for name in job_graph.order if group_of[name] in cycle)
            groups = [*(group for group in groups if group not in cycle), one]
