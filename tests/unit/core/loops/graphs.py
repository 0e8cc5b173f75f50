"""Graphs with loops for the tests: operators, the channels between them, and a few graphs by name.

graph = Graph()
graph.source("a")
loop = graph.loop("b", DEFAULT_SCOPE, "a")     # the entry b, and its head b.head
graph.operator("t", loop, "b")
graph.feed_back("b", "t")
graph.operator("c", DEFAULT_SCOPE, "b")
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.scopes import DEFAULT_SCOPE, StreamScope

Operator = RegularOperator | EntryOperator | HeadOperator


class Kind(Enum):
    SOURCE = auto()
    REGULAR = auto()
    ENTRY = auto()
    HEAD = auto()


@dataclass
class Node:
    name: str
    kind: Kind
    scope: StreamScope
    inputs: list[str]


def head_of(entry: str) -> str:
    return f"{entry}.head"


@dataclass
class Graph:
    """`parks`: operators that may hold data for as long as they like, such as for an answer of another service."""

    nodes: dict[str, Node] = field(default_factory=dict)
    parks: frozenset[str] = frozenset()

    def source(self, name: str) -> None:
        self.nodes[name] = Node(name, Kind.SOURCE, DEFAULT_SCOPE, [])

    def operator(self, name: str, scope: StreamScope, *inputs: str) -> None:
        self.nodes[name] = Node(name, Kind.REGULAR, scope, list(inputs))

    def loop(self, entry: str, outer: StreamScope, *inputs: str) -> StreamScope:
        scope = outer.nest(entry)
        self.nodes[entry] = Node(entry, Kind.ENTRY, scope, list(inputs))
        self.nodes[head_of(entry)] = Node(head_of(entry), Kind.HEAD, scope, [])
        return scope

    def feed_back(self, entry: str, *tails: str) -> None:
        self.nodes[head_of(entry)].inputs += tails

    def channels(self) -> list[tuple[str, str]]:
        """(from, to) each, the feedback channels among them."""
        found = [(tail, node.name) for node in self.nodes.values() for tail in node.inputs]
        return found + [(head_of(node.name), node.name) for node in self.nodes.values() if node.kind is Kind.ENTRY]

    def upstream(self, name: str) -> frozenset[str]:
        """All from which something can come to it."""
        found, frontier = {name}, {name}
        while frontier:
            frontier = {tail for tail, to in self.channels() if to in frontier} - found
            found |= frontier
        return frozenset(found)

    def make(self, node: Node) -> Operator | None:
        inputs = frozenset(f"{tail}>{node.name}" for tail in node.inputs)
        match node.kind:
            case Kind.REGULAR:
                return RegularOperator.of(node.scope, inputs)
            case Kind.ENTRY:
                return EntryOperator.of(node.scope, inputs, f"{head_of(node.name)}>{node.name}")
            case Kind.HEAD:
                return HeadOperator.of(node.scope, inputs)
            case _:
                return None


# -- small graphs ----------------------------------------------------------------------------------------


def one_loop() -> Graph:
    """FLIP-15's Fig. 1: a, b, c with the loop b-t-head-b (E-6)."""
    graph = Graph()
    graph.source("a")
    loop = graph.loop("b", DEFAULT_SCOPE, "a")
    graph.operator("t", loop, "b")
    graph.feed_back("b", "t")
    graph.operator("c", DEFAULT_SCOPE, "b")
    return graph


def two_in_sequence() -> Graph:
    """The second loop reads what the body of the first sends out, with no operator between them."""
    graph = Graph()
    graph.source("a")
    first = graph.loop("b", DEFAULT_SCOPE, "a")
    graph.operator("t", first, "b")
    graph.feed_back("b", "t")
    second = graph.loop("d", DEFAULT_SCOPE, "t")
    graph.operator("u", second, "d")
    graph.feed_back("d", "u")
    return graph


def side_by_side() -> Graph:
    """Two loops whose outputs are joined."""
    graph = Graph()
    graph.source("a")
    for entry, tail in ("b", "t"), ("d", "u"):
        loop = graph.loop(entry, DEFAULT_SCOPE, "a")
        graph.operator(tail, loop, entry)
        graph.feed_back(entry, tail)
    graph.operator("join", DEFAULT_SCOPE, "t", "u")
    return graph


def nested() -> Graph:
    """Depth 2; what the inner loop makes is feedback and output of the outer one (E-7)."""
    graph = Graph()
    graph.source("a")
    outer = graph.loop("b", DEFAULT_SCOPE, "a")
    inner = graph.loop("d", outer, "b")
    graph.operator("u", inner, "d")
    graph.feed_back("d", "u")
    graph.feed_back("b", "u")
    graph.operator("c", DEFAULT_SCOPE, "u")
    return graph


