"""One running driver, followed through its REST: which of its tasks are slow, and of what.

A driver is asked only when the answer could change something. A stage is looked into from the moment on when one of
its tasks may have run for the lower bound, which its running tasks tell. With `executionTime` its finished tasks are
asked for once, when it has passed its gate, for the first ceil(N * ratio) to finish stay the first. With `nodeAware`
they are asked for again when twice as many have finished, and before anybody is blamed. What pods use is asked for
where it could change who is.
"""

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
from rekindle.controller.speculation.spark_rest import Address, SparkRest, Stage, StageKey, Task, TaskStatus
from rekindle.controller.speculation.stages import NOWHERE, SeenStage, SeenStages, ended_at, seen_stage
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.options import NodeAwareOptions
from rekindle.core.skew import Blame, Typical, Work
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, Slow
from rekindle.core.witness import Case, Says, Statement

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 15.0
_PAGE = 2000
_MOST_ASKED_FOR = 20_000
"""Tasks of a stage that are asked for: of more, the others change no median by much."""

_MOST_FOLLOWED = 100_000
"""Tasks of all stages together, whatever a driver says that it has; each takes room here."""

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
        self._has_said = False
        self.counts = RaceCounts()
        """Of all races that are over."""

    async def look(self, nodes: Mapping[str, str], now: float) -> Seen:
        """What is slow at `now` (epoch seconds); `nodes`: [executor -> node].

        Raises DriverUnanswered, and StreamingSeen.
        """
        stages = await self._rest.stages(self._address, self._application_id)
        self._driver_clock = stages.driver_clock or 0.0
        now += self._driver_clock
        if (batch := next((one for one in stages.found if one.is_streaming), None)) is not None:
            raise StreamingSeen(f"stage {batch.key} is of a streaming query")
        running = self._followed(stages.found)
        await self._settle_ended(running)
        self._stages = {stage.key: self._stages.get(stage.key, _KnownStage()) for stage in running}
        delays = [_LONGEST_PAUSE, max(self._bound, self._interval)]
        seen: list[SeenStage] = []
        for stage in running:
            wait = self._wait_for(stage, now)
            if wait > 0:
                delays.append(wait)
                continue
            tasks = await self._tasks(stage.key, stage.tasks, "running")
            memory = self._stages[stage.key]
            memory.races.see(tasks)
            if memory.races.are_over:
                await self._settle(stage.key, stage.tasks, memory.races)
            memory.asked_at, memory.not_before = now, self._bound + min([now, *(one.launched_at for one in tasks)])
            if stage.finished < self._gate(stage):
                delays.append(self._wait_for(stage, now))
                continue
            await self._learn(stage)
            seen.append(seen_stage(stage, self._stages[stage.key].finished, tasks, nodes))
            delays.append(self._next(seen[-1], now))
        slow = await self._find(running, seen, nodes, now)
        vertices = len({one.task for one in slow})
        delay = self._interval if slow else max(min(delays), self._interval)
        return Seen(tuple(slow), vertices, delay, sum(map(self._waiting_seconds, running)))

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
        if (left := max(stage.first_task_at + self._bound, memory.not_before) - now) > 0:
            return left
        if stage.finished >= self._gate(stage):
            return 0.0
        return self._interval if now < memory.asked_at + _LONGEST_PAUSE else 0.0

    def _gate(self, stage: Stage) -> int:
        ratio = self._options.slow_tasks.baseline_ratio
        return 1 if self._node_aware is not None else math.ceil(stage.tasks * ratio)

    async def _learn(self, stage: Stage) -> None:
        """Ask for finished tasks where what is known of them does not do."""
        memory = self._stages[stage.key]
        if memory.as_of == 0 or (self._node_aware is not None and stage.finished >= 2 * memory.as_of):
            memory.finished = first_of_each(await self._tasks(stage.key, stage.tasks, "success"))
            memory.as_of = max(stage.finished, 1)

    async def _settle_ended(self, running: Sequence[Stage]) -> None:
        """Races of stages that have ended since."""
        gone = self._stages.keys() - {stage.key for stage in running}
        for key in gone:
            if (races := self._stages[key].races).are_there:
                races.stop()
                await self._settle(key, _MOST_ASKED_FOR, races)

    async def _settle(self, key: StageKey, tasks: int, races: Races) -> None:
        ended = [*await self._tasks(key, tasks, "success"), *await self._tasks(key, tasks, "killed")]
        self.counts += races.settle(ended)

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

    def _next(self, seen: SeenStage, now: float) -> float:
        """Seconds until one of the running tasks may be slow that is not now."""
        limit = self._bound
        if self._node_aware is None:
            baseline = self._by_time(seen).baseline(seen.vertex)
            limit = baseline.seconds if baseline is not None else limit
        ages = [now - task.launched_at for task in seen.tasks.values() if task.running]
        if self._node_aware is not None and max(ages, default=0.0) >= limit:
            return self._interval  # with each second that it runs on, its node is the likelier to be sick
        waits = [limit - age for age in ages if age < limit]
        return min(waits, default=limit)

    async def _find(
        self, stages: Sequence[Stage], seen: Sequence[SeenStage], nodes: Mapping[str, str], now: float
    ) -> list[SlowTask]:
        found = self._detect(seen, now)
        if found and self._node_aware is not None:  # on figures of now, for others have finished meanwhile
            by_name = {f"stage {one.key}": one for one in stages}
            blamed = {vertex_id.vertex for vertex_id, _, _ in found}
            seen = [await self._fresh(one, by_name, nodes) if _name(one) in blamed else one for one in seen]
            found = self._detect(seen, now)
        by_vertex = {_name(one): one for one in seen}
        measures = {name: self._measure(by_vertex[name]) for name in {vertex_id.vertex for vertex_id, _, _ in found}}
        slow = [
            self._slow_task(by_vertex[vertex_id.vertex], attempt, evidence, measures[vertex_id.vertex], now)
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

    async def _fresh(self, seen: SeenStage, stages: Mapping[str, Stage], nodes: Mapping[str, str]) -> SeenStage:
        stage = stages[_name(seen)]
        memory = self._stages[stage.key]
        if stage.finished > memory.as_of:
            memory.finished, memory.as_of = (
                first_of_each(await self._tasks(stage.key, stage.tasks, "success")),
                stage.finished,
            )
        running = [task for task in seen.tasks.values() if task.running]
        return seen_stage(stage, memory.finished, running, nodes)

    def _measure(self, seen: SeenStage) -> tuple[Typical, float]:
        """What is typical of the stage, and in seconds how long its tasks may run and be hardly slow."""
        finished = [_work(one, one.seconds or 0.0) for one in seen.tasks.values() if not one.running]
        baseline = None if self._node_aware is not None else self._by_time(seen).baseline(seen.vertex)
        return Typical.of(finished), self._tolerated_factor * baseline.seconds if baseline is not None else 0.0

    @property
    def _tolerated_factor(self) -> float:
        return (self._node_aware or NodeAwareOptions()).tolerated_factor

    def _slow_task(
        self, seen: SeenStage, attempt: ExecutionAttemptID, evidence: str, measure: tuple[Typical, float], now: float
    ) -> tuple[SlowTask, Suspect]:
        task, vertex = seen.tasks[attempt], seen.vertex.tasks[attempt.vertex_id.subtask]
        execution = vertex.current(attempt)
        assert execution is not None
        work = _work(task, now - task.launched_at)
        if task.input_bytes is None and work.seconds >= _TOLD_BY_NOW:
            work = Work(work.seconds, 0, 0)
        typical, mild_below = measure
        case = Case(work, typical, self._tolerated_factor, mild_below)
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


def _work(task: Task, seconds: float) -> Work:
    return Work(seconds, task.input_bytes, task.input_records)
