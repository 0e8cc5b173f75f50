"""One running driver, followed through its REST: which of its tasks are slow, and of what.

A driver is asked only when the answer could change something (pace.py). A stage is looked into from the moment on
when one of its tasks may have run for the lower bound, which its running tasks tell. With `executionTime` its
finished tasks are asked for once, when it has passed its gate, for the first ceil(N * ratio) to finish stay the
first. With `nodeAware` they are asked for again before twice as many have finished, before anybody is blamed, and
every ten seconds while somebody is; and nothing is asked while no task has run for so long that its node could be
blamed, unless twice as many may have finished, or a stage that waits may have begun. Before one of these a driver
with one stage is asked for the tasks that run, and for nothing else.
What pods use is asked for where it could change who is blamed.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from rekindle.api.settings import CoreOptions
from rekindle.controller.speculation.cpu import AskForUses, CpuWitness, nobody_tells
from rekindle.controller.speculation.detection import Detection, SlowTask, blamed, judged
from rekindle.controller.speculation.driver_questions import MOST_ASKED_FOR, DriverQuestions
from rekindle.controller.speculation.known_stage import KnownStage, Places, first_of_each
from rekindle.controller.speculation.pace import LONGEST_PAUSE, Pace, ages_of
from rekindle.controller.speculation.races import RaceCounts, Races
from rekindle.controller.speculation.spark_rest import Address, SparkRest, Stage, StageKey, Task
from rekindle.controller.speculation.stages import SeenStage

log = logging.getLogger(__name__)

_CLOCK_SECONDS = 60.0
_BETWEEN_COUNTS = 10.0
"""Seconds between two counts of a stage's races."""

_MOST_FOLLOWED = 100_000
"""Tasks of all stages together, whatever a driver says that it has; each takes room here."""

_BLAMED_SECONDS = 10.0
"""In which finished tasks are not asked for again while the same nodes are blamed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a driver showed, and in how many seconds the next could show something else.

    `waiting_seconds`: about how long the tasks would take that wait for a slot, one after the other.
    """

    slow: tuple[SlowTask, ...]
    num_slow_vertices: int
    delay: float
    waiting_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Alone:
    """The one stage of a driver, of which nothing but the tasks that run could matter before `until`."""

    stage: Stage
    until: float
    waiting_seconds: float


class StreamingSeen(Exception):
    """The driver runs a streaming query: its tasks may run for good, and none of them is slow for it (S2-9)."""


