"""A drawn job on a drawn cluster with drawn faults, and what must hold."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.options import BlocklistOptions, FailoverOptions, FailoverStrategyKind, SpeculationOptions
from tests.unit.simulation.driver import Driver
from tests.unit.simulation.spark import Partition, Rows, Spark, StageModel

MOST_ROUNDS = 3000
HANGS = 200.0


class Broken(AssertionError):
    """Something that must hold does not; the message has the trace."""


LATE_READERS = (
    # Somebody has finished with a result while another has still to read it: what is lost is made again, and those
    # who have finished may be spared.
    ((), ("s0",), ("s1",), ("s0", "s2"), ("s1", "s2")),
    ((), (), ("s0", "s1"), ("s2",), ("s2", "s3")),
)
"""What each stage reads."""


def draw_late_readers(draw: random.Random) -> list[StageModel]:
    promises = [draw.choice((None, True)) for _ in range(5)]
    return [
        StageModel(
            f"s{number}",
            draw.randint(1, 2),
            dict.fromkeys(inputs, False),
            shuffles=draw.random() < 0.3,
            deterministic=promises[number],
            comparable=draw.random() < 0.7,
            cached=False,
        )
        for number, inputs in enumerate(draw.choice(LATE_READERS))
    ]


def draw_stages(draw: random.Random) -> list[StageModel]:
    if draw.random() < 0.3:
        return draw_late_readers(draw)
    stages: list[StageModel] = []
    for number in range(draw.randint(1, 5)):
        chosen = draw.sample(stages, k=min(len(stages), draw.choice((0, 1, 1, 2))))
        cached = draw.random() < 0.2
        pointwise = bool(chosen) and not cached and not chosen[0].cached and draw.random() < 0.4
        own = chosen[0].name if pointwise else None
        partitions = 1 if cached else chosen[0].partitions if pointwise else draw.randint(1, 4)
        stages.append(
            StageModel(
                f"s{number}",
                partitions,
                {one.name: one.name == own for one in chosen},
                shuffles=not cached and not pointwise and draw.random() < 0.8,
                deterministic=draw.choice((None, None, True, False)),
                comparable=draw.random() < 0.7,
                cached=cached,
            )
        )
    read = {name for stage in stages for name in stage.inputs}
    return [replace(stage, cached=stage.cached and stage.name in read) for stage in stages]


def to_job_graph(stages: list[StageModel]) -> JobGraph:
    vertices, edges = list[JobVertex](), list[JobEdge]()
    cached = {stage.name for stage in stages if stage.cached}
    promises: dict[str, bool | None] = {}
    for stage in stages:
        head = stage.name
        held = all(promises[name] for name in stage.inputs if name in cached)
        promises[stage.name] = stage.deterministic if held or stage.deterministic is False else None
        if stage.shuffles:
            head = f"{stage.name}.map"
            vertices.append(JobVertex(head, 1, speculative=False, deterministic=promises[stage.name]))
            edges.append(JobEdge(head, stage.name, ResultKind.EPHEMERAL, DistributionPattern.ALL_TO_ALL))
        vertices.append(JobVertex(stage.name, stage.partitions, deterministic=promises[stage.name]))
        for name, only_own in stage.inputs.items():
            pattern = DistributionPattern.POINTWISE if only_own else DistributionPattern.ALL_TO_ALL
            kind = ResultKind.CACHED if name in cached else ResultKind.BLOCKING
            edges.append(JobEdge(name, head, kind, pattern))
    return JobGraph("drawn", tuple(vertices), tuple(edges))


class World:
    """One seed, one history. `run` raises Broken."""

    def __init__(self, seed: int) -> None:
        self.seed, self.draw = seed, random.Random(seed)
        self.stages = draw_stages(self.draw)
        self.spark = Spark(self.draw, self.stages, nodes=self.draw.randint(2, 5))
        self.job_graph = to_job_graph(self.stages)
        self.options = self._draw_options()
        self.driver = Driver(self.draw, self.spark, self.job_graph, self.options, self._check)

    def _draw_options(self) -> dict[str, Any]:
        strategy = FailoverStrategyKind.RESTART_ALL if self.draw.random() < 0.1 else FailoverStrategyKind.REGION
        return {
            "speculation": SpeculationOptions(self.draw.random() < 0.7, self.draw.randint(1, 3)),
            "failover": FailoverOptions(strategy, max_failures_per_task=1000),
            "blocklist": BlocklistOptions(Fraction(1, 2)),
        }

    def run(self) -> None:
        """Faults for some time, then none, and the job must end, with the right rows."""
        faults = self.draw.randint(0, 12)
        for number in range(MOST_ROUNDS):
            if self._is_over():
                break
            if faults and self.draw.random() < 0.15:
                faults -= 1
                self._fault()
                if not faults:
                    self._heal()
            if number == MOST_ROUNDS - 1:
                self._break("it does not end")
            self.driver.round(self.draw.choice((0.5, 1.0, 3.0)))
        if self.driver.core.has_failed:
            self._break("it failed, and no budget was used up by its own faults")
        self._check_rows()
        self._check_leaks()

    def _is_over(self) -> bool:
        return self.driver.core.is_done or self.driver.core.has_failed

    def _fault(self) -> None:
        node = self.draw.choice(list(self.spark.slow))
        match self.draw.randrange(6):
            case 0:
                if self.draw.random() < 0.3:
                    self.options = self._draw_options()
                self.driver.driver_lost(self.options)
            case 1 | 2:
                self.spark.lose_partition()
            case 3:
                self.driver.node_lost(node)
            case 4:
                self.spark.slow[node] = self.draw.choice((1.0, 10.0, 1000.0))
            case 5:
                self.spark.slow[node] = 1.0
                self.spark.lose_block()

    def _heal(self) -> None:
        """Nodes that are slow, or have tasks that hang, are replaced in the end."""
        hanging = {task.node for task in self.spark.tasks if task.ends > self.driver.now + HANGS}
        for node, factor in self.spark.slow.items():
            if factor > 1 or node in hanging:
                self.driver.node_lost(node)
                self.spark.slow[node] = 1.0

    # -- what must hold --------------------------------------------------------------------------------

    def _check(self, driver: Driver, event: ev.Event, answer: list[act.Action]) -> None:
        try:
            driver.core.validate_state()
        except AssertionError as error:
            self._break(str(error))
        for action in answer:
            if isinstance(action, act.Restart) and self._is_by_region():
                self._check_reach(event, action)

    def _is_by_region(self) -> bool:
        failover: FailoverOptions = self.options["failover"]
        return failover.strategy is FailoverStrategyKind.REGION

    def _check_reach(self, event: ev.Event, restart: act.Restart) -> None:
        """Nothing restarts but what reads, directly or not, what was hit, and what has to be made for that."""
        hit: set[str] = set()
        match event:
            case ev.AttemptFailed(attempt=attempt, cause=cause):
                hit = {attempt.vertex_id.vertex} | ({cause.partition.vertex} if cause.partition else set())
            case ev.PartitionsLost(partitions=partitions):
                hit = {one.vertex for one in partitions}
            case ev.AttemptFinished(attempt=attempt):
                hit = {attempt.vertex_id.vertex}
            case _:
                return
        while True:
            more = hit | {edge.consumer for edge in self.job_graph.edges if edge.producer in hit}
            wanted = [edge for edge in self.job_graph.edges if edge.consumer in hit and not self._is_there(edge)]
            more |= {edge.producer for edge in wanted}
            if more == hit:
                break
            hit = more
        beyond = {vertex.vertex for vertex in restart.vertices} - hit
        if beyond:
            self._break(f"{sorted(beyond)} restart, and nothing they read was hit by {event}")

    def _is_there(self, edge: JobEdge) -> bool:
        """Whether all that an input needs is stored; what is lost and was not noticed yet counts as lost."""
        if edge.kind is not ResultKind.BLOCKING:
            return False
        stored = self.spark.store
        return all(
            (commit := stored.get((edge.producer, task.id.subtask, task.version))) is not None and not commit.lost
            for task in self.driver.core.execution_vertices(edge.producer)
        )

    def _check_rows(self) -> None:
        """Every valid partition was made from valid partitions, or from ones with the same rows."""
        core, store, origins = self.driver.core, self.spark.store, self.spark.origins
        valid = {
            (stage.name, task.id.subtask): store[stage.name, task.id.subtask, task.version].rows
            for stage in self.stages
            if not stage.cached
            for task in core.execution_vertices(stage.name)
            if task.is_finished
        }
        held: dict[str, set[Rows]] = {stage.name: set() for stage in self.stages if stage.cached}
        for stage in self.stages:
            sides = set()
            for part in range(stage.partitions):
                if (stage.name, part) not in valid:
                    continue
                origin = origins[valid[stage.name, part]]
                read = origin.read
                if stage.shuffles:
                    sides.add(origin.read)
                    read = tuple(one for _, made in origin.read for one in origins[made].read)
                for partition, rows in self._through_cached(read, held):
                    if valid.get(partition, rows) != rows:
                        self._break(f"{stage.name}[{part}] was made from rows of {partition} that are no longer valid")
            if len(sides) > 1:
                self._break(f"partitions of {stage.name} were made from different shuffles")
        for name, rows_held in held.items():
            if len(rows_held) > 1:
                self._break(f"the readers of {name} have read different rows of it")

    def _through_cached(
        self, read: Iterable[tuple[Partition, Rows]], held: dict[str, set[Rows]]
    ) -> Iterator[tuple[Partition, Rows]]:
        """The stored partitions that were read, also by cached stages, whose rows are added to `held`."""
        for partition, rows in read:
            if partition[0] in held:
                held[partition[0]].add(rows)
                yield from self._through_cached(self.spark.origins[rows].read, held)
            else:
                yield partition, rows

    def _check_leaks(self) -> None:
        """What runs when all is over was told to end."""
        core = self.driver.core
        for task in self.spark.tasks:
            vertex = task.attempt.vertex_id
            finished = core.execution_vertices(vertex.vertex)[vertex.subtask].is_finished
            if task.killed_at == float("inf") and not finished:
                self._break(f"{task.attempt} still runs")
        if core.is_done:
            unfinished = [name for name in self.job_graph.order if core.unfinished(name)]
            needed = [name for name in unfinished if not core.is_finished_for_good(name)]
            if needed:
                self._break(f"it is done, and {needed} have not finished")

    def _break(self, what: str) -> None:
        stages = "\n".join(f"  {stage}" for stage in self.stages)
        raise Broken(f"seed {self.seed}: {what}\n{stages}\n" + "\n".join(self.driver.trace[-60:]))
