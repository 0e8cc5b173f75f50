"""Spark's properties of one attempt: what the user says, and over it what makes it this attempt's driver.

The driver runs in client mode inside its pod, as in the second half of Spark's own cluster mode: it finds the
API server by the cluster's name for it, and its executors find it through the attempt's service.
"""

from collections.abc import Mapping

from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.quantities import overhead_factor
from rekindle.controller.submission.shuffle_volumes import shuffle_properties
from rekindle.controller.submission.speculation import speculation_properties
from rekindle.controller.submission.storage import store_properties

DRIVER_PORT, BLOCK_MANAGER_PORT, UI_PORT, CONNECT_PORT = 7078, 7079, 4040, 15002
PORTS = {
    "driver-rpc-port": DRIVER_PORT,
    "blockmanager": BLOCK_MANAGER_PORT,
    "spark-ui": UI_PORT,
    "spark-connect": CONNECT_PORT,
}
"""The driver's ports under the names that Spark gives them."""

CONF_DIR = "/opt/spark/conf"
PROPERTIES = "spark.properties"
EXECUTOR_TEMPLATE = "executor-pod-template.yaml"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
MASTER = "k8s://https://kubernetes.default.svc:443"

OWNED = (
    "spark.master",
    "spark.submit.deployMode",
    "spark.app.id",
    "spark.driver.host",
    "spark.driver.port",
    "spark.driver.bindAddress",
    "spark.driver.blockManager.port",
    "spark.kubernetes.namespace",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.driver.podTemplateFile",
    "spark.kubernetes.executor.podTemplateFile",
    "spark.kubernetes.executor.podTemplateContainerName",
    "spark.kubernetes.executor.podNamePrefix",
    "spark.kubernetes.submitInDriver",
)
"""Keys that the operator sets itself; a manifest that sets them is refused."""


def properties(application: SparkApplication, names: AttemptNames, namespace: str) -> dict[str, str]:
    """All of the attempt's properties. Typed fields win over `sparkConf`, and what the operator owns over both."""
    spec = application.spec
    return {
        "spark.app.name": application.metadata.name,
        **_memory_beside_heap(spec),
        **speculation_properties(spec),
        **shuffle_properties(spec),
        **spec.spark_conf,
        **{f"spark.hadoop.{key}": value for key, value in spec.hadoop_conf.items()},
        **_dependencies(spec),
        **_driver(spec),
        **_executors(spec),
        **_dynamic_allocation(spec),
        **_images(spec),
        **spec.settings().to_spark_conf(),
        **store_properties(application, names),
        **_owned(names, namespace),
    }


def render(values: Mapping[str, str]) -> str:
    """The text of a Java properties file, sorted, one key in a line."""
    return "".join(f"{_escaped(key, key=True)}={_escaped(value)}\n" for key, value in sorted(values.items()))


def _owned(names: AttemptNames, namespace: str) -> dict[str, str]:
    return {
        "spark.master": MASTER,
        "spark.submit.deployMode": "client",
        "spark.kubernetes.submitInDriver": "true",
        "spark.app.id": names.spark_application_id,
        "spark.driver.host": f"{names.service}.{namespace}.svc",
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.driver.pod.name": names.driver_pod,
        "spark.kubernetes.executor.podTemplateFile": f"{CONF_DIR}/{EXECUTOR_TEMPLATE}",
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        "spark.kubernetes.executor.podNamePrefix": names.prefix,
    }


def _memory_beside_heap(spec: SparkApplicationSpec) -> dict[str, str]:
    factor = str(overhead_factor(spec))
    return {"spark.driver.memoryOverheadFactor": factor, "spark.executor.memoryOverheadFactor": factor}


