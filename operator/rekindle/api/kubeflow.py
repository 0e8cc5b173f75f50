"""Kubeflow's own shapes in a SparkApplication, under the names that its manifests have."""

from typing import Any, Literal

from pydantic import Field

from rekindle.api.model import ApiModel


class Dependencies(ApiModel):
    """Files and packages that the application needs. Local paths are relative to the manifest on one machine; on
    Kubernetes `local://` is a path in the image, and all else is fetched by Spark."""

    jars: list[str] = Field(default_factory=list)
    """Jars on the class path of driver and executors."""

    files: list[str] = Field(default_factory=list)
    """Files placed in the working folder of each executor."""

    py_files: list[str] = Field(default_factory=list)
    """Python files, zips and eggs on the PYTHONPATH."""

    archives: list[str] = Field(default_factory=list)
    """Archives unpacked in the working folder of each executor."""

    packages: list[str] = Field(default_factory=list)
    """Maven coordinates, `group:artifact:version`, of jars to fetch."""

    exclude_packages: list[str] = Field(default_factory=list)
    """`group:artifact` of what is not fetched although a package needs it."""

    repositories: list[str] = Field(default_factory=list)
    """Maven repositories that are asked beside the usual ones."""


class DynamicAllocation(ApiModel):
    """Executors that come and go with the work (`spark.dynamicAllocation.*`)."""

    enabled: bool = False
    """Whether Spark asks for executors as work comes, and gives idle ones back."""

    initial_executors: int | None = Field(default=None, ge=0)
    """Executors at the start; `executor.instances` wins where it is more. Unset: `minExecutors`."""

    min_executors: int | None = Field(default=None, ge=0)
    """Executors kept even when idle. Unset: none."""

    max_executors: int | None = Field(default=None, ge=1)
    """Most executors at a time. Unset: no bound."""

    shuffle_tracking_enabled: bool | None = None
    """Whether executors that hold shuffle data are kept for it. Unset: yes."""

    shuffle_tracking_timeout: int | None = Field(default=None, ge=0)
    """Milliseconds after which even an executor that holds shuffle data may go. Unset: when the data is not needed."""


class Prometheus(ApiModel):
    """The JMX exporter of Prometheus as a Java agent."""

    jmx_exporter_jar: str
    """Path of the exporter's jar in the container."""

    port: int | None = Field(default=None, ge=1024, le=49151)
    """Port of the exporter. Unset: 8090."""

    port_name: str | None = None
    """Name of that port. Unset: jmx-exporter."""

    config_file: str | None = None
    """Path of the exporter's configuration in the image; wins over `configuration`."""

    configuration: str | None = None
    """The exporter's configuration itself."""


class Monitoring(ApiModel):
    """Spark's metrics for Prometheus."""

    expose_driver_metrics: bool = False
    """Whether the driver's metrics are exposed."""

    expose_executor_metrics: bool = False
    """Whether the executors' metrics are exposed."""

    metrics_properties: str | None = None
    """The text of Spark's metrics.properties."""

    metrics_properties_file: str | None = None
    """Path of metrics.properties in the container."""

    prometheus: Prometheus | None = None
    """The exporter."""


class BatchSchedulerOptions(ApiModel):
    """What a batch scheduler is told."""

    queue: str | None = None
    """The scheduler's queue."""

    priority_class_name: str | None = None
    """The priority class of the group of pods."""

    resources: dict[str, Any] | None = None
    """The resources that must be free before any pod starts."""


class ServiceOptions(ApiModel):
    """The service and the ingress in front of one port of the driver."""

    service_type: str | None = None
    """The type of the service. Unset: ClusterIP."""

    service_annotations: dict[str, str] | None = None
    """Annotations of the service."""

    service_labels: dict[str, str] | None = None
    """Labels of the service."""

    ingress_annotations: dict[str, str] | None = None
    """Annotations of the ingress."""

    ingress_tls: list[dict[str, Any]] | None = Field(default=None, alias="ingressTLS")
    """The hosts and secrets of the ingress's certificates."""


class SparkUIOptions(ServiceOptions):
    """The service and the ingress in front of Spark's UI."""

    service_port: int | None = Field(default=None, ge=1, le=65535)
    """The service's port. Unset: the UI's own."""

    service_port_name: str | None = None
    """The name of that port. Unset: spark-driver-ui-port."""


class DriverIngress(ServiceOptions):
    """The service and the ingress in front of another port of the driver."""

    service_port: int = Field(ge=1, le=65535)
    """The service's port."""

    service_port_name: str
    """The name of that port."""

    ingress_url_format: str | None = Field(default=None, alias="ingressURLFormat")
    """The address of the ingress, with `{{$appName}}` and `{{$appNamespace}}` in it."""


class Gpu(ApiModel):
    """Graphics processors of a pod."""

    name: str
    """The resource's name, such as nvidia.com/gpu."""

    quantity: int = Field(ge=0)
    """How many."""


class NamePath(ApiModel):
    """A ConfigMap, and where its keys become files."""

    name: str
    """Its name."""

    path: str
    """The folder in the container."""


class SecretMount(NamePath):
    """A Secret, and where its keys become files."""

    name: str
    """Its name."""

    secret_type: Literal["GCPServiceAccount", "HadoopDelegationToken", "Generic"] = "Generic"
    """`GCPServiceAccount` and `HadoopDelegationToken` also set the variable by which their clients find the file."""


class NameKey(ApiModel):
    """One key of a Secret."""

    name: str
    """The Secret's name."""

    key: str
    """The key in it."""


class ContainerPort(ApiModel):
    """A port that the container listens on."""

    name: str
    """The port's name."""

    container_port: int = Field(ge=1, le=65535)
    """Its number."""

    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    """The protocol spoken there."""
