"""What the updates of a loop keep: a row for each key, as a base and the changes since.

A batch changes some rows, and only those are written. Who reads takes the base without the keys that have changed, and
the changes. When these have become many they are merged into a new base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rekindle.runtime.loops.batches import Batch, BatchStore
from rekindle.runtime.loops.frames import Frames, names_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_CHANGES = 4
_SHARE = 0.5
"""Changes that are this part of the base are merged: to read around them costs more than to write it again."""


@dataclass(frozen=True, slots=True)
class State:
    """Of one update.

    Attributes:
        keys: columns that tell its rows apart.
        base: None before there is one.
        changes: the oldest first.
    """

    keys: tuple[str, ...]
    base: Batch | None = None
    changes: tuple[Batch, ...] = ()

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All that it is made of."""
        return self.changes if self.base is None else (self.base, *self.changes)

    @property
    def is_worth_merging(self) -> bool:
        if self.base is None or not self.changes:
            return False
        rows = sum(batch.rows for batch in self.changes)
        return len(self.changes) >= _MOST_CHANGES or rows >= _SHARE * self.base.rows

    def changed(self, batch: Batch) -> State:
        """The first rows are the base."""
        if self.base is None:
            return replace(self, base=batch)
        return replace(self, changes=(*self.changes, batch))

    def read(self, batches: BatchStore, frames: Frames, empty: DataFrame) -> DataFrame:
        """All its rows, with the columns of `empty` in their order; that itself before there are any."""
        if self.base is None:
            return empty
        found = frames.overlaid(self.keys, [batches.read(one) for one in self.batches])
        return frames.in_order(found, names_of(frames.columns(empty)))
