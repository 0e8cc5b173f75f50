"""How many failures a job survives (S6-24)."""

from __future__ import annotations

from collections import Counter

from rekindle.core.events import FailureKind
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.options import FailoverOptions


class FailureBudget:
    """Counts failures. Lost infrastructure is not held against a task, only against the job.

    Attributes:
        options: the bounds, as they were told last.
    """

    def __init__(self, options: FailoverOptions) -> None:
        self.options = options
        self._by_task: Counter[ExecutionVertexID] = Counter()
        self._total = 0

    def set_options(self, options: FailoverOptions) -> None:
        """The bounds from now on; what was counted stays."""
        self.options = options

    def record(self, vertex_id: ExecutionVertexID, kind: FailureKind) -> str | None:
        """Count a failure; returns why the job fails when it is one too many."""
        self._total += 1
        per_task, in_total = self.options.max_failures_per_task, self.options.max_total_failures
        if kind is not FailureKind.INFRASTRUCTURE:
            self._by_task[vertex_id] += 1
            if self._by_task[vertex_id] > per_task:
                return f"{vertex_id} failed {self._by_task[vertex_id]} times; maxFailuresPerTask is {per_task}"
        if in_total is not None and self._total > in_total:
            return f"{self._total} failures in all; maxTotalFailures is {in_total}"
        return None

    def clear(self) -> None:
        self._by_task.clear()
        self._total = 0
