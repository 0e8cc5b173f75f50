"""The pods of an application: the driver's and the executors'."""

from typing import Any

from pydantic import Field

from rekindle.api.kubeflow import ContainerPort, Gpu, NameKey, NamePath, SecretMount
from rekindle.api.model import ApiModel, OnKubernetes
from rekindle.api.quantities import KubernetesQuantity, Memory


class EnvVar(ApiModel):
    """One environment variable."""

    name: str
    """Its name."""

    value: str = ""
    """Its value."""

    value_from: OnKubernetes[dict[str, Any] | None] = None
    """Where Kubernetes takes the value from, in place of `value`."""


class SparkPodSpec(ApiModel):
    """What driver and executor have in common."""

    cores: int = Field(default=1, ge=1)
    """Tasks that run at a time, and the cores asked for where `coreRequest` is unset."""

    memory: Memory = "1g"
    """The JVM's heap, such as 512m or 2g."""

    env: list[EnvVar] = Field(default_factory=list)
    """Environment variables."""

    env_vars: dict[str, str] = Field(default_factory=dict)
    """Environment variables in the older notation; `env` wins."""

    java_options: str | None = None
    """Options of the JVM, in one text. Unset: those of `sparkConf`."""

    memory_overhead: OnKubernetes[Memory | None] = None
    """Memory beside the heap, such as 512m; a bare number is MiB. Unset: `memoryOverheadFactor` of the heap, and
    384m at least."""

    core_limit: OnKubernetes[KubernetesQuantity | None] = None
    """Cores that the pod cannot exceed, such as 1200m. Unset: no limit."""

    core_request: OnKubernetes[KubernetesQuantity | None] = None
    """Cores that the pod asks for, such as 500m. Unset: `cores`."""

    memory_limit: OnKubernetes[KubernetesQuantity | None] = None
    """Memory that the pod cannot exceed, such as 4Gi. Unset: heap and overhead together."""

    gpu: OnKubernetes[Gpu | None] = None
    """Graphics processors. Unset: none."""

    image: OnKubernetes[str | None] = None
    """The container's image. Unset: the application's."""

    labels: OnKubernetes[dict[str, str] | None] = None
    """Further labels of the pod."""

    annotations: OnKubernetes[dict[str, str] | None] = None
    """Further annotations of the pod."""

    template: OnKubernetes[dict[str, Any] | None] = None
    """A pod template of Kubernetes, for all that has no field here; the fields win over it."""

    config_maps: OnKubernetes[list[NamePath] | None] = None
    """ConfigMaps mounted as files."""

    secrets: OnKubernetes[list[SecretMount] | None] = None
    """Secrets mounted as files."""

    env_from: OnKubernetes[list[dict[str, Any]] | None] = None
    """ConfigMaps and Secrets whose keys all become environment variables, as in Kubernetes' container."""

    env_secret_key_refs: OnKubernetes[dict[str, NameKey] | None] = None
    """Environment variables taken from Secrets, in the older notation; prefer `env`."""

    volume_mounts: OnKubernetes[list[dict[str, Any]] | None] = None
    """Where the application's `volumes` are mounted, as in Kubernetes' container."""

    affinity: OnKubernetes[dict[str, Any] | None] = None
    """Kubernetes' affinity."""

    tolerations: OnKubernetes[list[dict[str, Any]] | None] = None
    """Kubernetes' tolerations."""

    node_selector: OnKubernetes[dict[str, str] | None] = None
    """Labels that a node must have. Not beside the application's `nodeSelector`."""

    pod_security_context: OnKubernetes[dict[str, Any] | None] = None
    """Kubernetes' security context of the pod."""

    security_context: OnKubernetes[dict[str, Any] | None] = None
    """Kubernetes' security context of the container."""

    scheduler_name: OnKubernetes[str | None] = None
    """The scheduler that places the pod. Unset: the cluster's."""

    priority_class_name: OnKubernetes[str | None] = None
    """The pod's priority class. Unset: the cluster's default."""

    runtime_class_name: OnKubernetes[str | None] = None
    """The pod's runtime class. Unset: the cluster's default."""

    sidecars: OnKubernetes[list[dict[str, Any]] | None] = None
    """Kubernetes' containers that run beside Spark's."""

    init_containers: OnKubernetes[list[dict[str, Any]] | None] = None
    """Kubernetes' containers that run and end before Spark's starts."""

    host_network: OnKubernetes[bool | None] = None
    """Whether the pod has the node's network. Unset: no."""

    host_aliases: OnKubernetes[list[dict[str, Any]] | None] = None
    """Further lines of the pod's hosts file, as Kubernetes writes them."""

    dns_config: OnKubernetes[dict[str, Any] | None] = None
    """Kubernetes' DNS settings of the pod."""

    termination_grace_period_seconds: OnKubernetes[int | None] = Field(default=None, ge=0)
    """Seconds between the signal to end and the kill. Unset: Kubernetes' 30."""

    service_account: OnKubernetes[str | None] = None
    """The pod's service account. Unset: the namespace's default; for executors the driver's."""

    share_process_namespace: OnKubernetes[bool | None] = None
    """Whether the pod's containers see each other's processes. Unset: no."""

    lifecycle: OnKubernetes[dict[str, Any] | None] = None
    """Kubernetes' hooks after the start and before the end of the container."""

    ports: OnKubernetes[list[ContainerPort] | None] = None
    """Further ports of the container."""

    def environment(self) -> dict[str, str]:
        """The variables that have a value here; `env` wins over the deprecated `envVars`."""
        return {**self.env_vars, **{variable.name: variable.value for variable in self.env}}


class DriverSpec(SparkPodSpec):
    """The driver."""

    pod_name: OnKubernetes[str | None] = None
    """The driver pod's name in Kubeflow's manifests."""

    kubernetes_master: OnKubernetes[str | None] = None
    """The API server that the driver asks for executors, in Kubeflow's manifests."""

    service_annotations: OnKubernetes[dict[str, str] | None] = None
    """Further annotations of the service by which executors find the driver."""

    service_labels: OnKubernetes[dict[str, str] | None] = None
    """Further labels of the service by which executors find the driver."""


class ExecutorSpec(SparkPodSpec):
    """The executors."""

    instances: int | None = Field(default=None, ge=1)
    """How many. Unset: `sparkConf` decides; on one machine, one on each node."""

    delete_on_termination: OnKubernetes[bool | None] = None
    """Whether Spark deletes the pods of executors that ended. Unset: yes."""
