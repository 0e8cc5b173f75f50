"""Result partitions: which are there, and which are lost.

A partition is *missing* when it was made and cannot be read: lost, or released. One that is being made is
not missing: whoever needs it waits. What a missing partition contained is still known, so that what replaces
it can be compared with it (S7-7).
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.core.events import PartitionOutput
from rekindle.core.ids import ResultPartitionID
from rekindle.core.job_graph import JobGraph


class ResultPartitions:
    """The partitions of the current version of each execution vertex."""

    def __init__(self, job_graph: JobGraph) -> None:
        self._outputs: dict[str, dict[int, PartitionOutput]] = {name: {} for name in job_graph.order}
        self._missing: dict[str, set[int]] = {name: set() for name in job_graph.order}

    def add(self, vertex: str, subtask: int, output: PartitionOutput) -> None:
        """A partition was made. One already given up stays missing until its vertex is reset."""
        self._outputs[vertex][subtask] = output

    def take_over(self, vertex: str, other: ResultPartitions) -> None:
        """All that `other` knows of the partitions of `vertex`."""
        self._outputs[vertex], self._missing[vertex] = other._outputs[vertex], other._missing[vertex]

    def lose(self, vertex: str, subtasks: Iterable[int]) -> None:
        self._missing[vertex].update(subtasks)

    def invalidate(self, vertex: str, subtasks: Iterable[int]) -> None:
        """Their vertices were reset: what was there is void, and what is made next is another version."""
        for subtask in subtasks:
            self._outputs[vertex].pop(subtask, None)
            self._missing[vertex].discard(subtask)

    def missing(self, vertex: str) -> set[int]:
        """Subtasks whose partition is missing. Not a copy: do not change it."""
        return self._missing[vertex]

    def content(self, vertex: str, subtask: int) -> PartitionOutput | None:
        """What the partition contains, or contained before it went missing; None before it is made."""
        return self._outputs[vertex].get(subtask)

    def output(self, partition: ResultPartitionID) -> PartitionOutput | None:
        """The partition, None when it cannot be read."""
        if partition.subtask in self._missing.get(partition.vertex, ()):
            return None
        return self._outputs.get(partition.vertex, {}).get(partition.subtask)

    @property
    def available(self) -> int:
        """How many partitions can be read, of all vertices."""
        return sum(len(outputs.keys() - self._missing[vertex]) for vertex, outputs in self._outputs.items())
