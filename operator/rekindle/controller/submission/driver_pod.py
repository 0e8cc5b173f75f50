"""The driver's pod: what Spark's own submission would make, without its JVM."""

from rekindle.api.operator_exchange import PORT as EXCHANGE_PORT
from rekindle.api.operator_exchange import PORT_NAME, PORT_VARIABLE, TOKEN_VARIABLE
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.controller.resources import Object
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.pod_fields import (
    add_container_fields,
    add_metadata,
    add_pod_fields,
    avoid_blocked_nodes,
    from_template,
)
from rekindle.controller.submission.properties import CONF_DIR, PORTS, PROPERTIES
from rekindle.controller.submission.quantities import driver_resources
from rekindle.controller.submission.storage import mount_store

CONTAINER = "spark-kubernetes-driver"
_CONF_VOLUME, _LOCAL_VOLUME, _LOCAL_DIR = "spark-conf-volume-driver", "spark-local-dir-1", "/var/data/spark-local"
_GRACE_SECONDS = 30


def driver_pod(
    application: SparkApplication, names: AttemptNames, owner: Object, token_digest: str | None = None
) -> Object:
    """The pod of the attempt's driver. `token_digest`: of the token with which the operator comes to a job master."""
    spec = application.spec
    pod, container = from_template(spec.driver.template, CONTAINER)
    add_metadata(pod, {**(spec.driver.labels or {}), **driver_labels(application, names)}, spec.driver.annotations)
    pod["metadata"] |= {"name": names.driver_pod, "ownerReferences": [owner]}
    add_pod_fields(pod, spec, spec.driver)
    avoid_blocked_nodes(pod)
    container.pop("restartPolicy", None)  # a driver that ended must not begin again under its name
    _fill(container, application, names)
    if token_digest is not None and spec.settings().asks_driver:
        _answer_the_operator(container, token_digest)
    add_container_fields(container, spec.driver)
    mount_store(pod, container, spec, names)
    _local_dirs(pod["spec"], container)
    pod["spec"] |= {"restartPolicy": "Never"}
    pod["spec"].setdefault("terminationGracePeriodSeconds", _GRACE_SECONDS)
    pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), _conf_volume(names)]
    return pod


def driver_labels(application: SparkApplication, names: AttemptNames) -> dict[str, str]:
    """Our labels and Spark's own."""
    return {
        **names.labels,
        labels.SPARK_ROLE: "driver",
        labels.SPARK_SELECTOR: names.spark_application_id,
        labels.SPARK_APP_NAME: application.metadata.name,
        labels.SPARK_VERSION: application.spec.spark_version,
    }


def _fill(container: Object, application: SparkApplication, names: AttemptNames) -> None:
    spec = application.spec
    container |= {
        "image": _image(spec),
        "imagePullPolicy": spec.image_pull_policy or "IfNotPresent",
        "args": ["driver", *_arguments(spec)],
        "resources": _merged(container.get("resources") or {}, driver_resources(spec)),
        "env": [*container.get("env", ()), *_environment(names)],
        "ports": [*container.get("ports", ()), *_ports()],
        "volumeMounts": [*container.get("volumeMounts", ()), {"name": _CONF_VOLUME, "mountPath": CONF_DIR}],
    }


def _image(spec: SparkApplicationSpec) -> str | None:
    conf = spec.spark_conf
    named = conf.get("spark.kubernetes.driver.container.image") or conf.get("spark.kubernetes.container.image")
    return spec.driver.image or spec.image or named


def _merged(theirs: Object, ours: Object) -> Object:
    """A template's resources, such as a processor of another kind, and ours over them."""
    return {**theirs, **{part: {**(theirs.get(part) or {}), **ours[part]} for part in ("requests", "limits")}}


def _arguments(spec: SparkApplicationSpec) -> list[str]:
    """What spark-submit gets. A `local://` file is in the image; PySpark wants such a path bare."""
    main_class = ["--class", spec.main_class] if spec.main_class else []
    main_file = spec.main_application_file.removeprefix("local://")
    return ["--properties-file", f"{CONF_DIR}/{PROPERTIES}", *main_class, main_file, *spec.arguments]


def _environment(names: AttemptNames) -> list[Object]:
    return [
        {"name": "SPARK_APPLICATION_ID", "value": names.spark_application_id},
        {"name": "SPARK_DRIVER_BIND_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "SPARK_CONF_DIR", "value": CONF_DIR},
    ]


def _ports() -> list[Object]:
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in PORTS.items()]


def _answer_the_operator(container: Object, token_digest: str) -> None:
    """Should it run a pipeline, its job master answers on this port."""
    said = {PORT_VARIABLE: str(EXCHANGE_PORT), TOKEN_VARIABLE: token_digest}
    container["env"] = [*container["env"], *({"name": name, "value": value} for name, value in said.items())]
    container["ports"] = [*container["ports"], {"name": PORT_NAME, "containerPort": EXCHANGE_PORT, "protocol": "TCP"}]


def _local_dirs(pod: Object, container: Object) -> None:
    """Scratch space, unless the application mounts its own volumes called spark-local-dir-*."""
    mounts = container.get("volumeMounts") or []
    own = [mount["mountPath"] for mount in mounts if mount.get("name", "").startswith("spark-local-dir-")]
    if not own:
        pod["volumes"] = [*(pod.get("volumes") or ()), {"name": _LOCAL_VOLUME, "emptyDir": {}}]
        container["volumeMounts"] = [*mounts, {"name": _LOCAL_VOLUME, "mountPath": _LOCAL_DIR}]
        own = [_LOCAL_DIR]
    container["env"] = [*container["env"], {"name": "SPARK_LOCAL_DIRS", "value": ",".join(own)}]


def _conf_volume(names: AttemptNames) -> Object:
    return {"name": _CONF_VOLUME, "configMap": {"name": names.config_map, "defaultMode": 0o644}}
