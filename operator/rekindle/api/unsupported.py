"""Kubeflow's fields that mean nothing on Kubernetes here yet. They are refused by name, never ignored."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from rekindle.api.model import Problem
from rekindle.api.rules import RULES
from rekindle.api.spark_application import SparkApplication


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field: its path as a manifest has it, why it is refused, and what to write instead."""

    path: str
    reason: str
    remedy: str
    value: str | bool | None = None
    """Only this value is refused; None: any."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The path, step by step."""
        return tuple(self.path.split("."))

    @property
    def text(self) -> str:
        """What is told to who sets it, without the path."""
        value = "true" if self.value is True else self.value
        named = self.steps[-1] if value is None else f"{self.steps[-1]}: {value}"
        return f"{named} is not supported: {self.reason}; {self.remedy}"


def _pod_fields() -> Iterator[Unsupported]:
    for role in ("driver", "executor"):
        pod = f"spec.{role}"
        yield Unsupported(
            f"{pod}.gpu",
            "Spark must also be told how to find the processors",
            f"set spark.{role}.resource.gpu.amount, .vendor and .discoveryScript in sparkConf"
            + (", and ask for them in spec.driver.template" if role == "driver" else ""),
        )
        yield Unsupported(
            f"{pod}.lifecycle",
            "the container's hooks are not set yet",
            f"write them in {pod}.template, at the container of Spark",
        )
        yield Unsupported(
            f"{pod}.runtimeClassName", "it is not set yet", f"write it in {pod}.template, as spec.runtimeClassName"
        )


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported("spec.type", "no driver is made for it yet", "run it by spark-submit", value="R"),
    Unsupported(
        "spec.mode", "the driver always runs in a pod of its own", "remove it or write cluster", value="client"
    ),
    Unsupported("spec.proxyUser", "no Hadoop user is impersonated yet", "remove it"),
    Unsupported("spec.pythonVersion", "no Spark that is served runs Python 2", "remove it", value="2"),
    Unsupported(
        "spec.sparkConfigMap",
        "the driver's configuration folder is the operator's",
        "write the properties in sparkConf, and other files by driver.configMaps",
    ),
    Unsupported(
        "spec.hadoopConfigMap",
        "the folder of Hadoop's files is not mounted yet",
        "write the properties in hadoopConf, or mount the ConfigMap by driver.configMaps and executor.configMaps",
    ),
    Unsupported("spec.failureRetries", "it has a newer name", "write restartPolicy.onFailureRetries"),
    Unsupported("spec.retryInterval", "it has a newer name", "write restartPolicy.onFailureRetryInterval"),
    Unsupported(
        "spec.batchScheduler",
        "pods are not placed as a group yet",
        "write driver.schedulerName and executor.schedulerName, if the scheduler takes single pods",
    ),
    Unsupported(
        "spec.batchSchedulerOptions",
        "pods are not placed as a group yet",
        "write labels or annotations of driver and executor, if the scheduler reads them",
    ),
    Unsupported(
        "spec.monitoring",
        "the exporter is not set up yet",
        "set spark.ui.prometheus.enabled or spark.metrics.conf.* in sparkConf",
    ),
    Unsupported(
        "spec.sparkUIOptions",
        "no service or ingress of its own is made for the UI",
        "the driver's service has its port; label that by driver.serviceLabels, driver.serviceAnnotations",
    ),
    Unsupported(
        "spec.driverIngressOptions",
        "no services or ingresses are made beside the driver's service",
        "make them yourself, selecting the driver's pod by a label of driver.labels",
    ),
    Unsupported(
        "spec.driverPodDisruptionBudget",
        "no budget is made",
        "remove it: an evicted driver is started again by restartPolicy",
        value=True,
    ),
    Unsupported(
        "spec.driver.podName",
        "the pod's name is made from the application's uid and the attempt, so that there is never a second driver",
        "remove it; status.driverInfo.podName tells the name",
    ),
    Unsupported(
        "spec.driver.kubernetesMaster",
        "a driver asks the API server of the cluster it runs in",
        "remove it",
    ),
    Unsupported(
        "spec.executor.memoryLimit",
        "Spark makes the limit of an executor what it asks for",
        "write executor.memoryOverhead",
    ),
    *_pod_fields(),
)


def refusals(application: SparkApplication) -> list[Problem]:
    """What the manifest sets and Kubernetes cannot be given: unsupported fields first, then broken rules."""
    found = [Problem(field.steps, field.text) for field in UNSUPPORTED if _is_set(application, field)]
    return found + [Problem(rule.where, rule.message) for rule in RULES if rule.is_broken(application.spec)]


def _is_set(application: SparkApplication, field: Unsupported) -> bool:
    model: object = application
    for alias in field.steps:
        if not isinstance(model, BaseModel):
            return False
        names = {known.alias or name: name for name, known in type(model).model_fields.items()}
        if names[alias] not in model.model_fields_set:
            return False
        model = getattr(model, names[alias])
    return model is not None and (field.value is None or model == field.value)
