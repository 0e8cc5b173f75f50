"""The SparkApplication resource: Kubeflow's v1beta2 fields, and the blocks that Rekindle adds.

The same manifest runs on one machine and on Kubernetes. A field that only Kubernetes gives a meaning is
typed `OnKubernetes[...]`; `SparkApplication.meaningless_locally` names the ones a manifest uses.
"""

import re
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from rekindle.api.model import ApiModel
from rekindle.api.quantities import parse_size
from rekindle.api.settings import BlocklistSpec, RecoverySpec, RekindleSettings, SpeculationSpec

API_VERSIONS = ("rekindle.dev/v1beta2", "sparkoperator.k8s.io/v1beta2")

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class _OnKubernetes:
    """Marks a field that is accepted everywhere and acts on Kubernetes only."""


_T = TypeVar("_T")
OnKubernetes = Annotated[_T, _OnKubernetes()]


def _is_name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise ValueError(f"{value!r} is no name; write at most 63 of a-z, 0-9 and -, a letter first")
    return value


def _is_memory(value: str) -> str:
    parse_size(value)
    return value


Name = Annotated[str, AfterValidator(_is_name)]
"""A DNS-1035 label, as Kubeflow's webhook asks."""

Memory = Annotated[str, AfterValidator(_is_memory)]
"""A JVM memory size, such as `512m` or `2g`."""


class Metadata(ApiModel):
    """Kubernetes' object metadata, as far as a manifest has it."""

    model_config = ConfigDict(extra="ignore")  # the API server adds fields of its own

    name: Name
    namespace: str = "default"
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class EnvVar(ApiModel):
    """One environment variable."""

    name: str
    value: str = ""
    value_from: OnKubernetes[Any] = None


class Dependencies(ApiModel):
    """Files and packages that the application needs; local paths are relative to the manifest."""

    jars: list[str] = Field(default_factory=list)
    files: list[str] = Field(default_factory=list)
    py_files: list[str] = Field(default_factory=list)
    archives: list[str] = Field(default_factory=list)
    packages: list[str] = Field(default_factory=list)
    exclude_packages: list[str] = Field(default_factory=list)
    repositories: list[str] = Field(default_factory=list)


class RestartPolicy(ApiModel):
    """Whether a driver that ended is started again."""

    type: Literal["Never", "OnFailure", "OnInfrastructureFailure", "Always"] = "Never"
    on_failure_retries: int = Field(default=3, ge=0)
    on_failure_retry_interval: int = Field(default=5, ge=1)
    """Seconds; the wait grows by this with each retry, as Kubeflow's does."""
    on_submission_failure_retries: OnKubernetes[int | None] = Field(default=None, ge=0)
    on_submission_failure_retry_interval: OnKubernetes[int | None] = Field(default=None, ge=1)


class SparkPodSpec(ApiModel):
    """What driver and executor have in common."""

    cores: int = Field(default=1, ge=1)
    memory: Memory = "1g"
    env: list[EnvVar] = Field(default_factory=list)
    env_vars: dict[str, str] = Field(default_factory=dict)
    java_options: str | None = None

    memory_overhead: OnKubernetes[Memory | None] = None
    core_limit: OnKubernetes[str | None] = None
    core_request: OnKubernetes[str | None] = None
    memory_limit: OnKubernetes[str | None] = None
    gpu: OnKubernetes[dict[str, Any] | None] = None
    image: OnKubernetes[str | None] = None
    labels: OnKubernetes[dict[str, str] | None] = None
    annotations: OnKubernetes[dict[str, str] | None] = None
    template: OnKubernetes[dict[str, Any] | None] = None
    config_maps: OnKubernetes[list[Any] | None] = None
    secrets: OnKubernetes[list[Any] | None] = None
    env_from: OnKubernetes[list[Any] | None] = None
    env_secret_key_refs: OnKubernetes[dict[str, Any] | None] = None
    volume_mounts: OnKubernetes[list[Any] | None] = None
    affinity: OnKubernetes[dict[str, Any] | None] = None
    tolerations: OnKubernetes[list[Any] | None] = None
    node_selector: OnKubernetes[dict[str, str] | None] = None
    pod_security_context: OnKubernetes[dict[str, Any] | None] = None
    security_context: OnKubernetes[dict[str, Any] | None] = None
    scheduler_name: OnKubernetes[str | None] = None
    priority_class_name: OnKubernetes[str | None] = None
    sidecars: OnKubernetes[list[Any] | None] = None
    init_containers: OnKubernetes[list[Any] | None] = None
    host_network: OnKubernetes[bool | None] = None
    host_aliases: OnKubernetes[list[Any] | None] = None
    dns_config: OnKubernetes[dict[str, Any] | None] = None
    termination_grace_period_seconds: OnKubernetes[int | None] = None
    service_account: OnKubernetes[str | None] = None
    share_process_namespace: OnKubernetes[bool | None] = None
    lifecycle: OnKubernetes[dict[str, Any] | None] = None
    ports: OnKubernetes[list[Any] | None] = None

    def environment(self) -> dict[str, str]:
        """The variables that have a value here; `env` wins over the deprecated `envVars`."""
        return {**self.env_vars, **{variable.name: variable.value for variable in self.env}}


