"""What the updates of a loop keep: a row for each key, as a base and the changes since.

A batch changes some rows, and only those are written. Who reads takes the base without the keys that have changed, and
the changes. When these have become many they are merged into a new base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from rekindle.runtime.loops.batches import Batch, BatchStore

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

    def read(self, batches: BatchStore, schema: str) -> DataFrame:
        """All its rows; none, with the columns of `schema` (DDL), before the first."""
        if self.base is None:
            return batches.empty(schema)
        return _overlaid(self.keys, [batches.read(one) for one in self.batches])


@dataclass
class States:
    """[name of an update -> its state]"""

    of: dict[str, State] = field(default_factory=dict)

    @property
    def batches(self) -> frozenset[str]:
        """Names of all that they are made of."""
        return frozenset(batch.name for state in self.of.values() for batch in state.batches)


def _overlaid(keys: Sequence[str], frames: Sequence[DataFrame]) -> DataFrame:
    """Rows of the last frame that has their key."""
    return reduce(lambda older, newer: older.join(newer, list(keys), "left_anti").unionByName(newer), frames)
