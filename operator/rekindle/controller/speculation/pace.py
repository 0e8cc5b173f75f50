"""When the answer of a driver could change something: in how many seconds it is asked again, and for what.

As seldom as can be, and in time for whatever becomes slow. No task is taken to be shorter than the shortest so far.
"""

import math
from collections.abc import Mapping, Sequence

from rekindle.controller.speculation.detection import Detection
from rekindle.controller.speculation.known_stage import KnownStage
from rekindle.controller.speculation.spark_rest import Stage, StageKey, Task
from rekindle.controller.speculation.stages import SeenStage

LONGEST_PAUSE = 30.0
"""Seconds between two looks at most."""

_BEFORE_THE_GATE = 15.0
"""Seconds after which running tasks are asked for again that may be old enough, though the gate is not passed."""


class Pace:
    """Of one application. `memory` is what is kept of a stage, `now` is in epoch seconds of the driver's clock."""

    def __init__(self, detection: Detection) -> None:
        self._detection, self._is_overtaken = detection, False

    def wait_for(self, stage: Stage, memory: KnownStage, now: float) -> float:
        """Seconds in which no task of the stage can be found slow; not more than 0 where one may be now.

        How many run does not matter: a driver that has lost an executor counts too few.
        """
        if stage.first_task_at is None:
            return math.inf  # as a stage that is not there yet
        if (left := max(stage.first_task_at + self._detection.bound, memory.not_before, memory.quiet_until) - now) > 0:
            return left
        if stage.finished >= self._detection.gate(stage):
            return 0.0
        return self._detection.interval if now < memory.asked_at + _BEFORE_THE_GATE else 0.0

    def next(self, stage: Stage, memory: KnownStage, seen: SeenStage, now: float) -> float:
        """Seconds until one of the running tasks may be slow that is not now."""
        limit, ages = self.least(memory, seen), ages_of(seen, now)
        if self._detection.by_node is not None and max(ages, default=0.0) >= limit:
            return self._detection.interval  # with each second that it runs on, its node is the likelier to be sick
        return min([limit, self.until_learning(stage, memory, ages), *(limit - age for age in ages if age < limit)])

    def least(self, memory: KnownStage, seen: SeenStage) -> float:
        """Seconds from which on a running task may be slow."""
        if self._detection.by_node is None:
            baseline = self._detection.by_time(seen).baseline(seen.vertex)
            return baseline.seconds if baseline is not None else self._detection.bound
        running = sum(one.running for one in seen.tasks.values())
        return max(self._detection.bound, memory.least(running, self._detection.by_node))

    def is_to_learn(self, stage: Stage, memory: KnownStage) -> bool:
        """Whether what is known of its finished tasks does not do."""
        as_of = memory.as_of
        if self._detection.by_node is None or as_of == 0:
            return as_of == 0
        return 2 * stage.finished >= 3 * as_of and stage.finished + stage.running >= 2 * as_of

    def until_learning(self, stage: Stage, memory: KnownStage, ages: Sequence[float]) -> float:
        """Seconds until finished tasks may have to be asked for again."""
        if self._detection.by_node is None or 2 * memory.as_of > stage.tasks:
            return math.inf
        return memory.until_finished(2 * memory.as_of - stage.finished, ages)

    def until_first(self, running: Sequence[Task], now: float) -> float:
        """Seconds until one may be slow where none has finished yet: the first to finish is one of these, and has then
        taken as long as the youngest at least."""
        if self._detection.by_node is None or not running:
            return 0.0
        ages = [now - task.launched_at for task in running]
        return max(0.0, self._detection.by_node.options.tolerated_factor * min(ages) - max(ages))

    def until_next_stage(self, running: Sequence[Stage], known: Mapping[StageKey, KnownStage]) -> float:
        """Seconds until a task may be slow of a stage that has none yet, with as many slots as are busy.

        In FIFO mode Spark gives it none while the first of all has tasks that wait. Once a stage was seen to be
        overtaken this is not relied on; nor where tasks have failed, for then fewer are counted than run.
        """
        bound = max(self._detection.bound, self._detection.interval)
        if self._detection.by_node is None or not running:
            return bound
        first = min(running, key=lambda stage: stage.key.stage_id)
        slots = sum(one.running for one in running)
        if first.first_task_at is None or not first.waiting or not first.running or any(one.failed for one in running):
            return bound
        latest = max(stage.first_task_at or 0.0 for stage in running)
        self._is_overtaken = self._is_overtaken or latest > first.first_task_at
        if self._is_overtaken:
            return bound
        return bound + (first.waiting - 1) // slots * known[first.key].shortest


def ages_of(seen: SeenStage, now: float) -> list[float]:
    """Seconds for which its running tasks have run."""
    return [now - task.launched_at for task in seen.tasks.values() if task.running]
