"""Which nodes the detectors call slow, in simulated stages of which it is known which nodes are.

    python benchmarks/detection.py                 the table of docs/benchmarks.md
    python benchmarks/detection.py --cases 2000    with so many drawn cases of each kind

Simulated is only what happens to tasks: how much each reads, where and when it runs and how long it takes. The
execution graph that the detectors look at is the real one. A stage is run to its end without copies or blocks,
and the detectors are asked at every finished task and at regular times between.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import markdown
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_graph import JobGraph, JobVertex
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.options import BlocklistOptions, FailoverOptions, SlowTaskDetectorOptions, SpeculationOptions
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, SlowTaskDetector

STAGE = "stage"
LOOKS = 60
"""So many times a stage is looked at between its start and its end, beside each time that a task has finished."""


@dataclass(frozen=True)
class Node:
    """`hardware` times as slow for good; `factor` times slower than that from `sick_from` on; there from `joins`.

    Its first attempts take `cold` seconds longer.
    """

    name: str
    slots: int = 1
    hardware: float = 1.0
    factor: float = 1.0
    sick_from: float = 0.0
    joins: float = 0.0
    cold: float = 0.0

    def end(self, start: float, seconds: float) -> float:
        """When an attempt ends that a healthy node would need `seconds` for."""
        work = seconds * self.hardware
        well = max(0.0, min(work, self.sick_from - start))
        return start + well + (work - well) * self.factor


@dataclass(frozen=True)
class Case:
    """A stage. `tasks`: (bytes read, or None where that is not known; seconds on a healthy node)."""

    nodes: tuple[Node, ...]
    tasks: tuple[tuple[int | None, float], ...]
    placed: tuple[str, ...] = ()
    """Node of each task where the scheduler has no choice; else whatever slot is free."""


@dataclass(frozen=True, order=True)
class Attempt:
    """What was run: in the order of its end."""

    end: float
    start: float
    subtask: int
    node: str = field(compare=False)
    seconds: float = field(compare=False)


def timeline(case: Case) -> list[Attempt]:
    """Tasks in their order, each to the slot that is free first, as Spark does."""
    free = [
        (node.joins, number, node) for number, node in enumerate(node for node in case.nodes for _ in range(node.slots))
    ]
    heapq.heapify(free)
    first_end: dict[str, float] = {}
    waiting = list(range(len(case.tasks)))
    done: list[Attempt] = []
    while waiting and free:
        at, number, node = heapq.heappop(free)
        subtask = next((one for one in waiting if not case.placed or case.placed[one] == node.name), None)
        if subtask is None:
            continue
        waiting.remove(subtask)
        seconds = case.tasks[subtask][1]
        cold = node.cold if at < first_end.get(node.name, math.inf) else 0.0
        end = node.end(at, seconds + cold)
        first_end[node.name] = min(end, first_end.get(node.name, math.inf))
        done.append(Attempt(end, at, subtask, node.name, seconds * node.hardware + cold))
        heapq.heappush(free, (end, number, node))
    return done


@dataclass(frozen=True)
class Found:
    """Nodes that were sick, with the time of the first attempt there that was twice too slow; nodes called slow,
    with the time of the first call."""

    sick: dict[str, float]
    called: dict[str, float]


def look(case: Case, detector: SlowTaskDetector) -> Found:
    """Run the stage and ask the detector all along."""
    attempts = timeline(case)
    vertex = JobVertex(STAGE, len(case.tasks))
    graph = ExecutionGraph(
        JobGraph("case", (vertex,), ()),
        speculation=SpeculationOptions(enabled=True),
        failover=FailoverOptions(),
        blocklist=BlocklistOptions(),
    )
    graph.handle(ev.JobSubmitted(), 0.0)
    ends = max(one.end for one in attempts)
    happens = [(one.start, 1, one) for one in attempts] + [(one.end, 0, one) for one in attempts]
    looks = [(one.end, 2, one) for one in attempts] + [(ends * n / LOOKS, 2, attempts[0]) for n in range(1, LOOKS)]
    node_of: dict[ExecutionAttemptID, str] = {}
    called: dict[str, float] = {}
    for at, what, one in sorted(happens + looks):
        attempt = ExecutionAttemptID(ExecutionVertexID(STAGE, one.subtask), 0)
        if what == 1:
            node_of[attempt] = one.node
            graph.handle(ev.AttemptDeployed(attempt, one.node, at, case.tasks[one.subtask][0]), at)
        elif what == 0:
            graph.handle(ev.AttemptFinished(attempt, at, ev.PartitionOutput(1, 1)), at)
        else:
            for _, slow, _ in detector.find_slow(graph, at).slow:
                for each in slow:
                    called.setdefault(node_of[each], at)
    sick: dict[str, float] = {}
    for one in attempts:
        if one.end - one.start >= 2 * one.seconds:
            sick[one.node] = min(one.start, sick.get(one.node, math.inf))
    return Found(sick, called)


# -- kinds of cases ------------------------------------------------------------------------------------


def _nodes(draw: random.Random, least: int = 3) -> list[Node]:
    slots = draw.randint(1, 3)
    return [Node(f"n{number}", slots=slots) for number in range(draw.randint(least, 8))]


def _tasks(
    draw: random.Random, count: int, *, skew: float = 0.2, noise: float = 0.2, known: bool = True
) -> list[tuple[int | None, float]]:
    """`skew` and `noise`: of the logarithms of bytes, and of seconds per byte."""
    typical = draw.uniform(20, 90)
    tasks: list[tuple[int | None, float]] = []
    for _ in range(count):
        share = draw.lognormvariate(0, skew)
        seconds = typical * (0.1 + 0.9 * share) * draw.lognormvariate(0, noise)
        tasks.append((round(share * 1e8) if known else None, seconds))
    return tasks


def _count(draw: random.Random, nodes: list[Node]) -> int:
    slots = sum(node.slots for node in nodes)
    return max(2, round(slots * draw.uniform(1, 4)))


def _sicken(draw: random.Random, nodes: list[Node], how_many: int, sick_from: float = 0.0) -> tuple[Node, ...]:
    chosen = set(draw.sample(range(len(nodes)), how_many))
    return tuple(
        Node(one.name, one.slots, factor=draw.uniform(4, 20), sick_from=sick_from) if number in chosen else one
        for number, one in enumerate(nodes)
    )


def one_sick(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    return Case(_sicken(draw, nodes, 1), tuple(_tasks(draw, _count(draw, nodes))))


def third_of_the_tasks(draw: random.Random) -> Case:
    nodes = [Node(f"n{number}", slots=draw.randint(1, 4)) for number in range(3)]
    tasks = _tasks(draw, 3 * draw.randint(1, 8))
    placed = tuple(f"n{number % 3}" for number in range(len(tasks)))
    return Case(_sicken(draw, nodes, 1), tuple(tasks), placed)


def two_or_three_tasks(draw: random.Random) -> Case:
    nodes = [Node(f"n{number}") for number in range(draw.randint(2, 3))]
    return Case(_sicken(draw, nodes, 1), tuple(_tasks(draw, len(nodes))), tuple(node.name for node in nodes))


def two_sick(draw: random.Random) -> Case:
    nodes = _nodes(draw, least=5)
    return Case(_sicken(draw, nodes, 2), tuple(_tasks(draw, _count(draw, nodes))))


def sick_half_way(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    tasks = _tasks(draw, 3 * sum(node.slots for node in nodes))
    return Case(_sicken(draw, nodes, 1, sick_from=draw.uniform(1, 2) * tasks[0][1]), tuple(tasks))


def sick_bytes_unknown(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    return Case(_sicken(draw, nodes, 1), tuple(_tasks(draw, _count(draw, nodes), known=False)))


def healthy(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    return Case(tuple(nodes), tuple(_tasks(draw, _count(draw, nodes))))


def skewed(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    return Case(tuple(nodes), tuple(_tasks(draw, _count(draw, nodes), skew=draw.uniform(0.7, 1.5), noise=0.3)))


def skewed_bytes_unknown(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    tasks = _tasks(draw, _count(draw, nodes), skew=draw.uniform(0.5, 1.0), noise=0.3, known=False)
    return Case(tuple(nodes), tuple(tasks))


def mixed_hardware(draw: random.Random) -> Case:
    nodes = _nodes(draw, least=4)
    mixed = tuple(Node(one.name, one.slots, hardware=1.5 if number % 2 else 1.0) for number, one in enumerate(nodes))
    return Case(mixed, tuple(_tasks(draw, _count(draw, nodes))))


def big_partitions_on_one_node(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    count = _count(draw, nodes)
    big = draw.uniform(4, 12)
    tasks: list[tuple[int | None, float]] = []
    placed: list[str] = []
    for number, (read, seconds) in enumerate(_tasks(draw, count)):
        node = nodes[number % len(nodes)]
        times = big if node is nodes[0] else 1.0
        tasks.append((round((read or 0) * times), seconds * times))
        placed.append(node.name)
    return Case(tuple(nodes), tuple(tasks), tuple(placed))


def cold_starts(draw: random.Random) -> Case:
    nodes = _nodes(draw)
    cold = draw.uniform(5, 25)
    late = draw.randrange(len(nodes))
    tasks = _tasks(draw, 2 * _count(draw, nodes))
    cold_nodes = (
        Node(one.name, one.slots, cold=cold * draw.uniform(0.7, 1.3), joins=60.0 if number == late else 0.0)
        for number, one in enumerate(nodes)
    )
    return Case(tuple(cold_nodes), tuple(tasks))


Kind = Callable[[random.Random], Case]

SICK: dict[str, Kind] = {
    "one sick node": one_sick,
    "a third of the tasks on it": third_of_the_tasks,
    "two or three tasks in all": two_or_three_tasks,
    "two sick nodes": two_sick,
    "it turns sick half-way": sick_half_way,
    "bytes are not known": sick_bytes_unknown,
}
WELL: dict[str, Kind] = {
    "nothing is wrong": healthy,
    "skewed partitions": skewed,
    "skewed, bytes not known": skewed_bytes_unknown,
    "half the nodes 1.5 times slower": mixed_hardware,
    "all big partitions on one node": big_partitions_on_one_node,
    "cold starts, one node joins late": cold_starts,
}

DETECTORS: dict[str, SlowTaskDetector] = {
    "nodeAware": NodeAwareSlowTaskDetector(),
    "executionTime": ExecutionTimeBasedSlowTaskDetector(SlowTaskDetectorOptions(baseline_lower_bound=10.0)),
}


@dataclass
class Score:
    """Of one detector on one kind of cases."""

    sick: int = 0
    found: int = 0
    false: int = 0
    cases: int = 0
    alarmed: int = 0

    def add(self, found: Found) -> None:
        self.cases += 1
        self.sick += len(found.sick)
        self.found += len(found.sick.keys() & found.called.keys())
        wrong = found.called.keys() - found.sick.keys()
        self.false += len(wrong)
        self.alarmed += bool(wrong)

    @property
    def recall(self) -> float | None:
        """Share of the sick nodes that were called so."""
        return self.found / self.sick if self.sick else None

    @property
    def precision(self) -> float | None:
        """Share of the nodes called sick that were."""
        called = self.found + self.false
        return self.found / called if called else None

    @property
    def false_alarms(self) -> float:
        """Share of the stages in which a healthy node was called sick."""
        return self.alarmed / self.cases


def score(kind: Kind, detector: SlowTaskDetector, seeds: Iterable[int]) -> Score:
    """A detector on cases drawn by these seeds."""
    total = Score()
    for seed in seeds:
        total.add(look(kind(random.Random(seed)), detector))
    return total


def rows(cases: int) -> Iterator[tuple[object, ...]]:
    """Of the table: each kind, and for each detector recall and share of stages with a false alarm."""
    for name, kind in {**SICK, **WELL}.items():
        scores = [score(kind, detector, range(cases)) for detector in DETECTORS.values()]
        yield (name, *(value for one in scores for value in (one.recall, one.precision, one.false_alarms)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="cases of each kind (default: %(default)s)")
    options = parser.parse_args()
    head = [
        "",
        *(f"{name}: {what}" for name in DETECTORS for what in ("recall", "precision", "stages with a false alarm")),
    ]
    print(markdown(head, rows(options.cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
