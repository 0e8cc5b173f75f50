"""Settings: defaults, their three forms, and errors that name the key."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.api.settings import (
    BlocklistSpec,
    RecoverySpec,
    RekindleSettings,
    SettingsError,
    SpeculationSpec,
)
from rekindle.core.options import FailoverStrategyKind

_seconds = st.integers(0, 10**9).map(lambda ms: ms / 1000)
_some_seconds = st.integers(1, 10**9).map(lambda ms: ms / 1000)
_ratios = st.integers(0, 999).map(lambda n: Decimal(n) / 1000)
_settings = st.builds(
    RekindleSettings,
    speculation=st.builds(
        SpeculationSpec,
        enabled=st.booleans(),
        max_concurrent_executions=st.integers(1, 9),
        block_slow_node_duration=_seconds,
        source_enabled=st.none() | st.booleans(),
        sink_enabled=st.booleans(),
        check_interval=_some_seconds,
        baseline_lower_bound=_seconds,
        baseline_ratio=_ratios,
        baseline_multiplier=st.floats(0.01, 100),
    ),
    blocklist=st.builds(BlocklistSpec, max_blocked_share=_ratios),
    recovery=st.builds(
        RecoverySpec,
        failover_strategy=st.sampled_from(["region", "restartAll"]),
        max_failures_per_task=st.integers(1, 99),
        max_total_failures=st.none() | st.integers(0, 99),
        store=st.none() | st.just("/a folder/with=signs"),
        volumes=st.integers(1, 9),
        store_limit=st.none() | st.integers(1, 1 << 50),
        store_timeout=st.integers(1, 10**6).map(float),
        lease_seconds=st.floats(0.1, 1000),
    ),
)


@pytest.mark.requirement("S1-4", "S1-5", "S1-6", "S1-7", "S2-4", "S2-6", "S2-7", "S2-8", "S6-18", "S6-19", "S6-24")
def test_defaults_are_flink_s():
    core = RekindleSettings().to_core()
    assert not core.speculation.enabled
    assert core.speculation.max_concurrent_executions == 2
    assert core.speculation.block_slow_node_duration == 60.0
    assert core.speculation.source_enabled is None
    assert not core.speculation.sink_enabled
    assert core.slow_tasks.check_interval == 1.0
    assert core.slow_tasks.baseline_lower_bound == 60.0
    assert core.slow_tasks.baseline_ratio == Fraction(3, 4)
    assert core.slow_tasks.baseline_multiplier == 1.5
    assert core.failover.strategy is FailoverStrategyKind.REGION
    assert core.failover.max_failures_per_task == 4
    assert core.failover.max_total_failures is None
    assert core.blocklist.max_blocked_share == Fraction(1, 5)


def test_every_setting_reaches_the_core():
    core = RekindleSettings.model_validate(
        {
            "speculation": {
                "enabled": True,
                "maxConcurrentExecutions": 3,
                "blockSlowNodeDuration": "90s",
                "sourceEnabled": False,
                "sinkEnabled": True,
                "checkInterval": "200ms",
                "baselineLowerBound": "2s",
                "baselineRatio": 0.55,
                "baselineMultiplier": 2.5,
            },
            "blocklist": {"maxBlockedShare": 0.5},
            "recovery": {"failoverStrategy": "restartAll", "maxFailuresPerTask": 2, "maxTotalFailures": 9},
        }
    ).to_core()
    assert core.speculation.enabled
    assert core.speculation.max_concurrent_executions == 3
    assert core.speculation.block_slow_node_duration == 90.0
    assert core.speculation.source_enabled is False
    assert core.speculation.sink_enabled
    assert core.slow_tasks.check_interval == 0.2
    assert core.slow_tasks.baseline_lower_bound == 2.0
    assert core.slow_tasks.baseline_ratio == Fraction(55, 100)
    assert core.slow_tasks.baseline_multiplier == 2.5
    assert core.blocklist.max_blocked_share == Fraction(1, 2)
    assert core.failover.strategy is FailoverStrategyKind.RESTART_ALL
    assert core.failover.max_failures_per_task == 2
    assert core.failover.max_total_failures == 9


@given(_settings)
def test_spark_conf_is_read_back_as_it_was_written(settings):
    conf = settings.to_spark_conf()
    assert all(key.startswith("spark.rekindle.") for key in conf)
    assert RekindleSettings.from_spark_conf(conf) == settings


@given(_settings)
def test_whatever_the_models_take_the_core_takes(settings):
    settings.to_core()


def test_spark_conf_has_the_names_of_the_manifest():
    conf = RekindleSettings(speculation=SpeculationSpec(block_slow_node_duration=0.5)).to_spark_conf()
    assert conf["spark.rekindle.speculation.blockSlowNodeDuration"] == "500ms"
    assert conf["spark.rekindle.speculation.enabled"] == "false"
    assert conf["spark.rekindle.recovery.failoverStrategy"] == "region"
    assert "spark.rekindle.recovery.store" not in conf


def test_other_keys_of_a_session_are_left_alone():
    conf = {"spark.app.name": "x", "spark.rekindle.explain": "true", "spark.rekindle.driver.attempt": "2"}
    assert RekindleSettings.from_spark_conf(conf) == RekindleSettings()


@pytest.mark.requirement("S6-14", "S6-17")
@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("speculation.enabld", "true", "speculation.enabld: unknown field; did you mean enabled?"),
        ("speculatoin.enabled", "true", "did you mean spark.rekindle.speculation.enabled?"),
        ("maxConcurrentExecutions", "3", "did you mean spark.rekindle.speculation.maxConcurrentExecutions?"),
        ("storelimit", "3g", "did you mean spark.rekindle.recovery.storeLimit?"),
        ("recovery", "region", "there are spark.rekindle.speculation.*, spark.rekindle.blocklist.*"),
        ("xyzzy.enabled", "true", "there are spark.rekindle.speculation.*, spark.rekindle.blocklist.*"),
        ("speculation.enabled", "maybe", "speculation.enabled: expected true or false, got 'maybe'"),
        ("speculation.max_concurrent_executions", "2", "did you mean maxConcurrentExecutions?"),
        ("speculation.maxConcurrentExecutions", "two", "expected a whole number, got 'two'"),
        ("speculation.maxConcurrentExecutions", "0", "greater than or equal to 1, got '0'"),
        ("speculation.baselineRatio", "1", "less than 1"),
        ("speculation.checkInterval", "often", "'often' is not a duration"),
        ("blocklist.maxBlockedShare", "1.2", "less than or equal to 1, got '1.2'"),
        ("recovery.failoverStrategy", "all", "expected one of 'region' or 'restartAll', got 'all'"),
        ("recovery.failoverStrategy", "region-legacy", "expected one of 'region' or 'restartAll'"),
        ("recovery.failoverStrategy", "individual", "expected one of 'region' or 'restartAll'"),
        ("recovery.storeLimit", "lots", "'lots' is not a size"),
    ],
)
def test_a_bad_key_is_named_with_the_remedy(key, value, says):
    with pytest.raises(SettingsError) as caught:
        RekindleSettings.from_spark_conf({f"spark.rekindle.{key}": value})
    assert f"spark.rekindle.{key}: " in str(caught.value)
    assert says in str(caught.value)


def test_all_bad_keys_are_told_at_once():
    conf = {"spark.rekindle.recovery.volumes": "0", "spark.rekindle.speculation.enabled": "x"}
    with pytest.raises(SettingsError) as caught:
        RekindleSettings.from_spark_conf(conf)
    assert len(str(caught.value).splitlines()) == 2
