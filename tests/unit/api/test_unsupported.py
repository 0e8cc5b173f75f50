"""Fields that Kubernetes cannot be given here: each is refused by its path, with a reason and a remedy."""

from typing import Any

import pytest

from rekindle.api.spark_application import SparkApplication
from rekindle.api.unsupported import UNSUPPORTED, refusals

SOME: dict[str, Any] = {
    "gpu": {"name": "nvidia.com/gpu", "quantity": 1},
    "failureRetries": 3,
    "retryInterval": 3,
    "lifecycle": {},
    "memoryLimit": "2Gi",
    "monitoring": {},
    "batchSchedulerOptions": {"queue": "a"},
    "sparkUIOptions": {"servicePort": 80},
    "driverIngressOptions": [],
}


def application(changes: dict[str, Any]) -> SparkApplication:
    spec = {"type": "Python", "sparkVersion": "4.0.0", "mainApplicationFile": "a.py", **changes}
    return SparkApplication.model_validate(
        {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "metadata": {"name": "a"}, "spec": spec},
        by_alias=True,
        by_name=False,
    )


def setting(steps: tuple[str, ...], value: Any) -> dict[str, Any]:
    return {steps[0]: setting(steps[1:], value) if len(steps) > 1 else value}


@pytest.mark.parametrize("field", UNSUPPORTED, ids=lambda field: field.path)
def test_each_is_named_with_its_reason_and_remedy(field):
    value = SOME.get(field.steps[-1], "text") if field.value is None else field.value
    (problem,) = refusals(application(setting(field.steps[1:], value)))
    assert str(problem).startswith(f"{field.path}: {field.steps[-1]}")
    assert " is not supported: " in str(problem)
    assert str(problem).endswith(f"{field.reason}; {field.remedy}")


def test_what_is_unset_empty_or_asks_nothing_is_not_refused():
    assert refusals(application({})) == []
    assert refusals(application({"proxyUser": None, "driverPodDisruptionBudget": False, "pythonVersion": "3"})) == []


def test_all_are_told_at_once_in_the_order_of_the_table():
    said = [str(problem) for problem in refusals(application({"executor": {"lifecycle": {}}, "proxyUser": "me"}))]
    assert [line.partition(":")[0] for line in said] == ["spec.proxyUser", "spec.executor.lifecycle"]


def test_fields_that_are_supported_are_not_in_the_table():
    supported = "image imagePullPolicy deps volumes dynamicAllocation suspend timeToLiveSeconds restartPolicy template"
    last_steps = {field.steps[-1] for field in UNSUPPORTED}
    assert last_steps.isdisjoint(supported.split())
