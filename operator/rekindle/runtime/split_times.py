"""How long the readers of a source take for a split, from when it is handed out until the next is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.core.slow_readers import SplitsRead
from rekindle.runtime.split_endpoint import Reader
from rekindle.runtime.split_reader import FINISHED

_MOST_TIMES = 101
"""How many are kept of one reader: the last. What a node does now counts, not what it did at the beginning."""


@dataclass(slots=True)
class _Reading:
    task: int
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))
    position: int = -1
    since: float | None = None
    """Where the split lies that it reads, and when it was handed over."""

    def so_far(self, now: float) -> SplitsRead:
        return SplitsRead(tuple(self.taken), None if self.since is None else max(0.0, now - self.since))


class SplitTimes:
    """Of the readers of one source. Times are of one clock that nobody sets. Not for several threads at a time."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}  # [reader -> it]
        self._finished: dict[int, SplitsRead] = {}

    def asks(self, reader: Reader, position: int, now: float) -> None:
        """A reader has read all that it was handed before that place; to ask twice changes nothing."""
        reading = self._readings.setdefault(reader.id, _Reading(reader.task))
        if reading.since is not None and position > reading.position:
            reading.taken.append(now - reading.since)
            reading.since = None

    def handed(self, reader: Reader, position: int, now: float) -> None:
        """A reader is handed the split at that place."""
        reading = self._readings[reader.id]
        if reading.since is None:
            reading.position, reading.since = position, now

    def ended(self, reader: Reader, said: str) -> None:
        """A reader has said how it ended."""
        reading = self._readings.pop(reader.id, None)
        if reading is not None and said == FINISHED:
            self._finished[reader.subtask] = SplitsRead(tuple(reading.taken))

    def finished(self) -> Mapping[int, SplitsRead]:
        """[subtask that a reader has read to the end -> what that took]"""
        return dict(self._finished)

    def running(self, now: float) -> Mapping[int, SplitsRead]:
        """[Spark's id of a task that reads -> what it takes]"""
        return {one.task: one.so_far(now) for one in self._readings.values()}
