"""A model of Spark under a pipeline: nodes, tasks, shuffles that are lost and silently made again, a store.

It knows nothing of the core. What rows a partition holds is modelled by what they were made from: equal rows are
the same number, and `Spark.origins` knows what each was made from. A stage that is not deterministic draws a number
each time it makes rows, from few, so that rows made again are now and then the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.core.ids import ExecutionAttemptID

Partition = tuple[str, int]

MAP_TASKS = 3
SLOTS = 2


Rows = int
"""Equal numbers, equal rows."""


@dataclass(frozen=True)
class Origin:
    """What rows of `name` were made from, and with which draw."""

    name: str
    part: int
    read: tuple[tuple[Partition, Rows], ...]
    draw: int


@dataclass(frozen=True)
class StageModel:
    """One stage. `inputs`: [stage -> whether partition i reads only partition i of it].

    What is `cached` is held by executors, in one piece, and made when a task reads it.
    """

    name: str
    partitions: int
    inputs: Mapping[str, bool]
    shuffles: bool
    deterministic: bool | None
    comparable: bool
    cached: bool = False


@dataclass
class Commit:
    """What a manifest names: the first to be committed under its version."""

    rows: Rows
    task: int
    writer: int
    attempt: ExecutionAttemptID
    lost: bool = False


@dataclass
class MapOutput:
    rows: Rows
    task: int
    node: str


@dataclass
class Task:
    """A running attempt; what it reads it has read when it started."""

    attempt: ExecutionAttemptID
    version: int
    task: int
    node: str
    rows: Rows
    started: float
    ends: float
    plan: int
    told: bool = False
    killed_at: float = float("inf")


@dataclass
class Shuffle:
    """The map side of a plan of a stage, in one driver."""

    outputs: list[MapOutput | None] = field(default_factory=lambda: [None] * MAP_TASKS)
    complete_once: bool = False
    ran_again: bool = False


@dataclass
class Cached:
    """What executors hold of a cached stage."""

    rows: Rows
    node: str


class InputMissing(Exception):
    """A task cannot read this stored partition."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self.partition = partition


