"""The job graph: job vertices, and the intermediate results between them, as groups and never as edges.

An all-to-all exchange between 10,000 producers and 10,000 consumers is one `JobEdge`. Which subtasks stand
on its other side is a `range`, worked out when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter


class ResultKind(StrEnum):
    """What becomes of an intermediate result (S6-9 to S6-12)."""

    BLOCKING = "BLOCKING"
    """Stored whole before it is read, and read as often as needed."""
    PIPELINED = "PIPELINED"
    """Passed on as it is made; producer and consumer are one region."""
    EPHEMERAL = "EPHEMERAL"
    """Spark's own shuffle: there while this driver and the executors that hold it live."""
    CACHED = "CACHED"
    """Kept by executors and gone with them: a best-effort kind of EPHEMERAL."""

    @property
    def is_stored(self) -> bool:
        """Whether the result outlives the driver and the executors that made it."""
        return self is ResultKind.BLOCKING


class DistributionPattern(StrEnum):
    """Which producers a consumer reads: all of them, or the ones at its own place."""

    ALL_TO_ALL = "ALL_TO_ALL"
    POINTWISE = "POINTWISE"


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A stage, with `parallelism` subtasks.

    Attributes:
        speculative: it supports concurrent attempts, and the user allows them (S2-13).
        deterministic: of a second run. True: finished consumers of its lost results are spared; None: only
            when the second run's digests equal the first's; False: never (S7-7).
        contains_sources, contains_sinks: for the switches of S5-1 and S5-2.
    """

    name: str
    parallelism: int
    speculative: bool = True
    deterministic: bool | None = None
    contains_sources: bool = False
    contains_sinks: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("JobVertex.name is empty: give the vertex a name")
        if self.parallelism < 1:
            raise ValueError(f"job vertex {self.name}: parallelism is {self.parallelism}, must be at least 1")


@dataclass(frozen=True, slots=True)
class JobEdge:
    """The intermediate result of `producer` as `consumer` reads it."""

    producer: str
    consumer: str
    kind: ResultKind = ResultKind.BLOCKING
    pattern: DistributionPattern = DistributionPattern.ALL_TO_ALL

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}"


@dataclass(frozen=True)
class JobGraph:
    """Job vertices and the exchanges between them.

    Raises ValueError, naming the vertex, for a name used twice, an edge to no vertex, and a cycle.

    Attributes:
        order: names of the vertices; each comes after the ones it reads.
    """

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...] = ()
    order: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, JobVertex] = field(init=False, repr=False, compare=False)
    _inputs: dict[str, tuple[JobEdge, ...]] = field(init=False, repr=False, compare=False)
    _outputs: dict[str, tuple[JobEdge, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "vertices", tuple(self.vertices))
        fix(self, "edges", tuple(self.edges))
        fix(self, "_by_name", self._named())
        self._check_edges()
        names = self._by_name
        inputs: dict[str, list[JobEdge]] = {name: [] for name in names}
        outputs: dict[str, list[JobEdge]] = {name: [] for name in names}
        for edge in self.edges:
            inputs[edge.consumer].append(edge)
            outputs[edge.producer].append(edge)
        fix(self, "_inputs", {name: tuple(edges) for name, edges in inputs.items()})
        fix(self, "_outputs", {name: tuple(edges) for name, edges in outputs.items()})
        fix(self, "order", self._topological())

    def vertex(self, name: str) -> JobVertex:
        """Raises KeyError for a name that is no vertex."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def inputs(self, name: str) -> tuple[JobEdge, ...]:
        """The results that `name` reads."""
        return self._inputs[name]

    def outputs(self, name: str) -> tuple[JobEdge, ...]:
        """The result of `name`, once for each consumer."""
        return self._outputs[name]

    def same_shape(self, other: JobGraph) -> bool:
        """Whether the same events mean the same to both, in whatever order they were declared: who may be copied is
        told by events."""
        return self._shape() == other._shape()

    def _shape(self) -> tuple[object, ...]:
        vertices = frozenset((one.name, one.parallelism, one.deterministic) for one in self.vertices)
        return vertices, frozenset(self.edges)

    def is_stored(self, name: str) -> bool:
        """Whether what `name` writes outlives driver and executors: all its exchanges are BLOCKING."""
        return all(edge.kind.is_stored for edge in self._outputs[name])

    def producers(self, edge: JobEdge, consumer: int) -> range:
        """Subtasks of `edge.producer` whose partitions subtask `consumer` of `edge.consumer` reads."""
        here, there = self.vertex(edge.consumer).parallelism, self.vertex(edge.producer).parallelism
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            return range(there)
        first = consumer * there // here
        return range(first, max(first + 1, (consumer + 1) * there // here))

    def consumers(self, edge: JobEdge, producer: int) -> range:
        """Subtasks of `edge.consumer` that read partition `producer` of `edge.producer`."""
        here, there = self.vertex(edge.producer).parallelism, self.vertex(edge.consumer).parallelism
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            return range(there)
        if here >= there:
            place = ((producer + 1) * there - 1) // here
            return range(place, place + 1)
        return range(-(-producer * there // here), -(-(producer + 1) * there // here))

    def _named(self) -> dict[str, JobVertex]:
        named: dict[str, JobVertex] = {}
        for vertex in self.vertices:
            if vertex.name in named:
                raise ValueError(f"job graph {self.name}: two vertices are called {vertex.name}; rename one")
            named[vertex.name] = vertex
        return named

    def _check_edges(self) -> None:
        for edge in self.edges:
            for name in (edge.producer, edge.consumer):
                if name not in self._by_name:
                    raise ValueError(f"job graph {self.name}: edge {edge}: {name} is no vertex of it")

    def _topological(self) -> tuple[str, ...]:
        producers = {name: [edge.producer for edge in edges] for name, edges in self._inputs.items()}
        try:
            return tuple(TopologicalSorter(producers).static_order())
        except CycleError as error:
            cycle = " -> ".join(error.args[1])
            raise ValueError(f"job graph {self.name}: the vertices form a cycle: {cycle}") from error
