"""Copies that race their originals: how many of them won, and what the attempts that lost cost (S2-41).

A race is a task of which several attempts run, and it is over when none of them does. Who won the driver is asked once
for all races that are over by then, so that each is counted once.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from rekindle.controller.speculation.spark_rest import Task
from rekindle.controller.speculation.stages import MOST_ATTEMPTS, ended_at


@dataclass(frozen=True, slots=True)
class RaceCounts:
    """What copies have brought and cost so far.

    Attributes:
        num_effective: tasks that a copy finished first (numEffectiveSpeculativeExecutions).
        wasted_seconds: how long the attempts ran that did not finish first.
    """

    num_effective: int = 0
    wasted_seconds: float = 0.0

    def __add__(self, other: "RaceCounts") -> "RaceCounts":
        return RaceCounts(self.num_effective + other.num_effective, self.wasted_seconds + other.wasted_seconds)


class Races:
    """Those of one attempt of a stage."""

    def __init__(self) -> None:
        self._runners: dict[int, dict[int, Task]] = {}  # [task -> [attempt -> as it was last seen running]]
        self._over: set[int] = set()

    @property
    def are_over(self) -> bool:
        """Whether there are races of which it is to be asked who won."""
        return bool(self._over)

    def see(self, running: Iterable[Task]) -> None:
        """All tasks of the stage that run now. Of a task's attempts the newest are kept: a driver may tell of any."""
        now: dict[int, dict[int, Task]] = {}
        for task in running:
            now.setdefault(task.index, {})[task.attempt] = task
        for index, attempts in now.items():
            if index in self._runners or any(one.speculative for one in attempts.values()):
                known = self._runners.get(index, {}) | attempts
                self._runners[index] = {number: known[number] for number in heapq.nlargest(MOST_ATTEMPTS, known)}
        self._over = self._runners.keys() - now.keys()

    def stop(self) -> None:
        """The stage has ended, and with it every race."""
        self._over = set(self._runners)

    def settle(self, ended: Iterable[Task]) -> RaceCounts:
        """Count the races that are over. `ended`: tasks of the stage that have finished or were killed."""
        by_index: dict[int, list[Task]] = {index: [] for index in self._over}
        for task in ended:
            if task.index in by_index:
                by_index[task.index].append(task)
        counts = RaceCounts()
        for index, attempts in by_index.items():
            counts += _count(self._runners.pop(index), attempts)
        self._over = set()
        return counts


def _count(runners: dict[int, Task], ended: list[Task]) -> RaceCounts:
    """Of a race that nobody won, since all its attempts failed or its stage was given up, nothing counts."""
    finished = [one for one in ended if one.succeeded]
    if not finished:
        return RaceCounts()
    winner = min(finished, key=ended_at)
    took = {one.attempt: one.seconds for one in ended}
    # One that is being killed has not ended yet; what it runs on is not waited for.
    lost = [
        took.get(number) or max(0.0, ended_at(winner) - one.launched_at)
        for number, one in runners.items()
        if number != winner.attempt
    ]
    return RaceCounts(int(winner.speculative), sum(lost))
