"""Slow-task detectors. They look and change nothing; the scheduler acts on what they find (S1-3).

A detector keeps no state: each look is worked out afresh, so a doubled or dropped look does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from rekindle.core.events import SlowTasksFound
from rekindle.core.execution import Execution, ExecutionVertex
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_graph import JobGraph, JobVertex
from rekindle.core.options import SlowTaskDetectorOptions

Slow = tuple[ExecutionVertexID, tuple[ExecutionAttemptID, ...], str]


class GraphView(Protocol):
    """What a detector may look at: `core.graph.ExecutionGraph` is one."""

    @property
    def job_graph(self) -> JobGraph: ...

    def execution_vertices(self, vertex: str) -> Sequence[ExecutionVertex]: ...


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


@dataclass(frozen=True, slots=True)
class ExecutionTimeBasedSlowTaskDetector:
    """Slow is what has run much longer than the first tasks of its job vertex to finish did (FLIP-168).

    The rules are S1-10 to S1-28: the baseline is the median of the first ceil(N * ratio) to finish, times the
    multiplier, and never below the lower bound.
    """

    options: SlowTaskDetectorOptions = SlowTaskDetectorOptions()  # noqa: RUF009 (it is frozen)

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        found: list[Slow] = []
        for vertex in graph.job_graph.vertices:
            tasks = graph.execution_vertices(vertex.name)
            baseline = self.baseline(vertex, tasks)
            if baseline is not None:
                found += _slower(tasks, baseline, now)
        return SlowTasksFound(tuple(found))

    def baseline(self, vertex: JobVertex, tasks: Sequence[ExecutionVertex]) -> Baseline | None:
        """None before ceil(N * ratio) execution vertices have finished (S1-11), and when all have."""
        finished = [task.representative for task in tasks if task.is_finished]
        size = math.ceil(vertex.parallelism * self.options.baseline_ratio)
        if len(finished) < size or len(finished) == len(tasks):
            return None
        first = sorted(finished, key=_finished_at)[:size]
        times = [one.execution_time(now=0.0) for one in first if one.deployed_at is not None]
        typical = median(times) if times else 0.0
        bound = self.options.baseline_lower_bound
        return Baseline(max(typical * self.options.baseline_multiplier, bound), size, typical)


def _finished_at(execution: Execution) -> tuple[float, ExecutionAttemptID]:
    return (execution.finished_at or 0.0, execution.attempt_id)


def _slower(tasks: Sequence[ExecutionVertex], baseline: Baseline, now: float) -> list[Slow]:
    """Slow attempts of vertices that have not finished."""
    found: list[Slow] = []
    for task in tasks:
        if not task.is_finished:
            slow = [one for one in task.executions if _is_slow(one, baseline, now)]
            if slow:
                longest = max(one.execution_time(now) for one in slow)
                found.append((task.id, tuple(one.attempt_id for one in slow), _evidence(longest, baseline)))
    return found


def _is_slow(execution: Execution, baseline: Baseline, now: float) -> bool:
    """Equal is slow (S1-14); what was never deployed is not, even where the baseline is 0 (S1-27)."""
    return execution.state.is_running and execution.execution_time(now) >= baseline.seconds


def _evidence(seconds: float, baseline: Baseline) -> str:
    return (
        f"running for {seconds:.1f} s; slow from {baseline.seconds:.1f} s on "
        f"(median of the first {baseline.sample} to finish: {baseline.typical:.1f} s)"
    )
