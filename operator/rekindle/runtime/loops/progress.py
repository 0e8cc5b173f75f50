"""How far a loop is, for whoever looks on."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScopeProgress:
    """Of one loop, or of one within it.

    Attributes:
        loop: its name.
        level: of its scope.
        activations: that it has had, under all drivers.
        waiting: batches that wait at its entry.
        spilled: how many were spilled, under this driver.
        attempts: to terminate it, under this driver.
    """

    loop: str
    level: int
    activations: int
    waiting: int
    spilled: int
    attempts: int


@dataclass(frozen=True, slots=True)
class LoopProgress:
    """Of a stage that is a loop: the outermost scope is the first."""

    stage: str
    ended: bool
    scopes: tuple[ScopeProgress, ...]


class ProgressOfLoops:
    """What loops, each in a thread of its own, tell the job master: of each what it told last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[str, LoopProgress] = {}
        self._taken: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def tell(self, progress: LoopProgress) -> None:
        with self._lock:
            self._told[progress.stage] = progress
            self._reached[progress.stage] = sum(scope.activations for scope in progress.scopes)

    def activations(self, stage: str) -> int:
        """That a loop has told of; of all its scopes, under all drivers."""
        with self._lock:
            return self._reached.get(stage, 0)

    def news(self, now: float, every: float) -> list[LoopProgress]:
        """What was told and not taken yet: of each loop once in so many seconds, but its end at once. `now`: of a clock
        that nobody sets."""
        with self._lock:
            told = list(self._told.values())
            found = [one for one in told if one.ended or now >= self._taken.get(one.stage, now - every) + every]
            for one in found:
                self._taken[one.stage] = now
                del self._told[one.stage]
        return found
