"""The map side of a stage: Spark's own shuffles, there while this driver and the executors that hold them live.

Spark makes lost map outputs again by itself, and they may come out differently. Here that is noticed (the EPHEMERAL
rule): by what is missing, by stages that Spark runs again, by the order of tasks, and by checksums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from rekindle.runtime.scheduler import Scheduler, StageView

_MOST_MAP_OUTPUTS_ASKED = 2000


class MapSide:
    """The shuffles of one plan.

    Args:
        shuffles: all that the plan makes, by Spark's ids.
        read: those that its result tasks read.
        fed_by: [shuffle -> those that its map tasks read], of those that read one.
        values: a digest of what else the plan gives to the result tasks.
        reads_beside: whether its result tasks read other rows beside them.

    Attributes:
        digest_up_to: the highest id of a map task whose output was in the last digest.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        shuffles: tuple[int, ...] = (),
        read: tuple[int, ...] = (),
        fed_by: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
        values: str = "",
        *,
        reads_beside: bool = False,
    ) -> None:
        self.shuffles, self.digest_up_to = shuffles, -1
        self._scheduler, self._read, self._fed_by = scheduler, read, fed_by
        self._values, self._reads_beside = values, reads_beside
        self._complete_shuffles: set[int] = set()
        self._seen_reruns: set[tuple[int, int]] = set()
        self._made: dict[int, list[int]] = {}
        self._made_at = -1

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.shuffles)

    def loss(self, views: list[StageView]) -> str | None:
        """Why the shuffles are not what they were, or None (the EPHEMERAL rule).

        Either a shuffle that was complete lacks outputs, or Spark ran a stage again by itself.
        """
        if not self.shuffles:
            return None
        for view in views:
            if view.attempt > 0 and (view.stage, view.attempt) not in self._seen_reruns:
                self._seen_reruns.add((view.stage, view.attempt))
                return f"Spark ran its stage {view.stage} again (attempt {view.attempt})"
        for shuffle in self.shuffles:
            outputs = self._scheduler.available_map_outputs(shuffle)
            total = self._scheduler.map_partitions(shuffle)
            if outputs is None or total is None:
                continue
            if outputs == total:
                self._complete_shuffles.add(shuffle)
            elif shuffle in self._complete_shuffles:
                self._complete_shuffles.discard(shuffle)
                return f"{total - outputs} of {total} map outputs are gone"
        return None

    def is_intact(self) -> bool:
        """Whether every map output that a rerun of some partitions would read is there."""
        return all(
            self._scheduler.available_map_outputs(shuffle) == self._scheduler.map_partitions(shuffle)
            for shuffle in self.shuffles
        )

    def mixture(self, first_task: int) -> str | None:
        """Why the committed partitions may have read different map outputs, or None.

        Spark numbers tasks in the order in which it launches them. Where no map output was recomputed, every
        result task has a higher number than every map task; `first_task` is the lowest of those that wrote. The same
        holds of a map side of several shuffles: whoever reads one has a higher number than all who made it.
        """
        made = self._map_tasks()
        readers = [("result task", first_task, self._read)]
        readers += [("map task", min(made[one]), read) for one, read in self._fed_by.items() if made[one]]
        for reader, first, read in readers:
            latest = max((task for shuffle in read for task in made[shuffle]), default=-1)
            if latest > first:
                return f"map task {latest} ran after {reader} {first}"
        return None

    def _map_tasks(self) -> dict[int, list[int]]:
        """[shuffle -> ids of the map tasks whose outputs are there]; asked for when there may be others."""
        epoch = self._scheduler.map_output_epoch()
        if epoch != self._made_at:
            outputs = {one: self._scheduler.map_outputs(one) for one in {*self._read, *self.shuffles}}
            self._made = {shuffle: [output[0] for output in made if output] for shuffle, made in outputs.items()}
            self._made_at = epoch
        return self._made

    def digest(self) -> str | None:
        """A digest of what the result tasks read from the map side, equal for equal rows in any order.

        From Spark's own order-independent checksums of map outputs (Spark 4.1), and the values that the plan gives to
        the result tasks. None where there are none, an output is missing, there are too many to ask for, or the tasks
        read other rows beside them.
        """
        sizes = [self._scheduler.map_partitions(shuffle) or 0 for shuffle in self._read]
        if self._reads_beside or not sizes or sum(sizes) > _MOST_MAP_OUTPUTS_ASKED:
            return None
        outputs = [output for shuffle in self._read for output in self._scheduler.map_outputs(shuffle)]
        checksums = [output[2] if output else None for output in outputs]
        if not checksums or not all(checksums):
            return None
        self.digest_up_to = max(output[0] for output in outputs if output)
        return hashlib.sha256(json.dumps([self._values, *checksums]).encode()).hexdigest()[:32]

    def holders(self) -> set[str]:
        """Executors that hold map outputs of the stage."""
        return {output[1] for shuffle in self.shuffles for output in self._scheduler.map_outputs(shuffle) if output}
