"""One random run of a large graph, delivered in an order of its own: the same seed, the same run."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from tests.unit.core.loops.graphs import Graph, random_graph
from tests.unit.core.loops.network import Broken, Move, Network


@dataclass(frozen=True)
class Simulated:
    steps: int
    levels: int
    attempts: int


def simulate(seed: int, *, loops: int, depth: int, at_most: int = 200_000) -> Simulated:
    """Raises Broken where an invariant does not hold, or where it has not ended after so many steps."""
    chance = random.Random(seed)
    graph = random_graph(chance, loops, depth)
    to_all = chance.random() < 0.3
    fuel = chance.randint(1, 3 if to_all else 20)
    tokens, capacity = chance.choice([0, 2, 5, 10]), chance.randint(1, 4)
    network = Network(graph, tokens=tokens, fuel=fuel, capacity=capacity, to_all=to_all)
    slow = {f"{tail}>{to}" for tail, to in graph.channels() if chance.random() < 0.2}
    slow |= {name for name in graph.parks if chance.random() < 0.5}
    state, steps = network.start(), 0
    while places := _by_place(network.moves(state)):
        _, move = _choose(chance, graph, places, slow)
        state = move()
        steps += 1
        if steps > at_most:
            raise Broken(f"seed {seed}: it has not ended after {at_most} steps")
    network.check_over(state)
    attempts = sum(getattr(one, "attempt_id", 0) for one in state.operators)
    return Simulated(steps, max(node.scope.level for node in graph.nodes.values()), attempts)


def _by_place(moves: Iterable[Move]) -> dict[str, list[Move]]:
    """[channel or operator -> what may happen there]"""
    found: dict[str, list[Move]] = {}
    for label, move in moves:
        found.setdefault(label.split(" ", 1)[0], []).append((label, move))
    return found


def _choose(chance: random.Random, graph: Graph, places: dict[str, list[Move]], slow: set[str]) -> Move:
    """What is slow comes last, nearly always; data is seldom dropped, and rather stays in its loop than leaves it."""
    quick = [place for place in places if place not in slow]
    among = quick if quick and chance.random() < 0.98 else list(places)
    moves = places[chance.choice(among)]
    kept = [move for move in moves if not move[0].endswith(" drops")]
    moves = kept if kept and chance.random() < 0.98 else moves
    return max(moves, key=lambda move: _level(graph, move)) if chance.random() < 0.7 else chance.choice(moves)


def _level(graph: Graph, move: Move) -> int:
    """The scope level that data goes to with this move."""
    to = graph.nodes.get(move[0].rsplit(" ", 1)[-1])
    return -1 if to is None else to.scope.level