class DriverSpec(SparkPodSpec):
    """The driver."""

    pod_name: OnKubernetes[str | None] = None
    kubernetes_master: OnKubernetes[str | None] = None
    service_annotations: OnKubernetes[dict[str, str] | None] = None
    service_labels: OnKubernetes[dict[str, str] | None] = None


class ExecutorSpec(SparkPodSpec):
    """The executors."""

    instances: int | None = Field(default=None, ge=1)
    delete_on_termination: OnKubernetes[bool | None] = None


class SparkApplicationSpec(ApiModel):
    """What is to run, with what, and how it recovers."""

    type: Literal["Python", "Java", "Scala", "R"]
    spark_version: str
    main_application_file: str
    arguments: list[str] = Field(default_factory=list)
    main_class: str | None = None
    mode: Literal["cluster", "client"] = "cluster"
    workload: Literal["Batch", "Streaming"] = "Batch"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    hadoop_conf: dict[str, str] = Field(default_factory=dict)
    deps: Dependencies = Field(default_factory=Dependencies)
    restart_policy: RestartPolicy | None = None
    """Unset: three restarts after failures of the infrastructure."""
    driver: DriverSpec = Field(default_factory=DriverSpec)
    executor: ExecutorSpec = Field(default_factory=ExecutorSpec)

    speculation: SpeculationSpec = Field(default_factory=SpeculationSpec)
    blocklist: BlocklistSpec = Field(default_factory=BlocklistSpec)
    recovery: RecoverySpec = Field(default_factory=RecoverySpec)

    suspend: OnKubernetes[bool | None] = None
    proxy_user: OnKubernetes[str | None] = None
    image: OnKubernetes[str | None] = None
    image_pull_policy: OnKubernetes[str | None] = None
    image_pull_secrets: OnKubernetes[list[str] | None] = None
    spark_config_map: OnKubernetes[str | None] = None
    hadoop_config_map: OnKubernetes[str | None] = None
    volumes: OnKubernetes[list[Any] | None] = None
    node_selector: OnKubernetes[dict[str, str] | None] = None
    python_version: OnKubernetes[str | None] = None
    memory_overhead_factor: OnKubernetes[str | None] = None
    monitoring: OnKubernetes[dict[str, Any] | None] = None
    batch_scheduler: OnKubernetes[str | None] = None
    batch_scheduler_options: OnKubernetes[dict[str, Any] | None] = None
    time_to_live_seconds: OnKubernetes[int | None] = None
    spark_ui_options: OnKubernetes[dict[str, Any] | None] = Field(default=None, alias="sparkUIOptions")
    driver_ingress_options: OnKubernetes[list[Any] | None] = None
    dynamic_allocation: OnKubernetes[dict[str, Any] | None] = None
    driver_pod_disruption_budget: OnKubernetes[bool | None] = None
    failure_retries: OnKubernetes[int | None] = None
    retry_interval: OnKubernetes[int | None] = None

    @model_validator(mode="after")
    def _streams_do_not_speculate(self) -> Self:
        if self.workload == "Streaming" and self.speculation.enabled:
            raise ValueError(
                "speculation.enabled is true and workload is Streaming: only tasks that end can be slow "
                "(S2-9); set speculation.enabled to false or workload to Batch"
            )
        return self

    def settings(self) -> RekindleSettings:
        """The blocks of this spec, and over them the `spark.rekindle.*` keys of its `sparkConf`.

        Raises SettingsError for such a key that cannot be used.
        """
        blocks = RekindleSettings(speculation=self.speculation, blocklist=self.blocklist, recovery=self.recovery)
        return RekindleSettings.from_spark_conf({**blocks.to_spark_conf(), **self.spark_conf})


class SparkApplication(ApiModel):
    """One application, as `kubectl apply` and `rekindle run` take it."""

    api_version: Literal["rekindle.dev/v1beta2", "sparkoperator.k8s.io/v1beta2"]
    kind: Literal["SparkApplication"]
    metadata: Metadata
    spec: SparkApplicationSpec
    status: OnKubernetes[dict[str, Any] | None] = None

    def meaningless_locally(self) -> list[str]:
        """Paths of the fields that this manifest sets and one machine gives no meaning, in its order."""
        return list(_set_for_kubernetes(self, ""))


def _set_for_kubernetes(model: BaseModel, path: str) -> list[str]:
    found = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        where = f"{path}{field.alias or name}"
        if any(isinstance(mark, _OnKubernetes) for mark in field.metadata):
            found += [where] if value is not None else []
        elif isinstance(value, BaseModel):
            found += _set_for_kubernetes(value, f"{where}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                found += _set_for_kubernetes(item, f"{where}[{index}].") if isinstance(item, BaseModel) else []
    return found
