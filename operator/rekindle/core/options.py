"""What can be set. Durations are seconds; ratios are exact fractions, so that 0.55 of 100 is 55 (S1-22).

Each refuses a value that makes no sense with a ValueError that names the field and the remedy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

Ratio = Fraction | Decimal | int | float | str


@dataclass(frozen=True, slots=True)
class SlowTaskDetectorOptions:
    """When a task is slow (FLIP-168; S1-4 to S1-8, S1-26)."""

    check_interval: float = 1.0
    """Time between two looks at all tasks."""

    baseline_lower_bound: float = 60.0
    """No task is slow that has run for less."""

    baseline_ratio: Fraction = Fraction(3, 4)
    """Share of a job vertex that must have finished before its tasks have a baseline; 0 <= ratio < 1."""

    baseline_multiplier: float = 1.5
    """The baseline is this many times the median of the first to finish."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "baseline_ratio", exact("baseline_ratio", self.baseline_ratio))
        _require(_finite(self.check_interval) and self.check_interval > 0, "check_interval",
                 "be more than 0 seconds")  # fmt: skip
        _require(self.baseline_lower_bound >= 0, "baseline_lower_bound", "be 0 seconds or more")
        _require(0 <= self.baseline_ratio < 1, "baseline_ratio", "be at least 0 and less than 1")
        _require(_finite(self.baseline_multiplier) and self.baseline_multiplier > 0, "baseline_multiplier",
                 "be more than 0")  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeAwareOptions:
    """When a node is sick (Flink has no such detector)."""

    lower_bound: float = 10.0
    """No attempt is evidence while it runs and has run for less."""

    tolerated_factor: float = 1.6
    """A node may be so many times slower than the others for good: older hardware, a busy neighbour."""

    false_alarm_rate: float = 0.01
    """In how many job vertices, as a share, a healthy node may be called sick by chance."""

    cold_start: float = 30.0
    """What a node's first attempts may take longer, where there are no first attempts elsewhere."""

    def __post_init__(self) -> None:
        _require(self.lower_bound >= 0, "lower_bound", "be 0 seconds or more")
        _require(_finite(self.tolerated_factor) and self.tolerated_factor >= 1, "tolerated_factor", "be at least 1")
        _require(0 < self.false_alarm_rate < 1, "false_alarm_rate", "be more than 0 and less than 1")
        _require(_finite(self.cold_start) and self.cold_start >= 0, "cold_start", "be 0 seconds or more")


@dataclass(frozen=True, slots=True)
class SpeculationOptions:
    """Copies of slow tasks (FLIP-168; S2-4 to S2-8, S5-1, S5-2)."""

    enabled: bool = False
    """The master switch."""

    max_concurrent_executions: int = 2
    """Most current executions of one execution vertex, the original among them."""

    block_slow_node_duration: float = 60.0
    """How long the node of a slow task gets no new tasks; 0 blocks nothing."""

    source_enabled: bool | None = None
    """Copy vertices with sources; None follows `enabled`."""

    sink_enabled: bool = False
    """Copy vertices with sinks, if their sinks take concurrent attempts."""

    def __post_init__(self) -> None:
        _require(self.max_concurrent_executions >= 1, "max_concurrent_executions",
                 "be at least 1, for the original counts too")  # fmt: skip
        _require(_finite(self.block_slow_node_duration) and self.block_slow_node_duration >= 0,
                 "block_slow_node_duration", "be 0 seconds or more")  # fmt: skip


class FailoverStrategyKind(StrEnum):
    """How far a failure reaches (S6-13, S6-15)."""

    REGION = "region"
    RESTART_ALL = "restart-all"


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """What is restarted after a failure, and how many failures a job survives (FLIP-1; S6-17, S6-24)."""

    strategy: FailoverStrategyKind = FailoverStrategyKind.REGION

    max_failures_per_task: int = 4
    """One task's failures that the job survives; one more fails it. Lost infrastructure is not counted."""

    max_total_failures: int | None = None
    """All failures that the job survives, lost infrastructure included; None is no bound."""

    def __post_init__(self) -> None:
        _require(self.max_failures_per_task >= 0, "max_failures_per_task", "be 0 or more")
        _require(self.max_total_failures is None or self.max_total_failures >= 0, "max_total_failures",
                 "be 0 or more, or unset for no bound")  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlocklistOptions:
    """How much of the cluster may be blocked (FLIP-224 has no such bound)."""

    max_blocked_share: Fraction = Fraction(1, 5)
    """Most nodes blocked at a time, as a share of all, rounded up; the last node is never blocked."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_blocked_share", exact("max_blocked_share", self.max_blocked_share))
        _require(0 <= self.max_blocked_share <= 1, "max_blocked_share", "be between 0 and 1")


def exact(field: str, ratio: Ratio) -> Fraction:
    """`ratio` as it is written in decimal: the float 0.55 is 55/100, not the binary number nearest to it."""
    try:
        return Fraction(str(ratio)) if isinstance(ratio, float) else Fraction(ratio)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"{field} must be a finite number, and is {ratio!r}") from error


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _require(holds: bool, field: str, remedy: str) -> None:
    if not holds:
        raise ValueError(f"{field} must {remedy}")