def nested_and_joined() -> Graph:
    """Depth 2; the body of the outer loop joins what went through the inner loop with what did not."""
    graph = Graph()
    graph.source("a")
    outer = graph.loop("b", DEFAULT_SCOPE, "a")
    inner = graph.loop("d", outer, "b")
    graph.operator("u", inner, "d")
    graph.feed_back("d", "u")
    graph.operator("join", outer, "b", "u")
    graph.feed_back("b", "join")
    return graph


def inner_loop_beside_the_middle_one() -> Graph:
    """Depth 3; the innermost loop leads to the head of the outermost, and not to that of the one around it."""
    graph = Graph()
    graph.source("a")
    outer = graph.loop("b", DEFAULT_SCOPE, "a")
    middle = graph.loop("d", outer, "b")
    graph.feed_back("d", "d")
    graph.loop("f", middle, "d")
    graph.feed_back("f", "f")
    graph.feed_back("b", "f")
    return graph


def two_feedbacks() -> Graph:
    """Two operators of one body feed back, one of them by way of a join."""
    graph = Graph()
    graph.source("a")
    loop = graph.loop("b", DEFAULT_SCOPE, "a")
    graph.operator("s", loop, "b")
    graph.operator("t", loop, "b", "s")
    graph.feed_back("b", "s", "t")
    return graph


def output_beside_the_loop() -> Graph:
    """A part of the body leads out of the loop, and not to its head, which so does not wait for it."""
    graph = Graph()
    graph.source("a")
    loop = graph.loop("b", DEFAULT_SCOPE, "a")
    graph.feed_back("b", "b")
    graph.operator("out", loop, "b")
    graph.operator("join", loop, "b", "out")
    return graph


def no_loop() -> Graph:
    """A diamond with two sources (S10-1)."""
    graph = Graph()
    graph.source("a")
    graph.source("a2")
    graph.operator("b", DEFAULT_SCOPE, "a")
    graph.operator("c", DEFAULT_SCOPE, "a", "a2")
    graph.operator("d", DEFAULT_SCOPE, "b", "c")
    return graph


SMALL: dict[str, Callable[[], Graph]] = {
    made.__name__: made
    for made in (
        no_loop,
        one_loop,
        two_feedbacks,
        output_beside_the_loop,
        two_in_sequence,
        side_by_side,
        nested,
        nested_and_joined,
        inner_loop_beside_the_middle_one,
    )
}


# -- random graphs ---------------------------------------------------------------------------------------


def random_graph(chance: random.Random, loops: int, depth: int) -> Graph:
    """So many loops, in sequence, side by side and nested up to that depth, with a few that park data."""
    graph = Graph()
    sources = [f"source{number}" for number in range(chance.randint(1, 3))]
    for name in sources:
        graph.source(name)
    maker = _Maker(graph, chance, loops, depth)
    left = maker.body(DEFAULT_SCOPE, sources)
    while maker.loops_left:
        left = maker.body(DEFAULT_SCOPE, left)
    graph.operator("sink", DEFAULT_SCOPE, *left)
    regular = [name for name, node in graph.nodes.items() if node.kind is Kind.REGULAR]
    graph.parks = frozenset(chance.sample(regular, len(regular) // 4))
    return graph


class _Maker:
    def __init__(self, graph: Graph, chance: random.Random, loops: int, depth: int) -> None:
        self.graph, self.chance, self.loops_left, self.depth, self.made = graph, chance, loops, depth, 0

    def body(self, scope: StreamScope, streams: Iterable[str]) -> list[str]:
        """Operators and loops in one scope; what they leave to read."""
        left = list(streams)
        for _ in range(self.chance.randint(1, 3)):
            inputs = self.chance.sample(left, self.chance.randint(1, min(2, len(left))))
            if self.loops_left and scope.level < self.depth and self.chance.random() < 0.8:
                made = self.loop(scope, inputs)
            else:
                made = [self.name("op")]
                self.graph.operator(made[0], scope, *inputs)
            keep = left if self.chance.random() < 0.3 else [one for one in left if one not in inputs]
            left = [*keep, *made]
        return left

    def loop(self, outer: StreamScope, inputs: list[str]) -> list[str]:
        """One loop; the outputs that leave it."""
        self.loops_left -= 1
        entry = self.name("entry")
        scope = self.graph.loop(entry, outer, *inputs)
        left = self.body(scope, [entry])
        feedback = self.chance.sample(left, self.chance.randint(1, min(2, len(left))))
        self.graph.feed_back(entry, *feedback)
        rest = [one for one in left if one not in feedback]
        return rest or feedback

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"
