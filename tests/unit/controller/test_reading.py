"""Whatever is stored is read: what cannot be used comes back in words, and never as an error."""

import sys

import pytest

from rekindle.controller.reading import SpecReader, read_spec
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
