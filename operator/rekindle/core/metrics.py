"""What the core counts, as a record."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GraphMetrics:
    """Counters since the job began; `num_slow_execution_vertices` is as of the last report (S2-40).

    Attributes:
        num_effective_speculative_executions: vertices finished by a copy, but for those reset since (S2-41).
        num_speculative_executions: copies made.
        num_restarts: restarts; num_restarted_vertices: the vertices they reset.
        num_retries: attempts that failed, or that somebody ended, tried again without a restart.
        num_failures: failures that count against a budget (S6-24).
        num_spared_vertices: finished vertices that equal digests kept from restarting (S7-7).
    """

    num_slow_execution_vertices: int = 0
    num_effective_speculative_executions: int = 0
    num_speculative_executions: int = 0
    num_restarts: int = 0
    num_restarted_vertices: int = 0
    num_retries: int = 0
    num_failures: int = 0
    num_spared_vertices: int = 0


class Counters:
    """The metrics, moving."""

    def __init__(self) -> None:
        self.metrics = GraphMetrics()

    def add(self, **more: int) -> None:
        """Raises TypeError for a name that is no counter."""
        new = {name: getattr(self.metrics, name, 0) + value for name, value in more.items()}
        self.metrics = replace(self.metrics, **new)

    def slow_now(self, vertices: int) -> None:
        self.metrics = replace(self.metrics, num_slow_execution_vertices=vertices)
