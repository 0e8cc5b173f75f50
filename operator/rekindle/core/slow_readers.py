"""Which readers of a source are slow, by the time that a split takes them.

Subtasks that are handed their splits one at a time end at about the same time, however many each has read. So one that
does not end is late at once, and its execution time says so only when half as much again has passed. How long it takes
for a split says it earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median, median_low

from rekindle.core.events import SlowTasksFound
from rekindle.core.execution import Execution
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.options import SlowTaskDetectorOptions
from rekindle.core.slow_tasks import GraphView, Slow, SlowTaskDetector


@dataclass(frozen=True, slots=True)
class SplitsRead:
    """What an attempt takes for its splits, in seconds.

    Attributes:
        taken: for those that it has read to the end, or the last of them.
        current: for the one that it reads, so far; None where it waits for one.
        span: from when it asked for the first, to when it was told the last, or that there are no more.
    """

    taken: tuple[float, ...]
    current: float | None = None
    span: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """Of one job vertex that is a source.

    Attributes:
        finished: [subtask that has been read to the end -> what it took].
        running: [attempt that has asked for a split -> what it takes].
    """

    finished: Mapping[int, SplitsRead]
    running: Mapping[ExecutionAttemptID, SplitsRead]


@dataclass(frozen=True, slots=True)
class SplitTimeBasedSlowTaskDetector:
    """Slow is a reader that takes much longer for a split than those of its source that have finished did.

    It is asked about when as many have finished as the execution times of FLIP-168 ask for (S1-11), and about no task
    that has run for less than the lower bound (S1-13). The median of its splits, the one that it reads among them,
    counts against the median of theirs, so that one long split is nobody's fault. Who has read none to the end is slow
    when it takes longer than for the longest of theirs; who has not even asked for one, when it has run for longer than
    the one of them that took longest before its first split. Each time the multiplier.

    Args:
        times: [job vertex -> it], of sources that are read by splits.
    """

    options: SlowTaskDetectorOptions
    times: Callable[[], Mapping[str, SourceTimes]]

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        times, found = self.times(), list[Slow]()
        for vertex in graph.execution_job_vertices():
            of = times.get(vertex.job_vertex.name)
            enough = len(vertex.finished) >= math.ceil(vertex.parallelism * self.options.baseline_ratio)
            if of is not None and enough and not vertex.is_finished:
                found += self._slower(vertex, of, now)
        return SlowTasksFound(tuple(found))

    def _slower(self, vertex: ExecutionJobVertex, times: SourceTimes, now: float) -> list[Slow]:
        ended = {subtask: one for subtask, one in times.finished.items() if subtask in vertex.finished}
        theirs = sorted(chain.from_iterable(one.taken for one in ended.values()))
        starts = [_start(vertex.tasks[subtask].representative, one, now) for subtask, one in ended.items()]
        found: list[Slow] = []
        for subtask in sorted(vertex.unfinished) if theirs else ():
            task = vertex.tasks[subtask]
            reasons = ((one.attempt_id, self._why(one, times, theirs, starts, now)) for one in task.executions)
            slow = {attempt: why for attempt, why in reasons if why is not None}
            if slow:
                found.append((task.id, tuple(slow), next(iter(slow.values()))))
        return found

    def _why(
        self, one: Execution, times: SourceTimes, theirs: Sequence[float], starts: Sequence[float], now: float
    ) -> str | None:
        """Why an attempt is slow, None where it is not. `theirs`, `starts`: of those that have finished."""
        seconds, read = one.execution_time(now), times.running.get(one.attempt_id)
        if not one.state.is_running or seconds < self.options.baseline_lower_bound:
            return None
        if read is not None:
            return self._by_splits(read, theirs)
        has_been_read = one.attempt_id.vertex_id.subtask in times.finished
        return None if has_been_read else self._by_start(seconds, starts)

    def _by_start(self, seconds: float, theirs: Sequence[float]) -> str | None:
        """Why an attempt is slow that has not asked for a split, None where it is not. `theirs`: seconds without."""
        limit = max(theirs) * self.options.baseline_multiplier
        if seconds < limit:
            return None
        return (
            f"running for {seconds:.1f} s without a split; slow from {limit:.1f} s on (the longest of {len(theirs)} "
            f"that have finished: {max(theirs):.1f} s)"
        )

    def _by_splits(self, read: SplitsRead, theirs: Sequence[float]) -> str | None:
        """Why an attempt is slow that reads a split, None where it is not. `theirs`: seconds for one, in ascending
        order."""
        if read.current is None:
            return None
        its_own = median_low([*read.taken, read.current])
        usual = median(theirs) if read.taken else theirs[-1]
        limit = usual * self.options.baseline_multiplier
        if its_own < limit:
            return None
        what = "a split takes" if read.taken else "its first split has taken"
        those = "the median" if read.taken else "the longest"
        return (
            f"{what} {its_own:.1f} s; slow from {limit:.1f} s on ({those} of {len(theirs)} splits of those that have "
            f"finished: {usual:.1f} s)"
        )


def _start(finished: Execution, read: SplitsRead, now: float) -> float:
    """Seconds that an attempt ran without its splits: nearly all of it before the first."""
    return max(0.0, finished.execution_time(now) - read.span)


@dataclass(frozen=True, slots=True)
class AnyDetector:
    """Slow is what one of several detectors finds; the reason is the first one's."""

    detectors: Sequence[SlowTaskDetector]

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        found: dict[object, Slow] = {}
        for detector in self.detectors:
            for vertex_id, attempts, why in detector.find_slow(graph, now).slow:
                _, known, first = found.get(vertex_id, (vertex_id, (), why))
                found[vertex_id] = (vertex_id, tuple(dict.fromkeys((*known, *attempts))), first)
        return SlowTasksFound(tuple(found.values()))
