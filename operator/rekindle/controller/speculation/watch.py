"""One running driver, followed through its REST: which of its tasks are slow, and of what.

A driver is asked only when the answer could change something. A stage is looked into from the moment on when one of
its tasks may have run for the lower bound; with `executionTime` not before its gate, and then its finished tasks are
asked for once, for the first ceil(N * ratio) to finish stay the first. With `nodeAware` they are asked for again when
twice as many have finished, and before anybody is blamed. Running tasks are asked for at each look.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rekindle.api.settings import CoreOptions
from rekindle.controller.speculation.spark_rest import Address, SparkRest, Stage, StageKey, Task
from rekindle.controller.speculation.stages import NOWHERE, SeenStage, SeenStages, seen_stage
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.options import NodeAwareOptions
from rekindle.core.skew import Blame, Work, blame
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, SlowTaskDetector

_LONGEST_PAUSE = 15.0
_PAGE = 2000
_MOST_FINISHED = 20_000
"""Finished tasks of a stage that are asked for: of more, the others change no median by much."""


@dataclass(frozen=True, slots=True)
class SlowTask:
    """One slow attempt. `copies`: how many more attempts its task may have."""

    task: str
    executor: str
    node: str
    evidence: str
    blame: Blame
    copies: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a driver showed, and in how many seconds the next could show something else."""

    slow: tuple[SlowTask, ...]
    num_slow_vertices: int
    delay: float


@dataclass
class _Memory:
    """What is kept of a stage between looks: its finished tasks, as far as they were asked for."""

    finished: list[Task] = field(default_factory=list)
    as_of: int = 0
    """How many had finished when they were last asked for; 0: not yet."""


class DriverWatch:
    """Follows one application of one driver."""

    def __init__(self, rest: SparkRest, address: Address, application_id: str, options: CoreOptions) -> None:
        self._rest, self._address, self._application_id, self._options = rest, address, application_id, options
        self._node_aware = options.node_aware
        self._bound = options.slow_tasks.baseline_lower_bound
        self._detector: SlowTaskDetector = ExecutionTimeBasedSlowTaskDetector(options.slow_tasks)
        if options.node_aware is not None:
            self._bound = options.node_aware.lower_bound
            self._detector = NodeAwareSlowTaskDetector(options.node_aware)
        self._stages: dict[StageKey, _Memory] = {}

    async def look(self, nodes: Mapping[str, str], now: float) -> Seen:
        """What is slow at `now` (epoch seconds); `nodes`: [executor -> node]. Raises DriverUnanswered."""
        stages = await self._rest.stages(self._address, self._application_id)
        now += stages.driver_clock or 0.0
        running = [stage for stage in stages.found if stage.finished < stage.tasks]
        self._stages = {stage.key: self._stages.get(stage.key, _Memory()) for stage in running}
        delays = [_LONGEST_PAUSE, max(self._bound, self._interval)]
        seen: list[SeenStage] = []
        for stage in running:
            wait = self._wait_for(stage, now)
            if wait > 0:
                delays.append(wait)
                continue
            tasks = await self._tasks(stage, "running")
            await self._learn(stage)
            seen.append(seen_stage(stage, self._stages[stage.key].finished, tasks, nodes))
            delays.append(self._next(seen[-1], now))
        slow = await self._find(running, seen, nodes, now)
        vertices = len({one.task for one in slow})
        return Seen(tuple(slow), vertices, self._interval if slow else max(min(delays), self._interval))

    @property
    def _interval(self) -> float:
        return self._options.slow_tasks.check_interval

    def _wait_for(self, stage: Stage, now: float) -> float:
        """Seconds in which no task of the stage can be found slow; not more than 0 where one may be now."""
        if stage.first_task_at is None or not stage.running:
            return self._interval
        if (left := stage.first_task_at + self._bound - now) > 0:
            return left
        gate = 1 if self._node_aware is not None else math.ceil(stage.tasks * self._options.slow_tasks.baseline_ratio)
        return 0.0 if stage.finished >= gate else self._interval

    async def _learn(self, stage: Stage) -> None:
        """Ask for finished tasks where what is known of them does not do."""
        memory = self._stages[stage.key]
        if memory.as_of == 0 or (self._node_aware is not None and stage.finished >= 2 * memory.as_of):
            memory.finished, memory.as_of = await self._tasks(stage, "success"), max(stage.finished, 1)

    async def _tasks(self, stage: Stage, status: Literal["running", "success"]) -> list[Task]:
        found: list[Task] = []
        while len(found) < _MOST_FINISHED:
            page = await self._rest.tasks(
                self._address, self._application_id, stage.key, status, offset=len(found), length=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                break
        return found

    def _next(self, seen: SeenStage, now: float) -> float:
        """Seconds until one of the running tasks may be slow that is not now."""
        limit = self._bound
        if self._node_aware is None:
            baseline = ExecutionTimeBasedSlowTaskDetector(self._options.slow_tasks).baseline(seen.vertex)
            limit = baseline.seconds if baseline is not None else limit
        ages = [now - task.launched_at for task in seen.tasks.values() if task.running]
        if self._node_aware is not None and max(ages, default=0.0) >= limit:
            return self._interval  # with each second that it runs on, its node is the likelier to be sick
        waits = [limit - age for age in ages if age < limit]
        return min(waits, default=limit)

    async def _find(
        self, stages: Sequence[Stage], seen: Sequence[SeenStage], nodes: Mapping[str, str], now: float
    ) -> list[SlowTask]:
        found = self._detector.find_slow(SeenStages(seen), now)
        if found.slow and self._node_aware is not None:  # on figures of now, for others have finished meanwhile
            by_name = {f"stage {one.key.stage_id}.{one.key.attempt}": one for one in stages}
            blamed = {vertex_id.vertex for vertex_id, _, _ in found.slow}
            seen = [await self._fresh(one, by_name, nodes) if _name(one) in blamed else one for one in seen]
            found = self._detector.find_slow(SeenStages(seen), now)
        by_vertex = {_name(one): one for one in seen}
        return [
            self._slow_task(by_vertex[vertex_id.vertex], attempt, evidence, nodes, now)
            for vertex_id, attempts, evidence in found.slow
            for attempt in attempts
        ]

    async def _fresh(self, seen: SeenStage, stages: Mapping[str, Stage], nodes: Mapping[str, str]) -> SeenStage:
        stage = stages[_name(seen)]
        memory = self._stages[stage.key]
        if stage.finished > memory.as_of:
            memory.finished, memory.as_of = await self._tasks(stage, "success"), stage.finished
        running = [task for task in seen.tasks.values() if task.running]
        return seen_stage(stage, memory.finished, running, nodes)

    def _slow_task(
        self, seen: SeenStage, attempt: ExecutionAttemptID, evidence: str, nodes: Mapping[str, str], now: float
    ) -> SlowTask:
        task = seen.tasks[attempt]
        done = [_work(one, one.seconds or 0.0) for one in seen.tasks.values() if not one.running]
        tolerated = (self._node_aware or NodeAwareOptions()).tolerated_factor
        attempts = len(seen.vertex.tasks[attempt.vertex_id.subtask].executions)
        return SlowTask(
            str(attempt.vertex_id),
            task.executor,
            nodes.get(task.executor, NOWHERE),
            evidence,
            blame(_work(task, now - task.launched_at), done, tolerated),
            self._options.speculation.max_concurrent_executions - attempts,
        )


def _name(seen: SeenStage) -> str:
    return seen.vertex.job_vertex.name


def _work(task: Task, seconds: float) -> Work:
    return Work(seconds, task.input_bytes, task.input_records)
