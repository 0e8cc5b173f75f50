"""Our submission beside Spark's own: the same application, sent by spark-submit and by us."""

import subprocess
from typing import Any

import pytest

from tests.cluster.api import Application, get, items, until
from tests.cluster.deployment import JOBS
from tests.cluster.marks import beside
from tests.kind import kubelet
from tests.kind.kubectl import kubectl
from tests.kind.spark_submit import spark_submit, spark_submit_environment

pytestmark = [pytest.mark.timeout(600), beside]

MAIN = "local:///opt/spark/examples/src/main/python/pi.py"

OURS = {
    "labels": {
        "rekindle.dev/managed",
        "rekindle.dev/application",
        "rekindle.dev/application-uid",
        "rekindle.dev/attempt",
    },
    "env": set[str](),
    "properties": {
        "spark.driver.memoryOverheadFactor",  # Spark's submission works with them itself, and passes on the result
        "spark.executor.memoryOverheadFactor",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.kubernetes.executor.podTemplateContainerName",
        "spark.kubernetes.executor.podNamePrefix",
        "spark.ui.enabled",
    },
}
SPARKS_ONLY = {
    "labels": set[str](),
    # who submitted: there is no such person here, and Spark then takes the container's user
    "env": {"SPARK_USER"},
    "properties": {
        "spark.kubernetes.submission.waitAppCompletion",  # of the submission, not of the application
        "spark.kubernetes.authenticate.driver.serviceAccountName",  # is in the pod
        "spark.kubernetes.driver.request.cores",
        "spark.kubernetes.memoryOverheadFactor",  # ours has the factors themselves
        "spark.kubernetes.resource.type",
        "spark.submit.pyFiles",
        "spark.app.submitTime",
    },
}


DIFFERENT = {
    "spark.app.id",
    "spark.driver.host",
    "spark.submit.deployMode",  # the image's entrypoint makes it client in either
    "spark.kubernetes.driver.pod.name",
    "spark.master",  # the API server as it is called inside the cluster, for who submits from outside
}
"""Properties that both have, each its own."""


@pytest.fixture
def reference(installed):
    """The driver's pod as spark-submit makes it, in cluster mode."""
    name = "reference-driver"
    conf = {
        "spark.kubernetes.namespace": JOBS,
        "spark.kubernetes.container.image": installed.spark,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.driver.pod.name": name,
        "spark.executor.instances": "1",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.driver.memory": "600m",
        "spark.driver.cores": "1",
        "spark.kubernetes.driver.request.cores": "100m",
    }
    command = spark_submit("beside", conf, MAIN, "2")
    done = subprocess.run(command, env=spark_submit_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    yield until("Spark's driver pod", lambda: get("pod", name, JOBS), 30)
    kubectl("delete", "pod", name, "-n", JOBS, "--ignore-not-found", "--wait=false")


def spark_container(pod: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in pod["spec"]["containers"] if one["name"] == kubelet.DRIVER)


def properties_of(pod: dict[str, Any]) -> dict[str, str]:
    """The properties file of a driver's ConfigMap."""
    maps = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
    found = [body for name in maps if (body := get("configmap", name, JOBS)) and "spark.properties" in body["data"]]
    lines = found[0]["data"]["spark.properties"].replace("\\", "").splitlines()  # escapes of Java's properties
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def service_of(pod: dict[str, Any]) -> dict[str, Any]:
    services = [one for one in items("services", JOBS) if one["spec"].get("selector")]
    labels = pod["metadata"]["labels"].items()
    return next(one for one in services if one["spec"]["selector"].items() <= labels)


def test_our_driver_is_the_one_that_sparks_own_submission_makes(reference, application):
    app: Application = application("beside", mainApplicationFile=MAIN, arguments=["2"], sparkConf={}).apply()
    pod = app.wait_until("a driver", lambda status: app.driver())
    ours, theirs = spark_container(pod), spark_container(reference)
    sparks_properties = properties_of(reference)
    properties = {key: text for key, text in properties_of(pod).items() if not key.startswith("spark.rekindle.")}
    both: dict[str, tuple[set[str], set[str]]] = {
        "labels": (set(pod["metadata"]["labels"]), set(reference["metadata"]["labels"])),
        "env": ({one["name"] for one in ours["env"]}, {one["name"] for one in theirs["env"]}),
        "properties": (set(properties), set(sparks_properties)),
    }
    for name, (mine, sparks) in both.items():
        assert mine - sparks == OURS[name] & mine, name
        assert sparks - mine <= SPARKS_ONLY[name], name
    shared = (properties.keys() & sparks_properties.keys()) - DIFFERENT
    assert {key: properties[key] for key in shared} == {key: sparks_properties[key] for key in shared}
    assert ours["resources"] == theirs["resources"]
    for part in ("restartPolicy", "serviceAccountName", "terminationGracePeriodSeconds"):
        assert pod["spec"][part] == reference["spec"][part], part
    assert {(p["name"], p["containerPort"]) for p in ours["ports"]} == {
        (p["name"], p["containerPort"]) for p in theirs["ports"]
    }
    ports = [{(p["name"], p["port"]) for p in service_of(one)["spec"]["ports"]} for one in (pod, reference)]
    assert ports[0] == ports[1]
    # Spark's service and ConfigMap are the driver pod's; ours are the application's, made before there is a pod.
    assert service_of(pod)["metadata"]["ownerReferences"][0]["kind"] == "SparkApplication"
    app.wait_for("COMPLETED", "FAILED", seconds=180)
    assert app.state == "COMPLETED", app.tell()
    assert "Pi is roughly 3.1" in app.log()
