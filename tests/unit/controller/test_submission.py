"""From a spec to the objects of an attempt."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.reading import read_spec
from rekindle.controller.resources import CONFIG_MAP, POD, SERVICE
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.objects import attempt_objects
from rekindle.controller.submission.properties import OWNED, render
from tests.unit.controller.world import UID, manifest

OWNER = {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "name": "pi", "uid": UID, "controller": True}
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def made(**spec: Any) -> dict[str, dict[str, Any]]:
    """The objects of attempt 1, by kind."""
    read = read_spec(manifest(**spec))
    assert read.application is not None, read.problems
    objects = attempt_objects(read.application, AttemptNames("pi", UID, 1), "team", OWNER)
    return {one.resource.kind: one.body for one in objects}


def spark_container(pod: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in pod["spec"]["containers"] if one["name"] == "spark-kubernetes-driver")


def properties(**spec: Any) -> dict[str, str]:
    text = made(**spec)["ConfigMap"]["data"]["spark.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def executor_template(**spec: Any) -> dict[str, Any]:
    return yaml.safe_load(made(**spec)["ConfigMap"]["data"]["executor-pod-template.yaml"])


def test_the_driver_is_made_last():
    read = read_spec(manifest())
    assert read.application is not None
    objects = attempt_objects(read.application, AttemptNames("pi", UID, 1), "team", OWNER)
    assert [one.resource for one in objects] == [CONFIG_MAP, SERVICE, POD]


def test_every_object_is_owned_by_the_application_and_named_by_its_attempt():
    for body in made().values():
        assert body["metadata"]["ownerReferences"] == [OWNER]
        assert body["metadata"]["labels"]["rekindle.dev/application-uid"] == UID
        assert body["metadata"]["name"].startswith("pi-")
        assert "-1-" in body["metadata"]["name"]


@given(name=st.from_regex(DNS_LABEL, fullmatch=True), attempt=st.integers(1, 99_999_999))
def test_names_fit_kubernetes_and_spark_whatever_the_application_is_called(name, attempt):
    names = AttemptNames(name, UID, attempt)
    assert DNS_LABEL.fullmatch(names.driver_pod)
    assert DNS_LABEL.fullmatch(names.service)
    assert DNS_LABEL.fullmatch(names.config_map)
    assert len(names.prefix) <= 47  # spark.kubernetes.executor.podNamePrefix
    assert all(len(value) <= 63 for value in names.labels.values())
    assert len(names.spark_application_id) <= 63


def test_names_differ_between_attempts_and_between_namesakes():
    prefixes = {AttemptNames("pi", uid, n).prefix for uid in (UID, UID[::-1]) for n in (1, 2, 11)}
    assert len(prefixes) == 6


def test_a_python_program_is_given_as_a_path_and_a_jar_with_its_class():
    arguments = spark_container(made(arguments=["10", "a b"])["Pod"])["args"]
    assert arguments == ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "/app/pi.py", "10", "a b"]
    scala = made(type="Scala", mainClass="org.Pi", mainApplicationFile="local:///jars/pi.jar")["Pod"]
    assert spark_container(scala)["args"][3:] == ["--class", "org.Pi", "/jars/pi.jar"]


@pytest.mark.parametrize(
    ("spec", "requests", "limits"),
    [
        ({}, {"cpu": "1", "memory": "1433Mi"}, {"memory": "1433Mi"}),  # 1024 + 40 %
        ({"type": "Java", "mainClass": "M"}, {"cpu": "1", "memory": "1408Mi"}, {"memory": "1408Mi"}),  # + 384
        (
            {"driver": {"cores": 2, "memory": "4g", "memoryOverhead": "1g", "coreLimit": "3"}},
            {"cpu": "2", "memory": "5120Mi"},
            {"memory": "5120Mi", "cpu": "3"},
        ),
        (
            {"sparkConf": {"spark.driver.memory": "2g", "spark.driver.cores": "3"}},
            {"cpu": "3", "memory": "2867Mi"},
            {"memory": "2867Mi"},
        ),
        ({"memoryOverheadFactor": "1.0"}, {"cpu": "1", "memory": "2048Mi"}, {"memory": "2048Mi"}),
    ],
)
def test_a_driver_asks_for_what_spark_would_ask_for(spec, requests, limits):
    assert spark_container(made(**spec)["Pod"])["resources"] == {"requests": requests, "limits": limits}


def test_typed_fields_win_over_spark_conf_and_the_operator_over_both():
    conf = {"spark.executor.memory": "9g", "spark.executor.cores": "9", "spark.eventLog.enabled": "true"}
    found = properties(sparkConf=conf, executor={"memory": "2g", "instances": 3}, hadoopConf={"fs.s3a.fast": "yes"})
    assert found["spark.executor.memory"] == "2g"
    assert found["spark.executor.cores"] == "9"
    assert found["spark.executor.instances"] == "3"
    assert found["spark.eventLog.enabled"] == "true"
    assert found["spark.hadoop.fs.s3a.fast"] == "yes"
    assert set(OWNED) - set(found) == {"spark.driver.bindAddress", "spark.kubernetes.driver.podTemplateFile"}


def test_executors_find_the_driver_by_the_service_of_its_attempt():
    objects, found = made(), properties()
    service, pod = objects["Service"], objects["Pod"]
    assert found["spark.driver.host"] == f"{service['metadata']['name']}.team.svc"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert "spark-app-selector" not in service["metadata"]["labels"]  # a stopping driver deletes what has it
    assert found["spark.kubernetes.driver.pod.name"] == pod["metadata"]["name"]


def test_what_a_user_adds_to_pods_is_added():
    pod_fields = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envVars": {"A": "old", "C": "3"},
        "labels": {"team": "x", "spark-role": "forged"},
        "annotations": {"note": "y"},
        "tolerations": [{"key": "spot"}],
        "nodeSelector": {"disk": "ssd"},
        "configMaps": [{"name": "code", "path": "/app"}],
        "secrets": [{"name": "gcp", "path": "/key", "secretType": "GCPServiceAccount"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "serviceAccount": "spark",
        "sidecars": [{"name": "proxy", "image": "p"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "unused", "emptyDir": {}}]
    pod = made(driver=pod_fields, volumes=volumes)["Pod"]
    container = spark_container(pod)
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert (variables["A"], variables["C"]) == ("1", "3")
    assert variables["GOOGLE_APPLICATION_CREDENTIALS"] == "/key/key.json"
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["labels"]["spark-role"] == "driver"
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert [one["name"] for one in pod["spec"]["containers"]] == ["spark-kubernetes-driver", "proxy"]
    names = {one["name"] for one in pod["spec"]["volumes"]}
    assert names == {"data", "code-vol", "gcp-secret-vol", "spark-local-dir-1", "spark-conf-volume-driver"}
    assert {mount["name"] for mount in container["volumeMounts"]} == names


def test_a_template_is_the_base_and_typed_fields_come_over_it():
    template = {
        "metadata": {"labels": {"from": "template"}},
        "spec": {
            "priorityClassName": "low",
            "containers": [
                {"name": "spark-kubernetes-driver", "env": [{"name": "T", "value": "1"}]},
                {"name": "other", "image": "o"},
            ],
        },
    }
    pod = made(driver={"template": template, "priorityClassName": "high"})["Pod"]
    assert pod["metadata"]["labels"]["from"] == "template"
    assert pod["spec"]["priorityClassName"] == "high"
    assert {"name": "T", "value": "1"} in spark_container(pod)["env"]
    assert [one["name"] for one in pod["spec"]["containers"]] == ["spark-kubernetes-driver", "other"]


def test_executors_carry_our_labels_and_tell_their_node():
    template = executor_template(executor={"labels": {"team": "x"}, "env": [{"name": "A", "value": "1"}]})
    assert template["metadata"]["labels"]["rekindle.dev/application-uid"] == UID
    assert template["metadata"]["labels"]["team"] == "x"
    variables = {item["name"]: item for item in template["spec"]["containers"][0]["env"]}
    assert variables["SPARK_EXECUTOR_ATTRIBUTE_NODE"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert variables["A"]["value"] == "1"


def test_dynamic_allocation_that_is_switched_off_is_off_whatever_spark_conf_says():
    found = properties(dynamicAllocation={"enabled": False}, sparkConf={"spark.dynamicAllocation.enabled": "true"})
    assert found["spark.dynamicAllocation.enabled"] == "false"


def test_dynamic_allocation_becomes_sparks_settings():
    found = properties(dynamicAllocation={"enabled": True, "minExecutors": 1, "maxExecutors": 5})
    assert found["spark.dynamicAllocation.enabled"] == "true"
    assert found["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert (found["spark.dynamicAllocation.minExecutors"], found["spark.dynamicAllocation.maxExecutors"]) == ("1", "5")


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a", "x=y:z", "a=x=y:z"),
        ("a b", "c", "a\\ b=c"),
        ("a", " lead", "a=\\ lead"),
        ("a", "back\\slash", "a=back\\\\slash"),
        ("a", "two\nlines", "a=two\\nlines"),
    ],
)
def test_properties_are_written_as_java_reads_them(key, value, line):
    assert render({key: value}) == f"{line}\n"


def driver_that_may_be_a_pipeline(**speculation: Any) -> dict[str, Any]:
    read = read_spec(manifest(speculation=speculation))
    assert read.application is not None, read.problems
    objects = attempt_objects(read.application, AttemptNames("pi", UID, 1), "team", OWNER, "digest")
    return spark_container(objects[-1].body)


def test_a_driver_that_may_run_a_pipeline_is_told_where_to_answer_the_operator():
    container = driver_that_may_be_a_pipeline(enabled=True)
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert env["REKINDLE_EXCHANGE_TOKEN_SHA256"] == "digest"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["rekindle-xchg"] == int(env["REKINDLE_EXCHANGE_PORT"] or 0)
    assert len(set(ports.values())) == len(ports)


def test_one_whose_slow_tasks_nobody_looks_for_is_not():
    for container in (
        driver_that_may_be_a_pipeline(enabled=False),
        spark_container(made(speculation={"enabled": True})["Pod"]),
    ):
        assert "rekindle-xchg" not in {port["name"] for port in container["ports"]}
        assert not any(variable["name"].startswith("REKINDLE") for variable in container["env"])
