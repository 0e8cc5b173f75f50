"""What a session is told to lack."""

from __future__ import annotations

import pytest

from rekindle.api.settings import RekindleSettings
from rekindle.runtime.configure import levers, missing_levers

SETTINGS = RekindleSettings.from_spark_conf({"spark.rekindle.speculation.enabled": "true"})
CONF = {lever.key: lever.value for lever in levers(SETTINGS)}


def test_a_session_with_all_of_them_lacks_nothing():
    assert missing_levers(CONF, SETTINGS) == []


@pytest.mark.parametrize("key", CONF)
def test_each_that_is_left_out_is_told_with_what_is_not_done(key):
    (told,) = missing_levers({name: value for name, value in CONF.items() if name != key}, SETTINGS)
    without, _, lacks = told.partition(": this session lacks ")
    assert without
    assert lacks == f"{key}={CONF[key]}"


@pytest.mark.parametrize(
    ("key", "value", "is_told"),
    [
        ("spark.excludeOnFailure.timeout", "1min", False),  # which is 60s
        ("spark.excludeOnFailure.timeout", "1h", True),
        ("spark.decommission.enabled", "TRUE", False),
        ("spark.scheduler.mode", "FIFO", True),
        ("spark.speculation.quantile", "0.9", False),
        ("spark.python.task.killTimeout", "3s", False),
        ("spark.shuffle.io.connectionCreationTimeout", "30s", False),
    ],
)
def test_another_value_is_told_where_something_is_not_done_for_it(key, value, is_told):
    assert bool(missing_levers({**CONF, key: value}, SETTINGS)) is is_told


def test_those_that_lack_for_one_thing_are_told_together():
    keys = ["spark.decommission.enabled", "spark.storage.decommission.enabled"]
    (told,) = missing_levers({name: value for name, value in CONF.items() if name not in keys}, SETTINGS)
    assert told.endswith(": this session lacks " + ", ".join(f"{key}=true" for key in keys))


def test_where_nothing_is_copied_nothing_is_missed_for_copies():
    told = " ".join(missing_levers({}, RekindleSettings()))
    assert [key for key in CONF if f" {key}=" in told] == [
        "spark.task.maxFailures",
        "spark.shuffle.io.connectionCreationTimeout",
        "spark.python.task.killTimeout",
    ]
