"""How far a source has been read: which splits were told to whom, read to their end, read again, or given back.

Flink tells of a source how many splits are assigned (`unassignedSplits`); with several attempts of a subtask (FLIP-245)
one split is read several times, and who looks wants to know how often.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rekindle.core.source_coordinator import SourceCoordinator


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


class SplitProgress:
    """What becomes of the splits of one source, which are called by their numbers.

    Args:
        splits: how many there are.
        settled: those that were read for good under drivers before.
    """

    def __init__(self, splits: int, settled: Iterable[int] = ()) -> None:
        self._told, self._read = bytearray(splits), bytearray(splits)
        self._at: dict[int, tuple[int, int | None]] = {}  # [attempt -> where it is, and the split that it reads there]
        self.splits, self.finished, self.reread, self.returned = splits, 0, 0, 0
        for split in settled:
            self._told[split] = 1
            self._finish(split)

    def asks(self, attempt: int, position: int) -> None:
        """An attempt asks what it is told at a place: it has read what it was told before that."""
        place, split = self._at.get(attempt, (-1, None))
        if split is not None and position > place:
            self._finish(split)
            self._at[attempt] = (place, None)

    def told(self, attempt: int, position: int, split: int | None) -> None:
        """It is told a split there, None for anything else. That it is told again, as the answer was lost, is no other
        reading."""
        place, _ = self._at.get(attempt, (-1, None))
        if position <= place:
            return
        if split is not None:
            self.reread += self._told[split]
            self._told[split] = 1
        self._at[attempt] = (position, split)

    def ended(self, attempt: int) -> None:
        """An attempt reads no more."""
        self._at.pop(attempt, None)

    def gave_back(self, splits: Iterable[int]) -> None:
        """A subtask begins anew, and others may get what it had: whatever was read of that counts no more."""
        for split in splits:
            self.returned += 1
            self.finished -= self._read[split]
            self._read[split] = 0

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
