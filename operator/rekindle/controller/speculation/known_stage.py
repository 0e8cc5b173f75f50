"""What is kept of a driver's stages between looks, and of where its executors were."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.controller.speculation.races import Races
from rekindle.controller.speculation.spark_rest import Stage, Task
from rekindle.controller.speculation.stages import FinishedPart, SeenStage, ended_at
from rekindle.core.node_aware import NodeAwareSlowTaskDetector

_MOST_PLACES = 10_000


@dataclass
class Places:
    """[executor -> node] of those that are there, and of all that ever were: what they have finished counts."""

    now: Mapping[str, str] = field(default_factory=dict)
    ever: dict[str, str] = field(default_factory=dict)

    def change(self, nodes: Mapping[str, str]) -> None:
        """These are there from now on. Of more executors than have room, those of before are forgotten."""
        self.now = dict(nodes)
        self.ever = {**self.ever, **nodes} if len(self.ever) < _MOST_PLACES else dict(nodes)


@dataclass
class KnownStage:
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

    def seen(self, stage: Stage, running: Iterable[Task], places: Places) -> SeenStage:
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


def first_of_each(finished: Iterable[Task]) -> list[Task]:
    """Of several tasks of a partition that have finished the first: what is kept has a bound."""
    first: dict[int, Task] = {}
    for task in sorted(finished, key=lambda one: (ended_at(one), one.attempt)):
        first.setdefault(task.index, task)
    return list(first.values())
