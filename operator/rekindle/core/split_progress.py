"""How far a source has been read, and how fast: which splits were told to whom, read to their end, read again, or given
back, and how long a reader takes for one.

Flink tells of a source how many splits are assigned (`unassignedSplits`); with several attempts of a subtask (FLIP-245)
one split is read several times, and who looks wants to know how often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.core.slow_readers import SplitsRead
from rekindle.core.source_coordinator import SourceCoordinator

_MOST_TIMES = 101
"""How many are kept of one attempt: the last. What a node does now counts, not what it did at the beginning."""


@dataclass(frozen=True, slots=True)
class SubtaskSplits:
    """How many splits a subtask has been assigned."""

    subtask: int
    splits: int


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """Of a source, in one driver.

    Attributes:
        subtasks: of the source.
        splits: that there are.
        assigned: that subtasks have, read or not.
        finished: of those, which some attempt has read to the end; what earlier drivers have settled is among them.
        reread: how often a split was told to an attempt that another one had been told.
        returned: how many were given back, as their subtask began anew.
        readers: attempts that are registered now.
        no_more_splits: subtasks that were told that they get no more.
        most: who has the most splits, and the first of those who have.
        fewest: who has the fewest, likewise.
    """

    subtasks: int
    splits: int
    assigned: int
    finished: int
    reread: int
    returned: int
    readers: int
    no_more_splits: int
    most: SubtaskSplits
    fewest: SubtaskSplits


@dataclass(slots=True)
class _Reading:
    """An attempt that reads: what it was told last, at which place, and when; what it took for splits before; and when
    it asked first."""

    asked: float
    place: int = -1
    split: int | None = None
    since: float = 0.0
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))

    def so_far(self, now: float) -> SplitsRead:
        current = None if self.split is None else max(0.0, now - self.since)
        return SplitsRead(tuple(self.taken), current, max(0.0, self.since - self.asked))


class SplitProgress:
    """What becomes of the splits of one source, which are called by their numbers. Times are of one clock that nobody
    sets, in seconds; a split takes from when it is told until the next is asked for.

    Args:
        splits: how many there are.
        settled: those that were read for good under drivers before.
    """

    def __init__(self, splits: int, settled: Iterable[int] = ()) -> None:
        self._told, self._read = bytearray(splits), bytearray(splits)
        self._readings: dict[int, _Reading] = {}  # [attempt -> where it is]
        self._ended: dict[int, SplitsRead] = {}  # [subtask that was read to the end -> what that took]
        self.splits, self.finished, self.reread, self.returned = splits, 0, 0, 0
        for split in settled:
            self._told[split] = 1
            self._finish(split)

    def asks(self, attempt: int, position: int, now: float) -> None:
        """An attempt asks what it is told at a place: it has read what it was told before that."""
        reading = self._readings.setdefault(attempt, _Reading(now))
        if reading.split is not None and position > reading.place:
            self._finish(reading.split)
            reading.taken.append(now - reading.since)
            reading.split = None

    def told(self, attempt: int, position: int, split: int | None, now: float) -> None:
        """It is told a split there, None for anything else. That it is told again, as the answer was lost, is no other
        reading."""
        reading = self._readings.setdefault(attempt, _Reading(now))
        if position <= reading.place:
            return
        if split is not None:
            self.reread += self._told[split]
            self._told[split] = 1
        reading.place, reading.split, reading.since = position, split, now

    def ended(self, attempt: int, subtask: int | None = None) -> None:
        """An attempt reads no more; `subtask`: the one that it has read to the end, None where it has not."""
        reading = self._readings.pop(attempt, None)
        if reading is not None and subtask is not None:
            self._ended[subtask] = SplitsRead(tuple(reading.taken), span=max(0.0, reading.since - reading.asked))

    def gave_back(self, splits: Iterable[int]) -> None:
        """A subtask begins anew, and others may get what it had: whatever was read of that counts no more."""
        for split in splits:
            self.returned += 1
            self.finished -= self._read[split]
            self._read[split] = 0

    def finished_times(self) -> Mapping[int, SplitsRead]:
        """[subtask that an attempt has read to the end -> what that took]"""
        return dict(self._ended)

    def running_times(self, now: float) -> Mapping[int, SplitsRead]:
        """[attempt that reads -> what it takes]"""
        return {attempt: reading.so_far(now) for attempt, reading in self._readings.items()}

    def counts(self, coordinator: SourceCoordinator[Any]) -> SplitCounts:
        """As it is now."""
        tracker, subtasks = coordinator.tracker, range(coordinator.parallelism)
        assigned = [tracker.count(subtask) for subtask in subtasks]
        most, fewest = max(assigned), min(assigned)
        return SplitCounts(
            subtasks=len(subtasks),
            splits=self.splits,
            assigned=sum(assigned),
            finished=self.finished,
            reread=self.reread,
            returned=self.returned,
            readers=sum(len(coordinator.attempts(subtask)) for subtask in subtasks),
            no_more_splits=sum(map(tracker.is_complete, subtasks)),
            most=SubtaskSplits(assigned.index(most), most),
            fewest=SubtaskSplits(assigned.index(fewest), fewest),
        )

    def _finish(self, split: int) -> None:
        self.finished += 1 - self._read[split]
        self._read[split] = 1
