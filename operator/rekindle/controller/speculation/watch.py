"""One running driver, followed through its REST: which of its tasks are slow, and of what.

A driver is asked only when the answer could change something. A stage is looked into from the moment on when one of
its tasks may have run for the lower bound, which its running tasks tell. With `executionTime` its finished tasks are
asked for once, when it has passed its gate, for the first ceil(N * ratio) to finish stay the first. With `nodeAware`
they are asked for again before twice as many have finished, before anybody is blamed, and every ten seconds while
somebody is; and nothing is asked while no task has run for so long that its node could be blamed, unless twice as many
may have finished: no task is taken to be shorter than the shortest so far.
What pods use is asked for where it could change who is blamed.
"""

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from statistics import median

from rekindle.api.settings import CoreOptions
from rekindle.controller.speculation.cpu import AskForUses, CpuWitness, Suspect, nobody_tells
from rekindle.controller.speculation.races import RaceCounts, Races
from rekindle.controller.speculation.spark_rest import (
    Address,
    DriverUnanswered,
    SparkRest,
    Stage,
    StageKey,
    Task,
    TaskStatus,
)
from rekindle.controller.speculation.stages import NOWHERE, FinishedPart, SeenStage, SeenStages, ended_at, work_of
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.options import NodeAwareOptions
from rekindle.core.skew import Blame, Work
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, Slow
from rekindle.core.witness import Case, Says, Statement

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0
_BEFORE_THE_GATE = 15.0
"""Seconds after which running tasks are asked for again that may be old enough, though the gate is not passed."""

_CLOCK_SECONDS = 60.0
_BETWEEN_COUNTS, _COUNT_SECONDS = 10.0, 5.0
"""Seconds between two counts of a stage's races, and that a count may take."""

_PAGE = 2000
_MOST_ASKED_FOR = 20_000
"""Tasks of a stage that are asked for: of more, the others change no median by much."""

_MOST_FOLLOWED = 100_000
"""Tasks of all stages together, whatever a driver says that it has; each takes room here."""

_BLAMED_SECONDS = 10.0
"""In which finished tasks are not asked for again while the same nodes are blamed."""

_MOST_PLACES = 10_000

_TOLD_BY_NOW = 120.0
"""Seconds after which a task that has told of no input has read none: Spark has executors tell more often than that
(spark.network.timeout)."""


@dataclass(frozen=True, slots=True)
class SlowTask:
    """One slow attempt.

    Attributes:
        copies: how many more attempts its task may have.
        is_proven: that its node makes it slow is more than a guess from one time.
    """

    task: str
    executor: str
    node: str
    evidence: str
    blame: Blame
    copies: int
    is_proven: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a driver showed, and in how many seconds the next could show something else.

    `waiting_seconds`: about how long the tasks would take that wait for a slot, one after the other.
    """

    slow: tuple[SlowTask, ...]
    num_slow_vertices: int
    delay: float
    waiting_seconds: float = 0.0


class StreamingSeen(Exception):
    """The driver runs a streaming query: its tasks may run for good, and none of them is slow for it (S2-9)."""


@dataclass
class _KnownStage:
    """What is kept of a stage between looks: its finished tasks, as far as they were asked for."""

    finished: list[Task] = field(default_factory=list)
    as_of: int = 0
    """How many had finished when they were last asked for; 0: not yet."""

    asked_at: float = 0.0
    """When its running tasks were last asked for before the gate, by the driver's clock."""

    not_before: float = 0.0
    """No task can have run for the lower bound before."""

    races: Races = field(default_factory=Races)
    settled_at: float = -math.inf
    """When races of it were last counted."""

    learned_at: float = -math.inf
    """When its finished tasks were last asked for, by the driver's clock."""

    quiet_until: float = 0.0
    """No node of it can be blamed before, on what is known of nodes."""

    blamed: frozenset[str] = frozenset()
    """Nodes that were at the last look."""

    _part: FinishedPart | None = None
    _least: float | None = None

    def seen(self, stage: Stage, running: Iterable[Task], places: "_Places") -> SeenStage:
        """The stage with these tasks and those that have finished."""
        if self._part is None or not self._part.is_of(stage, self.finished, places.ever):
            self._part, self._least = FinishedPart(stage, self.finished, places.ever), None
        return self._part.beside(running, stage, places.now)

    def least(self, running: int, detector: NodeAwareSlowTaskDetector) -> float:
        """The detector's `least_seconds` of the stage that was last seen, in which so many tasks run."""
        if self._part is None or running >= self._part.placed:
            return 0.0
        if self._least is None:
            self._least = detector.least_seconds(self._part.alone.vertex)
        return self._least


