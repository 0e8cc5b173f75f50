"""What the API server takes the models take, and what it refuses they refuse."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rekindle.api.crd import custom_resource_definition
from rekindle.api.settings import SettingsError
from rekindle.api.spark_application import SparkApplication
from rekindle.api.unsupported import UNSUPPORTED, refusals
from tests.unit.api.api_server import ApiServer
from tests.unit.api.drawn_objects import drawn, leaves, made_wrong, other_values

SCHEMA = custom_resource_definition("SparkApplication")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SERVER = ApiServer(SCHEMA)


def supported(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what is refused anyway: else hardly a drawn manifest is taken."""
    schema = copy.deepcopy(schema)
    for field in UNSUPPORTED:
        *parents, name = field.steps
        part = schema
        for step in parents:
            part = part["properties"][step]
        if isinstance(field.value, str):
            part["properties"][name]["enum"].remove(field.value)
        else:
            del part["properties"][name]
    return schema


DRAWN = supported(SCHEMA)["properties"]["spec"]
DRAWN["required"] += ["mainClass"]

_SETTINGS = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def manifest(spec: Any, name: str = "flights") -> dict[str, Any]:
    return {
        "apiVersion": "rekindle.dev/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name},
        "spec": spec,
    }


def said_by_the_models(document: dict[str, Any]) -> list[str]:
    """What the operator would say against the object as the API server stored it."""
    document = SERVER.stored(document)
    try:
        application = SparkApplication.model_validate(document, by_alias=True, by_name=False)
        application.spec.settings()
    except (ValidationError, SettingsError) as error:
        return [str(error)]
    return [str(problem) for problem in refusals(application)]


def said_by_the_server(document: dict[str, Any]) -> list[str]:
    return SERVER.refusals(document)


def assert_agreed(document: dict[str, Any]) -> None:
    server, models = said_by_the_server(document), said_by_the_models(document)
    assert bool(server) == bool(models), f"server: {server}\nmodels: {models}"


@_SETTINGS
@given(drawn(SCHEMA["properties"]["spec"]))
def test_on_manifests_with_any_field(spec):
    assert_agreed(manifest(spec))


@_SETTINGS
@given(drawn(DRAWN))
def test_on_drawn_manifests(spec):
    assert_agreed(manifest(spec))


@_SETTINGS
@given(st.data(), drawn(DRAWN))
def test_on_manifests_with_one_thing_wrong(data, spec):
    assert_agreed(manifest(data.draw(made_wrong(DRAWN, spec))))


GOOD: dict[str, Any] = {"type": "Python", "sparkVersion": "4.0.0", "mainApplicationFile": "local:///a.py"}
LEAVES = dict(leaves(SCHEMA["properties"]["spec"]))


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_on_every_field_with_every_kind_of_value(path):
    for value in other_values(LEAVES[path]):
        spec = copy.deepcopy(GOOD)
        parent = spec
        for step in path[:-1]:
            parent = parent.setdefault(step, {})
        parent[path[-1]] = value
        assert_agreed(manifest(spec))


@given(st.text("aZ1-._", min_size=1, max_size=70) | st.integers(1, 70).map(lambda length: "a" * length))
def test_on_names(name):
    assert_agreed(manifest(GOOD, name))


REFUSED = [
    ({"type": "Java"}, "spec.mainClass: ", "write the class to run"),
    ({"type": "Scala", "mainClass": ""}, "spec.mainClass: ", "write the class to run"),
    (
        {"nodeSelector": {"a": "b"}, "executor": {"nodeSelector": {"a": "c"}}},
        "spec.nodeSelector: ",
        "keep either the application's or theirs",
    ),
    (
        {"dynamicAllocation": {"minExecutors": 3, "maxExecutors": 2}},
        "spec.dynamicAllocation.minExecutors: ",
        "raise maxExecutors",
    ),
    (
        {"dynamicAllocation": {"initialExecutors": 3, "maxExecutors": 2}},
        "spec.dynamicAllocation.initialExecutors: ",
        "raise maxExecutors",
    ),
    (
        {"dynamicAllocation": {"enabled": True, "maxExecutors": 2}, "executor": {"instances": 3}},
        "spec.executor.instances: ",
        "raise maxExecutors",
    ),
    ({"monitoring": {}}, "spec.monitoring: ", "set spark.ui.prometheus.enabled"),
    ({"driver": {"podName": "a"}}, "spec.driver.podName: ", "status.driverInfo.podName tells the name"),
    ({"type": "R"}, "spec.type: type: R is not supported", "run it by spark-submit"),
    ({"mode": "client"}, "spec.mode: mode: client is not supported", "write cluster"),
    ({"driverPodDisruptionBudget": True}, "spec.driverPodDisruptionBudget: ", "remove it"),
]


@pytest.mark.parametrize(("fields", "where", "remedy"), REFUSED)
def test_both_name_the_field_and_the_remedy(fields, where, remedy):
    document = manifest(GOOD | fields)
    server, models = said_by_the_server(document), said_by_the_models(document)
    assert server == models
    assert server[0].startswith(where)
    assert remedy in server[0]


@pytest.mark.requirement("S2-9")
def test_streaming_with_speculation_is_refused_by_both():
    document = manifest(GOOD | {"workload": "Streaming", "speculation": {"enabled": True}})
    (server,), (models,) = said_by_the_server(document), said_by_the_models(document)
    assert server.startswith("spec.speculation.enabled: ")
    for words in ("only tasks that end can be slow", "set speculation.enabled to false or workload to Batch"):
        assert words in server
        assert words in models


TAKEN = [
    {},
    {"type": "Scala", "mainClass": "a.B"},
    {"mode": "cluster", "pythonVersion": "3", "driverPodDisruptionBudget": False},
    {"dynamicAllocation": {"enabled": True, "minExecutors": 2, "maxExecutors": 2}, "executor": {"instances": 2}},
    {"dynamicAllocation": {"initialExecutors": 2, "maxExecutors": 2}},
    {"dynamicAllocation": {"enabled": False, "maxExecutors": 2}, "executor": {"instances": 3}},
    {"nodeSelector": {"a": "b"}, "driver": {"labels": {"a": "b"}}},
    {"workload": "Streaming", "speculation": {"enabled": False}},
    {"restartPolicy": {"type": "Always", "retryResetSeconds": None}},
    {"timeouts": {"driverStart": "10min", "executorStart": 60}},
    {"driver": {"coreLimit": "1200m", "memoryLimit": "2Gi", "template": {"spec": {"containers": [{"name": "x"}]}}}},
]


@pytest.mark.parametrize("fields", TAKEN)
def test_both_take_it(fields):
    document = manifest(GOOD | fields)
    assert said_by_the_server(document) == said_by_the_models(document) == []


@pytest.mark.parametrize(("length", "refused"), [(1, False), (63, False), (64, True)])
def test_a_name_has_63_characters_at_most(length, refused):
    assert bool(said_by_the_server(manifest(GOOD, "a" * length))) is refused
    assert_agreed(manifest(GOOD, "a" * length))
