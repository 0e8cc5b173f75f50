"""Defaults, and values that are refused."""

from decimal import Decimal
from fractions import Fraction

import pytest

from rekindle.core.options import (
    BlocklistOptions,
    FailoverOptions,
    FailoverStrategyKind,
    NodeAwareOptions,
    SlowTaskDetectorOptions,
    SpeculationOptions,
)


@pytest.mark.requirement("S1-4", "S1-5", "S1-6", "S1-7", "S1-8")
def test_defaults_of_the_detector():
    options = SlowTaskDetectorOptions()
    assert (options.check_interval, options.baseline_lower_bound) == (1.0, 60.0)
    assert (options.baseline_ratio, options.baseline_multiplier) == (Fraction(3, 4), 1.5)


@pytest.mark.requirement("S2-4", "S2-6", "S2-7", "S2-8", "S5-1")
def test_defaults_of_speculation():
    options = SpeculationOptions()
    assert (options.enabled, options.max_concurrent_executions) == (False, 2)
    assert options.block_slow_node_duration == 60.0
    assert (options.source_enabled, options.sink_enabled) == (None, False)


@pytest.mark.requirement("S6-17", "S6-18", "S6-24")
def test_defaults_of_failover():
    options = FailoverOptions()
    assert options.strategy is FailoverStrategyKind.REGION
    assert (options.max_failures_per_task, options.max_total_failures) == (4, None)


@pytest.mark.requirement("S1-26", "S3-8")
@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (SlowTaskDetectorOptions, "check_interval", 0),
        (SlowTaskDetectorOptions, "check_interval", float("nan")),
        (SlowTaskDetectorOptions, "baseline_lower_bound", -0.1),
        (SlowTaskDetectorOptions, "baseline_lower_bound", float("nan")),
        (SlowTaskDetectorOptions, "baseline_ratio", 1),
        (SlowTaskDetectorOptions, "baseline_ratio", Fraction(-1, 4)),
        (SlowTaskDetectorOptions, "baseline_ratio", float("nan")),
        (SlowTaskDetectorOptions, "baseline_ratio", "three quarters"),
        (SlowTaskDetectorOptions, "baseline_multiplier", 0),
        (SlowTaskDetectorOptions, "baseline_multiplier", float("inf")),
        (NodeAwareOptions, "cold_start", float("inf")),
        (SpeculationOptions, "max_concurrent_executions", 0),
        (SpeculationOptions, "block_slow_node_duration", -1),
        (FailoverOptions, "max_failures_per_task", -1),
        (FailoverOptions, "max_total_failures", -1),
        (BlocklistOptions, "max_blocked_share", Fraction(11, 10)),
        (BlocklistOptions, "max_blocked_share", Decimal("NaN")),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(options, field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        options(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("lower_bound", -0.1, "be 0 seconds or more"),
        ("tolerated_factor", 0.9, "be at least 1"),
        ("tolerated_factor", float("inf"), "be at least 1"),
        ("false_alarm_rate", 0, "be more than 0 and less than 1"),
        ("false_alarm_rate", 1, "be more than 0 and less than 1"),
        ("cold_start", -0.1, "be 0 seconds or more"),
    ],
)
def test_and_the_remedy_is_told(field, value, remedy):
    with pytest.raises(ValueError, match=f"^{field} must {remedy}$"):
        NodeAwareOptions(**{field: value})


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (SlowTaskDetectorOptions, "baseline_multiplier", 0.5),
        (NodeAwareOptions, "lower_bound", 0),
        (NodeAwareOptions, "tolerated_factor", 1),
        (NodeAwareOptions, "cold_start", 0),
    ],
)
def test_what_is_just_allowed(options, field, value):
    assert getattr(options(**{field: value}), field) == value


@pytest.mark.requirement("S1-22")
@pytest.mark.parametrize("ratio", [0.55, "0.55", Decimal("0.55"), Fraction(55, 100)])
def test_a_ratio_is_the_number_that_was_written(ratio):
    assert SlowTaskDetectorOptions(baseline_ratio=ratio).baseline_ratio == Fraction(55, 100)