@dataclass
class _Places:
    """[executor -> node] of those that are there, and of all that ever were: what they have finished counts."""

    now: Mapping[str, str] = field(default_factory=dict)
    ever: dict[str, str] = field(default_factory=dict)

    def change(self, nodes: Mapping[str, str]) -> None:
        """These are there from now on. Of more executors than have room, those of before are forgotten."""
        self.now = dict(nodes)
        self.ever = {**self.ever, **nodes} if len(self.ever) < _MOST_PLACES else dict(nodes)


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
        self._rest, self._address, self._application_id, self._options = rest, address, application_id, options
        self._node_aware = options.node_aware
        self._bound = options.slow_tasks.baseline_lower_bound
        if options.node_aware is not None:
            self._bound = options.node_aware.lower_bound
        self._stages: dict[StageKey, _KnownStage] = {}
        self._places = _Places()
        self._looked_at = -math.inf
        self._has_said = False
        self.counts = RaceCounts()
        """Of all races that are over."""

    async def look(self, nodes: Mapping[str, str], now: float) -> Seen:
        """What is slow at `now` (epoch seconds); `nodes`: [executor -> node].

        Raises DriverUnanswered, and StreamingSeen.
        """
        stages = await self._rest.stages(self._address, self._application_id)
        now = self._by_its_clock(now, stages.driver_clock or 0.0)
        if (batch := next((one for one in stages.found if one.is_streaming), None)) is not None:
            raise StreamingSeen(f"stage {batch.key} is of a streaming query")
        running = self._followed(stages.found)
        over = self._ended_races(running)
        self._remember(running, nodes)
        delays = [_LONGEST_PAUSE, max(self._bound, self._interval)]
        seen: list[SeenStage] = []
        is_quiet = True
        for stage in running:
            wait = self._wait_for(stage, now)
            if wait > 0:
                delays.append(wait)
                continue
            tasks = await self._tasks(stage.key, stage.tasks, "running")
            memory = self._stages[stage.key]
            memory.races.see(tasks)
            if memory.races.are_over and now >= memory.settled_at + _BETWEEN_COUNTS:
                memory.settled_at = now
                over.append((stage.key, stage.tasks, memory.races))
            memory.asked_at, memory.not_before = now, self._bound + min([now, *(one.launched_at for one in tasks)])
            if stage.finished < self._gate(stage):
                delays.append(self._wait_for(stage, now))
                continue
            if self._is_to_learn(stage):
                await self._learn(stage, now)
            seen.append(memory.seen(stage, tasks, self._places))
            delays.append(next_in := self._next(stage, seen[-1], now))
            is_quiet = is_quiet and max(_ages(seen[-1], now), default=0.0) < self._least(stage, seen[-1])
            if is_quiet and len(running) == 1:  # another one's tasks may tell that these began on cold nodes
                memory.quiet_until = now + next_in
        slow = [] if is_quiet else await self._find(running, seen, nodes, now)
        for key, size, races in over:
            self.counts += races.settle(await self._ended(key, size))
        vertices = len({one.task for one in slow})
        delay = self._interval if slow else max(min(delays), self._interval)
        return Seen(tuple(slow), vertices, delay, sum(map(self._waiting_seconds, running)))

    def _by_its_clock(self, now: float, ahead: float) -> float:
        """Now as the driver has it. Where its clock was set back, what was to be at some time is not known any more."""
        self._driver_clock, now = ahead, now + ahead
        if now < self._looked_at - _CLOCK_SECONDS:
            self._stages = {}
        self._looked_at = now
        return now

    def _remember(self, running: Iterable[Stage], nodes: Mapping[str, str]) -> None:
        """These stages alone, and what executors are where."""
        self._stages = {stage.key: self._stages.get(stage.key, _KnownStage()) for stage in running}
        if nodes != self._places.now or len(self._stages) > 1:
            self._places.change(nodes)
            for memory in self._stages.values():
                memory.quiet_until = 0.0

    @property
    def _interval(self) -> float:
        return self._options.slow_tasks.check_interval

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

    def _wait_for(self, stage: Stage, now: float) -> float:
        """Seconds in which no task of the stage can be found slow; not more than 0 where one may be now.

        How many run does not matter: a driver that has lost an executor counts too few.
        """
        if stage.first_task_at is None:
            return max(self._bound, self._interval)
        memory = self._stages[stage.key]
        if (left := max(stage.first_task_at + self._bound, memory.not_before, memory.quiet_until) - now) > 0:
            return left
        if stage.finished >= self._gate(stage):
            return 0.0
        return self._interval if now < memory.asked_at + _BEFORE_THE_GATE else 0.0

    def _gate(self, stage: Stage) -> int:
        ratio = self._options.slow_tasks.baseline_ratio
        return 1 if self._node_aware is not None else math.ceil(stage.tasks * ratio)

    async def _learn(self, stage: Stage, now: float) -> None:
        """Ask for its finished tasks."""
        memory = self._stages[stage.key]
        memory.finished = first_of_each(await self._tasks(stage.key, stage.tasks, "success"))
        memory.as_of, memory.learned_at = max(stage.finished, 1), now

    def _is_to_learn(self, stage: Stage) -> bool:
        """Whether what is known of its finished tasks does not do."""
        as_of = self._stages[stage.key].as_of
        if self._node_aware is None or as_of == 0:
            return as_of == 0
        return 2 * stage.finished >= 3 * as_of and stage.finished + stage.running >= 2 * as_of

    def _ended_races(self, running: Sequence[Stage]) -> list[tuple[StageKey, int, Races]]:
        """Races of stages that have ended since."""
        gone = {key: self._stages[key].races for key in self._stages.keys() - {stage.key for stage in running}}
        for races in gone.values():
            races.stop()
        return [(key, _MOST_ASKED_FOR, races) for key, races in gone.items() if races.are_over]

    async def _ended(self, key: StageKey, tasks: int) -> list[Task]:
        """Nothing where the driver does not tell: the count of races is not worth a look for what is slow."""
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                return [*await self._tasks(key, tasks, "success"), *await self._tasks(key, tasks, "killed")]
        except (DriverUnanswered, TimeoutError) as problem:
            log.debug("races of stage %s are not counted: %s", key, problem)
            return []

    async def _tasks(self, key: StageKey, tasks: int, status: TaskStatus) -> list[Task]:
        """Of the stage `key`, which has so many tasks."""
        found: list[Task] = []
        most = min(_MOST_ASKED_FOR, 2 * tasks + _PAGE)
        while len(found) < most:
            page = await self._rest.tasks(
                self._address, self._application_id, key, status, offset=len(found), length=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                break
        return list({(task.index, task.attempt): task for task in found if task.index < tasks}.values())

    def _waiting_seconds(self, stage: Stage) -> float:
        """Where none of its tasks has been asked for, each is taken to be shorter than the lower bound."""
        waiting = max(0, stage.tasks - stage.finished - stage.running)
        took = [task.seconds for task in self._stages[stage.key].finished if task.seconds is not None]
        return waiting * (median(took) if took else self._bound)

    def _next(self, stage: Stage, seen: SeenStage, now: float) -> float:
        """Seconds until one of the running tasks may be slow that is not now."""
        limit, waits = self._least(stage, seen), [self._until_learning(stage)]
        ages = _ages(seen, now)
        if self._node_aware is not None and max(ages, default=0.0) >= limit:
            return self._interval  # with each second that it runs on, its node is the likelier to be sick
        return min([limit, *waits, *(limit - age for age in ages if age < limit)])

    def _least(self, stage: Stage, seen: SeenStage) -> float:
        """Seconds from which on a running task may be slow."""
        if self._node_aware is None:
            baseline = self._by_time(seen).baseline(seen.vertex)
            return baseline.seconds if baseline is not None else self._bound
        running = sum(one.running for one in seen.tasks.values())
        least = self._stages[stage.key].least(running, NodeAwareSlowTaskDetector(self._node_aware))
        return max(self._bound, least)

    def _until_learning(self, stage: Stage) -> float:
        """Seconds until finished tasks may have to be asked for again."""
        memory = self._stages[stage.key]
        if self._node_aware is None or 2 * memory.as_of > stage.tasks:
            return math.inf
        shortest = min([one.seconds or 0.0 for one in memory.finished], default=0.0)
        return shortest * ((2 * memory.as_of - stage.finished) / max(stage.running, 1) - 1)

    async def _find(
        self, stages: Sequence[Stage], seen: Sequence[SeenStage], nodes: Mapping[str, str], now: float
    ) -> list[SlowTask]:
        found = self._detect(seen, now)
        if found and self._node_aware is not None:  # on figures of now, for others have finished meanwhile
            by_name = {f"stage {one.key}": one for one in stages}
            blamed = _blamed(seen, found)
            fresh = [await self._fresh(by_name[_name(one)], one, blamed, now) for one in seen]
            found = found if fresh == seen else self._detect(fresh, now)
            seen = fresh
        by_vertex = {_name(one): one for one in seen}
        mild = {name: self._mild_below(by_vertex[name]) for name in {vertex_id.vertex for vertex_id, _, _ in found}}
        slow = [
            self._slow_task(by_vertex[vertex_id.vertex], attempt, evidence, mild[vertex_id.vertex], now)
            for vertex_id, attempts, evidence in found
            for attempt in attempts
        ]
        suspects, running = [suspect for _, suspect in slow], partial(self._running, stages, seen)
        told = await self._cpu.statements(suspects, running, nodes, now, self._driver_clock)
        return [_judged(one, suspect, statement) for (one, suspect), statement in zip(slow, told, strict=True)]

    async def _running(self, stages: Sequence[Stage], seen: Sequence[SeenStage]) -> list[Task]:
        """All tasks that run, of stages too that were not looked into."""
        found = [task for one in seen for task in one.tasks.values() if task.running]
        looked_into = {_name(one) for one in seen}
        for stage in stages:
            if stage.first_task_at is not None and f"stage {stage.key}" not in looked_into:
                found += await self._tasks(stage.key, stage.tasks, "running")
        return found

    def _detect(self, seen: Sequence[SeenStage], now: float) -> list[Slow]:
        if self._node_aware is not None:
            return list(NodeAwareSlowTaskDetector(self._node_aware).find_slow(SeenStages(seen), now).slow)
        return [slow for one in seen for slow in self._by_time(one).find_slow(SeenStages([one]), now).slow]

    def _by_time(self, seen: SeenStage) -> ExecutionTimeBasedSlowTaskDetector:
        """The gate was passed by what the driver counts; where it tells of fewer, these stand for all of them."""
        options = self._options.slow_tasks
        told = Fraction(len(seen.vertex.finished), seen.vertex.parallelism)
        ratio = min(options.baseline_ratio, told) if told else options.baseline_ratio
        return ExecutionTimeBasedSlowTaskDetector(replace(options, baseline_ratio=ratio))

    async def _fresh(
        self, stage: Stage, seen: SeenStage, blamed: Mapping[str, frozenset[str]], now: float
    ) -> SeenStage:
        """With what has finished since, where a node of it is blamed that was not before, or has been for long."""
        memory, its = self._stages[stage.key], blamed.get(_name(seen), frozenset())
        is_known = its <= memory.blamed and now < memory.learned_at + _BLAMED_SECONDS
        memory.blamed = its
        if not its or is_known or stage.finished <= memory.as_of:
            return seen
        await self._learn(stage, now)
        return memory.seen(stage, [task for task in seen.tasks.values() if task.running], self._places)

    def _mild_below(self, seen: SeenStage) -> float:
        """Seconds below which tasks of the stage are hardly slow."""
        baseline = None if self._node_aware is not None else self._by_time(seen).baseline(seen.vertex)
        return self._tolerated_factor * baseline.seconds if baseline is not None else 0.0

    @property
    def _tolerated_factor(self) -> float:
        return (self._node_aware or NodeAwareOptions()).tolerated_factor

    def _slow_task(
        self, seen: SeenStage, attempt: ExecutionAttemptID, evidence: str, mild_below: float, now: float
    ) -> tuple[SlowTask, Suspect]:
        task, vertex = seen.tasks[attempt], seen.vertex.tasks[attempt.vertex_id.subtask]
        execution = vertex.current(attempt)
        assert execution is not None
        work = work_of(task, now - task.launched_at)
        if task.input_bytes is None and work.seconds >= _TOLD_BY_NOW:
            work = Work(work.seconds, 0, 0)
        case = Case(work, seen.typical, self._tolerated_factor, mild_below)
        slow = SlowTask(
            str(attempt.vertex_id),
            task.executor,
            execution.node or NOWHERE,
            evidence,
            case.blame(Says.NOTHING),
            max(0, self._options.speculation.max_concurrent_executions - len(vertex.executions)),
            is_proven=self._node_aware is not None,
        )
        return slow, Suspect(task, case)


def first_of_each(finished: Iterable[Task]) -> list[Task]:
    """Of several tasks of a partition that have finished the first: what is kept has a bound."""
    first: dict[int, Task] = {}
    for task in sorted(finished, key=lambda one: (ended_at(one), one.attempt)):
        first.setdefault(task.index, task)
    return list(first.values())


def _judged(slow: SlowTask, suspect: Suspect, statement: Statement) -> SlowTask:
    evidence = "; ".join(filter(None, (slow.evidence, statement.evidence)))
    is_proven = slow.is_proven or statement.says is Says.STARVED
    return replace(slow, evidence=evidence, blame=suspect.case.blame(statement.says), is_proven=is_proven)


def _name(seen: SeenStage) -> str:
    return seen.vertex.job_vertex.name


def _ages(seen: SeenStage, now: float) -> list[float]:
    """Seconds for which its running tasks have run."""
    return [now - task.launched_at for task in seen.tasks.values() if task.running]


def _blamed(seen: Sequence[SeenStage], found: Sequence[Slow]) -> dict[str, frozenset[str]]:
    """[stage -> nodes of its slow attempts]"""
    by_name = {_name(one): one for one in seen}
    nodes: dict[str, set[str]] = {}
    for vertex_id, attempts, _ in found:
        executions = by_name[vertex_id.vertex].vertex.tasks[vertex_id.subtask].executions
        there = {one.node for one in executions if one.attempt_id in attempts and one.node is not None}
        nodes.setdefault(vertex_id.vertex, set()).update(there)
    return {name: frozenset(there) for name, there in nodes.items()}
