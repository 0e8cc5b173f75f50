"""A driver as the watch sees one, in this process: it goes through a script by a clock that a test sets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from rekindle.api.settings import RekindleSettings
from rekindle.controller.speculation.races import RaceCounts
from rekindle.controller.speculation.spark_rest import Address, SparkRest, Stage, StageKey, Stages, Task, TaskStatus
from rekindle.controller.speculation.watch import DriverWatch, Seen
from rekindle.core.witness import CpuUse

NEVER = math.inf


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task: when it starts and ends, where, and what it reads.

    `so_far`: what it tells while it runs, None where it has told nothing yet.
    """

    index: int
    start: float
    end: float = NEVER
    executor: str = "1"
    number: int = 0
    reads: int | None = 100
    so_far: int | None = 50
    killed: bool = False
    """At its end: a sibling was faster."""

    def task(self, now: float, ahead: float = 0.0) -> Task:
        """As the driver tells of it at `now`, with a clock that is `ahead`."""
        runs = self.runs(now)
        read = self.so_far if runs else self.reads
        return Task(
            index=self.index,
            attempt=self.number,
            launched_at=self.start + ahead,
            seconds=None if runs else self.end - self.start,
            executor=self.executor,
            running=runs,
            speculative=self.number > 0,
            input_bytes=read,
            input_records=read,
            succeeded=self.has_finished(now),
        )

    def runs(self, now: float) -> bool:
        return self.start <= now < self.end

    def has_finished(self, now: float) -> bool:
        return self.end <= now and not self.killed

    def was_killed(self, now: float) -> bool:
        return self.end <= now and self.killed


@dataclass(frozen=True)
class Script:
    """A stage with so many tasks, and all that is ever attempted of them."""

    key: StageKey
    tasks: int
    attempts: tuple[Attempt, ...]
    begins: float
    ends: float

    def finished(self, now: float) -> int:
        return len({one.index for one in self.attempts if one.has_finished(now)})

    def stage(self, now: float, ahead: float) -> Stage:
        launched = [one.start for one in self.attempts if one.start <= now]
        return Stage(
            key=self.key,
            name="count at main.py:7",
            tasks=self.tasks,
            running=sum(one.runs(now) for one in self.attempts),
            finished=self.finished(now),
            failed=0,
            first_task_at=min(launched) + ahead if launched else None,
        )


class ScriptedDriver:
    """What a watch may ask of a driver, whose clock is `ahead`, and whose stages it counts wrongly in `miscounted`.

    `asked`: what it was, as "stages", "running 1.0" and "success 1.0".
    """

    def __init__(self, ahead: float = 0.0, **miscounted: Any) -> None:
        self._ahead, self._miscounted, self._scripts = ahead, miscounted, dict[StageKey, Script]()
        self.now = 0.0
        self.asked: list[str] = []

    def stage(
        self,
        *attempts: Attempt,
        tasks: int | None = None,
        key: StageKey = StageKey(1, 0),  # noqa: B008 (it is frozen)
        begins: float = 0.0,
        ends: float = NEVER,
    ) -> ScriptedDriver:
        """Add or replace a stage; without a number, it has the tasks that are attempted."""
        count = 1 + max(one.index for one in attempts) if tasks is None else tasks
        self._scripts[key] = Script(key, count, attempts, begins, ends)
        return self

    async def stages(self, address: Address, application_id: str) -> Stages:
        self.asked.append("stages")
        active = [one for one in self._scripts.values() if one.begins <= self.now < one.ends]
        found = (replace(one.stage(self.now, self._ahead), **self._miscounted) for one in active)
        return Stages(tuple(found), self._ahead or None)

    async def tasks(
        self,
        address: Address,
        application_id: str,
        stage: StageKey,
        status: TaskStatus,
        *,
        offset: int = 0,
        length: int = 5_000,
    ) -> list[Task]:
        self.asked.append(f"{status} {stage}")
        attempts = self._scripts[stage].attempts
        wanted = {"running": Attempt.runs, "success": Attempt.has_finished, "killed": Attempt.was_killed}[status]
        found = [one.task(self.now, self._ahead) for one in attempts if wanted(one, self.now)]
        return sorted(found, key=lambda one: one.launched_at)[offset : offset + length]


class Watched:
    """A watch of a driver, with settings as a manifest has them. `uses`: [executor -> what its pod tells]."""

    def __init__(self, driver: ScriptedDriver, nodes: Mapping[str, str] | None = None, **speculation: Any) -> None:
        settings = RekindleSettings.model_validate({"speculation": {"enabled": True, **speculation}})
        self.options = settings.to_core()
        self.driver, self.nodes = driver, {"1": "n1"} if nodes is None else nodes
        self.uses, self.asked_for_uses = dict[str, CpuUse](), 0
        rest, address = cast(SparkRest, driver), Address("10.0.0.1", 4040)
        self._watch = DriverWatch(rest, address, "spark-1", self.options, self._tell_uses)

    async def _tell_uses(self) -> Mapping[str, CpuUse]:
        self.asked_for_uses += 1
        return self.uses

    def look(self, now: float) -> Seen:
        self.driver.now = now
        return asyncio.run(self._watch.look(self.nodes, now))

    @property
    def counts(self) -> RaceCounts:
        """What has come of copies."""
        return self._watch.counts

    def slow(self, now: float) -> list[str]:
        """Tasks that are slow at `now`, one for each attempt."""
        return [one.task for one in self.look(now).slow]

    def asks(self, now: float) -> list[str]:
        """What a look asks of the driver."""
        self.driver.asked.clear()
        self.look(now)
        return list(self.driver.asked)


def took(*seconds: float, executor: str = "1", first: int = 0) -> Iterable[Attempt]:
    """Tasks that start at 0 and take so long, from index `first` on."""
    return (Attempt(first + place, 0.0, end, executor) for place, end in enumerate(seconds))


def straggler(*ends: float, **miscounted: Any) -> ScriptedDriver:
    """Tasks that take so long, and one more that never ends."""
    return ScriptedDriver(**miscounted).stage(*took(*ends), Attempt(len(ends), 0.0))


def beside_eight_of(
    seconds: float,
    *attempts: Attempt,
    tasks: int = 9,
    shortest: float = 0,
    nodes: Sequence[str] = "123",
    **miscounted: Any,
) -> Watched:
    """With `nodeAware`, eight tasks that took `seconds` on executors 1 and 2, one of them `shortest`; and others.

    `nodes`: executors whose node is known.
    """
    done = [*took(shortest or seconds, *[seconds] * 3), *took(*[seconds] * 4, executor="2", first=4)]
    driver = ScriptedDriver(**miscounted).stage(*done, *attempts, tasks=tasks)
    return Watched(driver, {number: f"n{number}" for number in nodes}, detector="nodeAware")


def young(count: int) -> list[Attempt]:
    """Tasks that started at 15 s on executor 3, after eight others."""
    return [Attempt(8 + place, 15.0, executor="3") for place in range(count)]