def _dependencies(spec: SparkApplicationSpec) -> dict[str, str]:
    deps = spec.deps
    lists = {
        "spark.jars": deps.jars,
        "spark.files": deps.files,
        "spark.submit.pyFiles": deps.py_files,
        "spark.archives": deps.archives,
        "spark.jars.packages": deps.packages,
        "spark.jars.excludes": deps.exclude_packages,
        "spark.jars.repositories": deps.repositories,
    }
    return {key: ",".join(values) for key, values in lists.items() if values}


def _driver(spec: SparkApplicationSpec) -> dict[str, str]:
    driver, given = spec.driver, spec.driver.model_fields_set
    return _some(
        {
            "spark.driver.cores": str(driver.cores) if "cores" in given else None,
            "spark.driver.memory": driver.memory if _chosen(spec, "driver", "memory") else None,
            "spark.driver.memoryOverhead": driver.memory_overhead,
            "spark.driver.extraJavaOptions": driver.java_options,
        }
    )


def _executors(spec: SparkApplicationSpec) -> dict[str, str]:
    executor, given = spec.executor, spec.executor.model_fields_set
    named = {variable.name for variable in executor.env}  # these are in the template, and Spark's own would win
    variables = {f"spark.executorEnv.{name}": text for name, text in executor.env_vars.items() if name not in named}
    return variables | _some(
        {
            "spark.executor.instances": str(executor.instances) if executor.instances else None,
            "spark.executor.cores": str(executor.cores) if "cores" in given else None,
            "spark.executor.memory": executor.memory if _chosen(spec, "executor", "memory") else None,
            "spark.executor.memoryOverhead": executor.memory_overhead,
            "spark.executor.extraJavaOptions": executor.java_options,
            "spark.kubernetes.executor.request.cores": executor.core_request,
            "spark.kubernetes.executor.limit.cores": executor.core_limit,
            "spark.kubernetes.executor.deleteOnTermination": _word(executor.delete_on_termination),
        }
    )


def _chosen(spec: SparkApplicationSpec, role: str, name: str) -> bool:
    """Whether the typed field is to be used: it was given, or `sparkConf` has nothing for it."""
    return name in getattr(spec, role).model_fields_set or f"spark.{role}.{name}" not in spec.spark_conf


def _dynamic_allocation(spec: SparkApplicationSpec) -> dict[str, str]:
    dynamic = spec.dynamic_allocation
    if dynamic is None:
        return {}
    if not dynamic.enabled:
        return {"spark.dynamicAllocation.enabled": "false"}
    tracking = dynamic.shuffle_tracking_enabled
    return _some(
        {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": _word(True if tracking is None else tracking),
            "spark.dynamicAllocation.initialExecutors": _number(dynamic.initial_executors),
            "spark.dynamicAllocation.minExecutors": _number(dynamic.min_executors),
            "spark.dynamicAllocation.maxExecutors": _number(dynamic.max_executors),
            "spark.dynamicAllocation.shuffleTracking.timeout": _number(dynamic.shuffle_tracking_timeout),
        }
    )


def _images(spec: SparkApplicationSpec) -> dict[str, str]:
    return _some(
        {
            "spark.kubernetes.container.image": spec.image,
            "spark.kubernetes.executor.container.image": spec.executor.image,
            "spark.kubernetes.container.image.pullPolicy": spec.image_pull_policy,
            "spark.kubernetes.container.image.pullSecrets": ",".join(spec.image_pull_secrets or ()) or None,
            # Spark gives executors the driver's account where they have none of their own.
            "spark.kubernetes.authenticate.driver.serviceAccountName": spec.driver.service_account,
            "spark.kubernetes.authenticate.executor.serviceAccountName": spec.executor.service_account,
        }
    )


def _some(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _word(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _escaped(text: str, *, key: bool = False) -> str:
    """`text` as java.util.Properties reads it back: a value may hold = and :, but not begin with a blank."""
    marks = {**_ESCAPES, **({mark: f"\\{mark}" for mark in "=:#! "} if key else {})}
    escaped = "".join(marks.get(character, character) for character in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