class Spark:
    """Executors on nodes, and the store, which outlives every driver."""

    def __init__(self, draw: random.Random, stages: Iterable[StageModel], nodes: int) -> None:
        self.draw = draw
        self.stages = {stage.name: stage for stage in stages}
        self.slow = dict.fromkeys((f"n{number}" for number in range(nodes)), 1.0)
        self.store: dict[tuple[str, int, int], Commit] = {}
        self.tasks: list[Task] = []
        self.shuffles: dict[tuple[str, int], Shuffle] = {}
        self.cached: dict[tuple[str, int], Cached] = {}
        """[(stage, the number of the driver's frame) -> what is held]"""
        self._held_once: set[tuple[str, int]] = set()
        self.writer = 1
        self.origins: list[Origin] = []
        self._rows: dict[Origin, Rows] = {}
        self._next_task = 0

    # -- what a driver asks for ------------------------------------------------------------------------

    def start(
        self,
        attempt: ExecutionAttemptID,
        version: int,
        plan: int,
        versions: Mapping[str, tuple[int, ...]],
        avoid: Iterable[str],
        now: float,
    ) -> None:
        """Raises InputMissing when a stored partition that it reads is gone."""
        stage = self.stages[attempt.vertex_id.vertex]
        free = [node for node in self.slow if sum(one.node == node for one in self.tasks) < SLOTS]
        choice = [node for node in free if node not in set(avoid)] or free or list(self.slow)
        node = self.draw.choice(choice)
        rows = self._make(stage, attempt.vertex_id.subtask, plan, versions, node)
        seconds = self.draw.uniform(1, 10) * self.slow[node]
        self.tasks.append(Task(attempt, version, self._number(), node, rows, now, now + seconds, plan))

    def kill(self, task: Task, now: float) -> None:
        """It dies a little later, and may have committed before."""
        task.killed_at = min(task.killed_at, now + self.draw.choice((0.0, 1.0, 5.0)))

    def pass_time(self, now: float) -> list[Task]:
        """Commit what has ended; the tasks that failed instead."""
        failed = []
        for task in sorted(self.tasks, key=lambda one: one.ends):
            if min(task.ends, task.killed_at) > now:
                continue
            self.tasks.remove(task)
            if task.ends > task.killed_at:
                continue
            if self.draw.random() < 0.05:
                failed.append(task)
            else:
                self._commit(task)
        return failed

    # -- what happens to it ----------------------------------------------------------------------------

    def lose_node(self, node: str) -> list[Task]:
        """Its tasks, which are gone; its map outputs are gone too."""
        gone = [task for task in self.tasks if task.node == node]
        self.tasks = [task for task in self.tasks if task.node != node]
        for shuffle in self.shuffles.values():
            shuffle.outputs = [one if one is None or one.node != node else None for one in shuffle.outputs]
        self.cached = {key: one for key, one in self.cached.items() if one.node != node}
        return gone

    def lose_driver(self) -> None:
        """Everything that runs ends; some of it has just committed."""
        for task in self.tasks:
            if self.draw.random() < 0.3:
                self._commit(task)
        self.tasks, self.shuffles, self.cached = [], {}, {}
        self.writer += 1

    def lose_partition(self) -> None:
        if self.store:
            self.store[self.draw.choice(sorted(self.store))].lost = True

    def lose_block(self) -> None:
        """Its executor lives."""
        if self.cached:
            del self.cached[self.draw.choice(sorted(self.cached))]

    # -- rows ------------------------------------------------------------------------------------------

    def _make(
        self, stage: StageModel, part: int, plan: int, versions: Mapping[str, tuple[int, ...]], node: str
    ) -> Rows:
        if not stage.shuffles:
            return self._rows_of(Origin(stage.name, part, self._read(stage, part, versions), self._draw(stage)))
        shuffle = self.shuffles.setdefault((stage.name, plan), Shuffle())
        for number, output in enumerate(shuffle.outputs):
            if output is None:
                shuffle.ran_again |= shuffle.complete_once
                made = Origin(f"{stage.name}.map", number, self._read(stage, None, versions), self._draw(stage))
                where = self.draw.choice([*self.slow, node])
                shuffle.outputs[number] = MapOutput(self._rows_of(made), self._number(), where)
        shuffle.complete_once = True
        read = tuple(((f"{stage.name}.map", n), one.rows) for n, one in enumerate(shuffle.outputs) if one)
        return self._rows_of(Origin(stage.name, part, read, 0))

    def _rows_of(self, origin: Origin) -> Rows:
        rows = self._rows.setdefault(origin, len(self.origins))
        if rows == len(self.origins):
            self.origins.append(origin)
        return rows

    def _read(
        self, stage: StageModel, part: int | None, versions: Mapping[str, tuple[int, ...]]
    ) -> tuple[tuple[Partition, Rows], ...]:
        read = []
        for name, only_own in sorted(stage.inputs.items()):
            if self.stages[name].cached:
                read.append(((name, 0), self._held(self.stages[name], versions)))
                continue
            for number, version in enumerate(versions[name]):
                if only_own and part is not None and number != part:
                    continue
                commit = self.store.get((name, number, version))
                if commit is None or commit.lost:
                    raise InputMissing((name, number))
                read.append(((name, number), commit.rows))
        return tuple(read)

    def _held(self, stage: StageModel, versions: Mapping[str, tuple[int, ...]]) -> Rows:
        """The rows of a cached stage: made once, and those that come out the same again when they are lost."""
        (frame,) = versions[stage.name]
        key = (stage.name, frame)
        if key not in self.cached:
            if key in self._held_once and not self._is_made_again(stage):
                raise InputMissing((stage.name, 0))
            made = Origin(stage.name, 0, self._read(stage, None, versions), self._draw(stage))
            self.cached[key] = Cached(self._rows_of(made), self.draw.choice(list(self.slow)))
            self._held_once.add(key)
        return self.cached[key].rows

    def _is_made_again(self, stage: StageModel) -> bool:
        """Whether it promises the same rows, and so does what of it is cached too."""
        inputs = [self.stages[name] for name in stage.inputs]
        return bool(stage.deterministic) and all(self._is_made_again(one) for one in inputs if one.cached)

    def _draw(self, stage: StageModel) -> int:
        return 0 if stage.deterministic else self.draw.randrange(3)

    def _commit(self, task: Task) -> None:
        vertex = task.attempt.vertex_id
        key = (vertex.vertex, vertex.subtask, task.version)
        self.store.setdefault(key, Commit(task.rows, task.task, self.writer, task.attempt))

    def _number(self) -> int:
        self._next_task += 1
        return self._next_task
