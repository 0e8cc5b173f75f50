"""What Spark is told of speculation, and what an application says over it."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.api.quantities import parse_duration
from rekindle.api.spark_application import SparkApplication
from rekindle.controller.reading import read_spec
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.properties import properties
from rekindle.controller.submission.speculation import overridden, speculation_properties
from tests.unit.controller.world import UID, manifest

QUANTILE, HEARTBEAT = "spark.speculation.quantile", "spark.executor.heartbeatInterval"


def application(spark_conf: dict[str, str] | None = None, **speculation: Any) -> SparkApplication:
    read = read_spec(manifest(speculation={"enabled": True, **speculation}, sparkConf=spark_conf or {}))
    assert read.application is not None, read.problems
    return read.application


def made(**speculation: Any) -> dict[str, str]:
    return speculation_properties(application(**speculation).spec)


def told(spark_conf: dict[str, str] | None = None, **speculation: Any) -> dict[str, str]:
    """All that the driver is told."""
    return properties(application(spark_conf, **speculation), AttemptNames("pi", UID, 1), "team")


def test_all_that_is_made_of_it_reaches_the_driver():
    assert made().items() <= told().items()


@pytest.mark.requirement("S2-12", "S2-4")
def test_nothing_where_it_is_off():
    spec = application(enabled=False, baselineRatio=0.5).spec
    assert speculation_properties(spec) == {}
    assert overridden(spec) == []
    assert not told(enabled=False).keys() & made().keys()


@pytest.mark.requirement("S1-4", "S1-5", "S1-6", "S1-7")
def test_spark_copies_by_the_measure_of_the_application():
    found = made(checkInterval="2500ms", baselineLowerBound="2min", baselineRatio="0.55", baselineMultiplier=2.25)
    assert found["spark.speculation"] == "true"
    assert parse_duration(found["spark.speculation.interval"]) == 2.5
    assert parse_duration(found["spark.speculation.minTaskRuntime"]) == 120.0
    assert float(found[QUANTILE]) == 0.55
    assert float(found["spark.speculation.multiplier"]) == 2.25


@pytest.mark.parametrize("interval", ["1us", "400us", "500us", "1ms"])
def test_spark_gets_no_timer_of_no_time(interval):
    assert made(checkInterval=interval)["spark.speculation.interval"] == "1ms"


def test_no_lower_bound_is_none():
    assert parse_duration(made(baselineLowerBound=0)["spark.speculation.minTaskRuntime"]) == 0.0


@pytest.mark.parametrize(("ratio", "expected"), [("0.75", 0.5), ("0.5", 0.5), ("0.25", 0.25)])
def test_with_node_aware_spark_copies_where_half_the_tasks_are_on_one_node(ratio, expected):
    assert float(made(detector="nodeAware", baselineRatio=ratio)[QUANTILE]) == expected


def test_an_executor_whose_pod_is_deleted_gives_away_what_others_may_fetch():
    decommissioning = {key: value for key, value in made().items() if ".decommission." in key}
    assert set(decommissioning.values()) == {"true"}
    assert "spark.decommission.enabled" in decommissioning
    assert {key for key in decommissioning if key.endswith("Blocks.enabled")} == {
        "spark.storage.decommission.shuffleBlocks.enabled",
        "spark.storage.decommission.rddBlocks.enabled",
    }


def test_a_task_does_not_wait_for_an_executor_that_was_drained_until_sparks_network_timeout():
    assert 1.0 <= parse_duration(made()["spark.shuffle.io.connectionCreationTimeout"]) <= 30.0
    assert "spark.shuffle.io.connectionCreationTimeout" not in made(enabled=False)


@pytest.mark.parametrize("bound", [0, 0.5, 3, 8, 15, 60, 3600])
@pytest.mark.parametrize("detector", ["executionTime", "nodeAware"])
def test_a_task_tells_what_it_has_read_before_it_can_be_slow_and_never_seldomer_than_by_sparks_default(bound, detector):
    settings = application(baselineLowerBound=bound, detector=detector).spec.settings().to_core()
    least = bound if settings.node_aware is None else settings.node_aware.lower_bound
    heartbeat = parse_duration(made(baselineLowerBound=bound, detector=detector)[HEARTBEAT])
    assert heartbeat == 1.0 or 2 * heartbeat <= least
    assert 1.0 <= heartbeat <= 10.0


class TestWhatTheApplicationSays:
    def test_wins_and_is_named(self):
        ours = made()
        for key, value in ours.items():
            other = "7s" if value != "7s" else "8s"
            assert told({key: other})[key] == other
            assert overridden(application({key: other}).spec) == [key]

    def test_is_not_named_where_it_says_the_same_or_something_else(self):
        assert overridden(application({**made(), "spark.eventLog.enabled": "true"}).spec) == []

    def test_is_named_in_the_order_of_the_keys(self):
        conf = {QUANTILE: "0.1", HEARTBEAT: "3s", "spark.decommission.enabled": "false"}
        assert overridden(application(conf).spec) == sorted(conf)

    def test_may_be_a_setting_of_ours(self):
        """`spark.rekindle.*` keys are settings as the blocks are."""
        spec = application({"spark.rekindle.speculation.baselineRatio": "0.25"}).spec
        assert float(speculation_properties(spec)[QUANTILE]) == 0.25
