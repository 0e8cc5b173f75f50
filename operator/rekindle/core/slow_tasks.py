"""Slow-task detectors. They look and change nothing; the scheduler acts on what they find (S1-3).

A detector keeps no state: each look is worked out afresh, so a doubled or dropped look does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rekindle.core.events import SlowTasksFound
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.options import SlowTaskDetectorOptions

Slow = tuple[ExecutionVertexID, tuple[ExecutionAttemptID, ...], str]


class GraphView(Protocol):
    """What a detector may look at: `core.graph.ExecutionGraph` is one."""

    def execution_job_vertices(self) -> Sequence[ExecutionJobVertex]: ...


class SlowTaskDetector(Protocol):
    """A strategy to tell slow tasks (S1-9)."""

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        """The attempts slow at `now`, each under its vertex (S1-2); none is an answer too (S1-29)."""
        ...


@dataclass(frozen=True, slots=True)
class Baseline:
    """From which execution time on a task of one job vertex is slow.

    Attributes:
        seconds: the baseline itself.
        sample: how many of the first to finish it was taken from.
        typical: the median of their execution times, in seconds.
    """

    seconds: float
    sample: int
    typical: float

    def __str__(self) -> str:
        return f"slow from {self.seconds:.1f} s on (median of the first {self.sample} to finish: {self.typical:.1f} s)"


@dataclass(frozen=True, slots=True)
class ExecutionTimeBasedSlowTaskDetector:
    """Slow is what has run much longer than the first tasks of its job vertex to finish did (FLIP-168).

    The rules are S1-10 to S1-28: the baseline is the median of the first ceil(N * ratio) to finish, times the
    multiplier, and never below the lower bound.
    """

    options: SlowTaskDetectorOptions = SlowTaskDetectorOptions()  # noqa: RUF009 (it is frozen)

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        found: list[Slow] = []
        for vertex in graph.execution_job_vertices():
            baseline = self.baseline(vertex)
            if baseline is not None:
                found += _slower(vertex, baseline, now)
        return SlowTasksFound(tuple(found))

    def baseline(self, vertex: ExecutionJobVertex) -> Baseline | None:
        """None before ceil(N * ratio) execution vertices have finished (S1-11), and when all have."""
        size = math.ceil(vertex.parallelism * self.options.baseline_ratio)
        if len(vertex.finished) < size or vertex.is_finished:
            return None
        typical = vertex.finishing_order.typical(size)
        bound = self.options.baseline_lower_bound
        return Baseline(max(typical * self.options.baseline_multiplier, bound), size, typical)


def _slower(vertex: ExecutionJobVertex, baseline: Baseline, now: float) -> list[Slow]:
    """Slow attempts of vertices that have not finished, by subtask."""
    found: list[Slow] = []
    tasks, limit, why = vertex.tasks, baseline.seconds, str(baseline)
    for subtask in sorted(vertex.unfinished):
        task = tasks[subtask]
        # Equal is slow (S1-14); what was never deployed is not, even where the baseline is 0 (S1-27).
        slow = [one for one in task.executions if one.state.is_running and one.execution_time(now) >= limit]
        if slow:
            longest = max([one.execution_time(now) for one in slow])
            found.append((task.id, tuple([one.attempt_id for one in slow]), f"running for {longest:.1f} s; {why}"))
    return found
