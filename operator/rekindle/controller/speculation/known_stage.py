"""What is kept of a driver's stages between looks, and of where its executors were."""

import math
from collections.abc import Iterable, Mapping, Sequence
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
    _least: dict[bool, float] = field(default_factory=dict)

    def seen(self, stage: Stage, running: Iterable[Task], places: Places) -> SeenStage:
        """The stage with these tasks and those that have finished."""
        if self._part is None or not self._part.is_of(stage, self.finished, places.ever):
            blank = self._part.blank if self._part is not None else None
            self._part, self._least = FinishedPart(stage, self.finished, places.ever, blank), {}
        return self._part.beside(running, stage, places.now)

    @property
    def shortest(self) -> float:
        """Seconds that the shortest of its finished tasks took; 0 where none is known."""
        return min([one.seconds or 0.0 for one in self.finished], default=0.0)

    def until_finished(self, count: int, ages: Sequence[float]) -> float:
        """Seconds until so many more tasks of it may have finished, where the running ones are as old as that.

        None is taken to be shorter than the shortest so far, and each that ends to be followed by another.
        """
        if count <= 0:
            return 0.0
        shortest = self.shortest
        if not ages:
            return shortest
        rounds, place = divmod(count - 1, len(ages))
        return rounds * shortest + sorted(max(0.0, shortest - age) for age in ages)[place]

    def least(self, running: int, detector: NodeAwareSlowTaskDetector) -> float:
        """The detector's `least_seconds` of the stage that was last seen, in which so many tasks run."""
        if self._part is None:
            return 0.0
        outnumbered = running >= self._part.placed
        if outnumbered not in self._least:
            self._least[outnumbered] = detector.least_seconds(self._part.alone.vertex, outnumbered=outnumbered)
        return self._least[outnumbered]


def first_of_each(finished: Iterable[Task]) -> list[Task]:
    """Of several tasks of a partition that have finished the first: what is kept has a bound."""
    first: dict[int, Task] = {}
    for task in sorted(finished, key=lambda one: (ended_at(one), one.attempt)):
        first.setdefault(task.index, task)
    return list(first.values())