class DriverWatch:
    """Follows one application of one driver."""

    def __init__(
        self,
        rest: SparkRest,
        address: Address,
        application_id: str,
        options: CoreOptions,
        ask_for_uses: AskForUses = nobody_tells,
    ) -> None:
        self._cpu, self._driver_clock = CpuWitness(ask_for_uses), 0.0
        self._driver, self._detection = DriverQuestions(rest, address, application_id), Detection(options)
        self._stages: dict[StageKey, KnownStage] = {}
        self._places = Places()
        self._looked_at = -math.inf
        self._pace, self._has_said = Pace(self._detection), False
        self._alone: _Alone | None = None
        self.counts = RaceCounts()
        """Of all races that are over."""

    async def look(self, nodes: Mapping[str, str], now: float) -> Seen:
        """What is slow at `now` (epoch seconds); `nodes`: [executor -> node].

        Raises DriverUnanswered, and StreamingSeen.
        """
        glance = await self._glance(nodes, now + self._driver_clock)
        return glance if glance is not None else await self._full_look(nodes, now)

    async def _full_look(self, nodes: Mapping[str, str], now: float) -> Seen:
        stages = await self._driver.stages()
        now = self._by_its_clock(now, stages.driver_clock or 0.0)
        if (batch := next((one for one in stages.found if one.is_streaming), None)) is not None:
            raise StreamingSeen(f"stage {batch.key} is of a streaming query")
        running = self._followed(stages.found)
        over = self._ended_races(running)
        self._remember(running, nodes)
        delays = [LONGEST_PAUSE]
        seen: list[SeenStage] = []
        is_quiet, is_alone = True, len(running) == 1
        for stage in running:
            memory = self._stages[stage.key]
            wait = self._pace.wait_for(stage, memory, now)
            if wait > 0:
                delays.append(wait)
                continue
            tasks = await self._running_tasks(stage, now)
            over += self._races_over(stage, now)
            if stage.finished < self._detection.gate(stage):
                if is_alone:
                    memory.quiet_until = now + self._pace.until_first(tasks, now)
                delays.append(self._pace.wait_for(stage, memory, now))
                continue
            if self._pace.is_to_learn(stage, memory):
                await self._learn(stage, now)
            seen.append(memory.seen(stage, tasks, self._places))
            delays.append(next_in := self._pace.next(stage, memory, seen[-1], now))
            is_quiet = is_quiet and max(ages_of(seen[-1], now), default=0.0) < self._pace.least(memory, seen[-1])
            if is_quiet and is_alone:  # another one's tasks may tell that these began on cold nodes
                memory.quiet_until = now + next_in
        delays.append(next_stage := self._pace.until_next_stage(running, self._stages))
        slow = [] if is_quiet else await self._find(running, seen, nodes, now)
        for key, size, races in over:
            self.counts += races.settle(await self._driver.ended(key, size))
        vertices = len({one.task for one in slow})
        delay = self._detection.interval if slow else max(min(delays), self._detection.interval)
        waiting_seconds = sum(map(self._waiting_seconds, running))
        if is_quiet and is_alone and self._detection.by_node is not None:
            (only,), ages = running, ages_of(seen[0], now) if seen else []
            more = min(LONGEST_PAUSE, next_stage, self._pace.until_learning(only, self._stages[only.key], ages))
            self._alone = _Alone(only, now + more, waiting_seconds)
        return Seen(tuple(slow), vertices, delay, waiting_seconds)

    async def _glance(self, nodes: Mapping[str, str], now: float) -> Seen | None:
        """A look that asks for no more than the tasks that run; None where that does not do.

        Nor for these where none of them can be old enough. Raises DriverUnanswered.
        """
        alone, self._alone = self._alone, None
        if alone is None or nodes != self._places.now or not self._looked_at <= now < alone.until:
            return None
        memory = self._stages[alone.stage.key]
        if now >= memory.quiet_until:
            tasks = await self._driver.tasks(alone.stage.key, alone.stage.tasks, "running")
            memory.races.see(tasks)
            seen = memory.seen(alone.stage, tasks, self._places)
            limit, ages = self._pace.least(memory, seen), ages_of(seen, now)
            if not ages or max(ages) >= limit or memory.races.are_over:
                return None
            memory.quiet_until = now + limit - max(ages)
        self._alone, self._looked_at = alone, now
        delay = max(self._detection.interval, min(memory.quiet_until, alone.until) - now)
        return Seen((), 0, delay, alone.waiting_seconds)

    async def _running_tasks(self, stage: Stage, now: float) -> list[Task]:
        """Those that run, and what they tell of when to ask again."""
        memory = self._stages[stage.key]
        tasks = await self._driver.tasks(stage.key, stage.tasks, "running")
        memory.races.see(tasks)
        oldest = min([now, *(one.launched_at for one in tasks)])
        memory.asked_at, memory.not_before = now, oldest + self._detection.bound
        return tasks

    def _races_over(self, stage: Stage, now: float) -> list[tuple[StageKey, int, Races]]:
        """Races of a stage that goes on, now and then."""
        memory = self._stages[stage.key]
        if not memory.races.are_over or now < memory.settled_at + _BETWEEN_COUNTS:
            return []
        memory.settled_at = now
        return [(stage.key, stage.tasks, memory.races)]

    def _by_its_clock(self, now: float, ahead: float) -> float:
        """Now as the driver has it. Where its clock was set back, what was to be at some time is not known any more."""
        self._driver_clock, now = ahead, now + ahead
        if now < self._looked_at - _CLOCK_SECONDS:
            self._stages = {}
        self._looked_at = now
        return now

    def _remember(self, running: Iterable[Stage], nodes: Mapping[str, str]) -> None:
        """These stages alone, and what executors are where."""
        self._stages = {stage.key: self._stages.get(stage.key, KnownStage()) for stage in running}
        if nodes != self._places.now or len(self._stages) > 1:
            self._places.change(nodes)
            for memory in self._stages.values():
                memory.quiet_until = 0.0

    def _followed(self, stages: Iterable[Stage]) -> list[Stage]:
        """As many of the stages, in their order, as have not too many tasks together."""
        found, room = [], _MOST_FOLLOWED
        for stage in stages:
            if 0 < stage.tasks <= room:
                found.append(stage)
                room -= stage.tasks
            elif stage.tasks and not self._has_said:
                self._has_said = True
                log.warning("slow tasks of stage %s are not seen: more than %d tasks", stage.key, _MOST_FOLLOWED)
        return found

    async def _learn(self, stage: Stage, now: float) -> None:
        """Ask for its finished tasks."""
        memory = self._stages[stage.key]
        memory.finished = first_of_each(await self._driver.tasks(stage.key, stage.tasks, "success"))
        memory.as_of, memory.learned_at = max(stage.finished, 1), now

    def _ended_races(self, running: Sequence[Stage]) -> list[tuple[StageKey, int, Races]]:
        """Races of stages that have ended since."""
        gone = {key: self._stages[key].races for key in self._stages.keys() - {stage.key for stage in running}}
        for races in gone.values():
            races.stop()
        return [(key, MOST_ASKED_FOR, races) for key, races in gone.items() if races.are_over]

    def _waiting_seconds(self, stage: Stage) -> float:
        """Where none of its tasks has been asked for, each is taken to be shorter than the lower bound."""
        took = [task.seconds for task in self._stages[stage.key].finished if task.seconds is not None]
        return stage.waiting * (median(took) if took else self._detection.bound)

    async def _find(
        self, stages: Sequence[Stage], seen: Sequence[SeenStage], nodes: Mapping[str, str], now: float
    ) -> list[SlowTask]:
        found = self._detection.find(seen, now)
        if found and self._detection.by_node is not None:  # on figures of now, for others have finished meanwhile
            by_name = {f"stage {one.key}": one for one in stages}
            nodes_blamed = blamed(seen, found)
            fresh = [await self._fresh(by_name[one.name], one, nodes_blamed, now) for one in seen]
            found = found if fresh == seen else self._detection.find(fresh, now)
            seen = fresh
        slow = self._detection.suspects(seen, found, now)
        suspects, running = [suspect for _, suspect in slow], partial(self._running, stages, seen)
        told = await self._cpu.statements(suspects, running, nodes, now, self._driver_clock)
        return [judged(one, suspect, statement) for (one, suspect), statement in zip(slow, told, strict=True)]

    async def _running(self, stages: Sequence[Stage], seen: Sequence[SeenStage]) -> list[Task]:
        """All tasks that run, of stages too that were not looked into."""
        found = [task for one in seen for task in one.tasks.values() if task.running]
        looked_into = {one.name for one in seen}
        for stage in stages:
            if stage.first_task_at is not None and f"stage {stage.key}" not in looked_into:
                found += await self._driver.tasks(stage.key, stage.tasks, "running")
        return found

    async def _fresh(
        self, stage: Stage, seen: SeenStage, nodes_blamed: Mapping[str, frozenset[str]], now: float
    ) -> SeenStage:
        """With what has finished since, where a node of it is blamed that was not before, or has been for long."""
        memory, its = self._stages[stage.key], nodes_blamed.get(seen.name, frozenset())
        is_known = its <= memory.blamed and now < memory.learned_at + _BLAMED_SECONDS
        memory.blamed = its
        if not its or is_known or stage.finished <= memory.as_of:
            return seen
        await self._learn(stage, now)
        return memory.seen(stage, [task for task in seen.tasks.values() if task.running], self._places)
