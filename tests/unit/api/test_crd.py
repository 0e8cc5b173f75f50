"""The definitions: what is in the files, that an API server takes them, and that no field of Kubeflow's is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rekindle.api import crd
from rekindle.api.crd import KINDS, custom_resource_definition, text
from tests.unit.api.structural_rules import undescribed, violations

FOLDER = Path(__file__).parents[3] / "crds"
LIMIT = 262_144
"""Bytes of an annotation, in which kubectl keeps what was applied."""


def schema(kind: crd.Kind) -> dict[str, Any]:
    (version,) = custom_resource_definition(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def field(kind: crd.Kind, path: str) -> dict[str, Any]:
    found = schema(kind)
    for step in path.split("."):
        found = found["items"] if step == "[]" else found["properties"][step]
    return found


SPEC = schema("SparkApplication")["properties"]["spec"]["properties"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_what_the_models_say(kind):
    path = FOLDER / crd.file_name(kind)
    assert path.read_text(encoding="utf-8") == text(kind), "run `make crds`"


def test_no_other_file_is_among_them():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(crd.file_name(kind) for kind in KINDS)


def test_writing_makes_the_folder(tmp_path, capsys):
    crd.main([str(tmp_path / "new")])
    paths = [tmp_path / "new" / crd.file_name(kind) for kind in KINDS]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    assert [path.read_text(encoding="utf-8") for path in paths] == [text(kind) for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS)
def test_yaml_and_json_say_the_same_and_are_small(kind):
    assert yaml.safe_load(text(kind)) == custom_resource_definition(kind)
    assert text(kind).startswith("# Generated")
    assert len(text(kind).encode()) < LIMIT
    assert len(json.dumps(custom_resource_definition(kind)).encode()) < LIMIT


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(kind):
    assert list(violations(schema(kind))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind):
    described = {name: part for name, part in schema(kind)["properties"].items() if name != "metadata"}
    assert list(undescribed({"properties": described})) == []


def test_the_checker_of_schemas_sees_what_is_wrong():
    wrong: dict[str, Any] = {
        "type": "object",
        "title": "T",
        "properties": {
            "a": {"anyOf": []},
            "b": {"type": "integer", "exclusiveMinimum": 3},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"x-kubernetes-int-or-string": True, "type": "string"},
        },
        "x-kubernetes-validations": [{"rule": "true", "message": "m", "fieldPath": ".e"}],
    }
    assert list(violations(wrong)) == [
        ": title",
        ": .e is no field",
        ".a: anyOf",
        ".a: no type",
        ".b: exclusiveMinimum is a flag beside the bound",
        ".c: list type None",
        ".d: a type beside int-or-string",
    ]
    assert list(undescribed(wrong)) == [".a", ".b", ".c", ".d"]


POD = (
    "template cores coreLimit coreRequest memory memoryLimit memoryOverhead gpu image configMaps secrets env envVars "
    "envFrom envSecretKeyRefs labels annotations volumeMounts affinity tolerations podSecurityContext securityContext "
    "schedulerName sidecars initContainers hostNetwork nodeSelector dnsConfig terminationGracePeriodSeconds "
    "serviceAccount hostAliases shareProcessNamespace javaOptions lifecycle ports priorityClassName runtimeClassName"
)
SERVICE = "servicePort servicePortName serviceType serviceAnnotations serviceLabels ingressAnnotations ingressTLS"

KUBEFLOW = {
    "spec": (
        "suspend type sparkVersion mode proxyUser image imagePullPolicy imagePullSecrets mainClass "
        "mainApplicationFile arguments sparkConf hadoopConf sparkConfigMap hadoopConfigMap volumes deps restartPolicy "
        "nodeSelector failureRetries retryInterval pythonVersion memoryOverheadFactor monitoring batchScheduler "
        "batchSchedulerOptions timeToLiveSeconds sparkUIOptions driverIngressOptions dynamicAllocation "
        "driverPodDisruptionBudget driver executor"
    ),
    "spec.deps": "jars files pyFiles packages excludePackages repositories archives",
    "spec.restartPolicy": (
        "type onSubmissionFailureRetries onFailureRetries onSubmissionFailureRetryInterval onFailureRetryInterval"
    ),
    "spec.monitoring": ("exposeDriverMetrics exposeExecutorMetrics metricsProperties metricsPropertiesFile prometheus"),
    "spec.monitoring.prometheus": "jmxExporterJar port portName configFile configuration",
    "spec.batchSchedulerOptions": "queue priorityClassName resources",
    "spec.sparkUIOptions": SERVICE,
    "spec.driverIngressOptions.[]": f"{SERVICE} ingressURLFormat",
    "spec.dynamicAllocation": (
        "enabled initialExecutors minExecutors maxExecutors shuffleTrackingEnabled shuffleTrackingTimeout"
    ),
    "spec.driver": f"{POD} podName kubernetesMaster serviceAnnotations serviceLabels",
    "spec.executor": f"{POD} instances deleteOnTermination",
    "spec.driver.gpu": "name quantity",
    "spec.driver.configMaps.[]": "name path",
    "spec.executor.secrets.[]": "name path secretType",
    "spec.executor.ports.[]": "name protocol containerPort",
    "status": (
        "sparkApplicationId submissionID lastSubmissionAttemptTime terminationTime driverInfo applicationState "
        "executorState executionAttempts submissionAttempts"
    ),
    "status.driverInfo": "webUIServiceName webUIAddress webUIPort podName",
    "status.applicationState": "state errorMessage",
}


@pytest.mark.parametrize(("path", "names"), KUBEFLOW.items())
def test_every_field_of_kubeflow_s_is_known(path, names):
    assert set(names.split()) - set(field("SparkApplication", path)["properties"]) == set()


def test_what_is_kubernetes_own_is_not_described_but_kept():
    kept = "x-kubernetes-preserve-unknown-fields"
    assert SPEC["driver"]["properties"]["template"][kept]
    assert SPEC["volumes"]["items"][kept]
    assert kept not in SPEC["driver"]


def test_a_duration_is_a_text_or_a_whole_number_and_a_ratio_a_number():
    duration = SPEC["speculation"]["properties"]["checkInterval"]
    assert duration["x-kubernetes-int-or-string"]
    assert duration["minimum"] == 1
    assert SPEC["speculation"]["properties"]["baselineRatio"]["type"] == "number"
    assert SPEC["recovery"]["properties"]["storeLimit"]["x-kubernetes-int-or-string"]


def test_defaults_are_told_and_never_set():
    assert '"default"' not in json.dumps(custom_resource_definition("SparkApplication"))
    assert SPEC["timeouts"]["properties"]["driverStart"]["description"].endswith(" Default: 300s.")
    assert SPEC["recovery"]["properties"]["fencing"]["description"].endswith(" Default: Wait.")
    assert SPEC["speculation"]["properties"]["enabled"]["description"].endswith(" Default: false.")


def test_null_is_kept_only_where_it_says_something():
    def nullable(part: dict[str, Any], where: str) -> list[str]:
        found = [where] if part.get("nullable") else []
        for name, inner in part.get("properties", {}).items():
            found += nullable(inner, f"{where}.{name}")
        return found

    assert nullable(schema("SparkApplication"), "") == [".spec.restartPolicy.retryResetSeconds"]


def test_conditions_are_merged_by_their_type():
    for kind in KINDS:
        conditions = field(kind, "status.conditions")
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_kubectl_get_shows_where_an_application_is():
    definition = custom_resource_definition("SparkApplication")["spec"]
    (version,) = definition["versions"]
    columns = [(column["name"], column["jsonPath"]) for column in version["additionalPrinterColumns"]]
    assert columns[0] == ("State", ".status.applicationState.state")
    for _, path in columns:
        if not path.startswith(".metadata"):
            field("SparkApplication", path.removeprefix(".").partition("[")[0])
    assert definition["names"]["shortNames"] == ["sparkapp", "rkapp"]
    assert (definition["scope"], version["name"], version["subresources"]) == ("Namespaced", "v1beta2", {"status": {}})
    assert custom_resource_definition("NodeBlock")["spec"]["scope"] == "Cluster"
