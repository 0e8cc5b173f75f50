"""Whatever is stored is read: what cannot be used comes back in words, and never as an error."""

import sys

import pytest

from rekindle.controller.reading import SpecReader, parse_status, read_spec
from tests.unit.controller.world import manifest


@pytest.mark.parametrize(
    "spec",
    [
        {"sparkConf": {"spark.driver.memoryOverheadFactor": "inf"}},
        {"sparkConf": {"spark.kubernetes.memoryOverheadFactor": "1e400"}},
        {"sparkConf": {"spark.driver.memoryOverheadFactor": "nan"}},
        {"driver": {"memory": "9" * 5000}},
        {"memoryOverheadFactor": "9" * 400},
    ],
)
def test_numbers_beyond_all_measure_are_told(spec):
    read = read_spec(manifest(**spec))
    assert read.application is None
    assert read.problems


def test_a_spec_that_is_nested_too_deeply_is_told():
    deep: dict = {}
    for _ in range(sys.getrecursionlimit() * 3):
        deep = {"a": deep}
    body = {**manifest(driver={"affinity": deep}), "metadata": {"name": "pi", "namespace": "team", "uid": "u"}}
    assert SpecReader().read(body).problems == ("spec: it is nested too deeply to be read; flatten it",)


def test_a_spec_is_read_again_when_it_was_edited_and_not_when_it_was_deleted():
    reader, body = SpecReader(), manifest()
    first = reader.read({**body, "metadata": {**body["metadata"], "generation": 1}})
    assert reader.read({**body, "metadata": {**body["metadata"], "generation": 2}}) is first
    edited = reader.read(manifest(arguments=["2"]))
    assert edited.application is not None
    assert edited.application.spec.arguments == ["2"]


@pytest.mark.parametrize("field", ["runningSince", "lastSubmissionAttemptTime", "terminationTime", "nextAttemptTime"])
@pytest.mark.parametrize("time", ["soon", "", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_a_time_in_the_status_that_is_none_is_told_and_never_read(field, time):
    status, problem = parse_status({"status": {field: time, "attempt": 1}})
    assert (status.attempt, problem.partition(":")[0]) == (0, f"status.{field}")


@pytest.mark.parametrize("field", ["attempt", "submissionAttempts", "executionAttempts"])
@pytest.mark.parametrize("count", [-1, 2**63 - 1, 10**40])
def test_a_count_in_the_status_that_cannot_be_counted_on_is_told_and_never_read(field, count):
    status, problem = parse_status({"status": {field: count}})
    assert (status.attempt, problem.partition(":")[0]) == (0, f"status.{field}")


def test_restarts_that_nobody_made_are_no_status():
    assert parse_status({"status": {"restarts": {"application": -5}}})[1].startswith("status.restarts.application:")
