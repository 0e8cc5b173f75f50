"""The SparkApplication resource: Kubeflow's v1beta2 fields, and the blocks that Rekindle adds.

The same manifest runs on one machine and on Kubernetes. A field that only Kubernetes gives a meaning is
typed `OnKubernetes[...]`; `SparkApplication.meaningless_locally` names the ones a manifest uses.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from rekindle.api.kubeflow import (
    BatchSchedulerOptions,
    Dependencies,
    DriverIngress,
    DynamicAllocation,
    Monitoring,
    SparkUIOptions,
)
from rekindle.api.model import ApiModel, OnKubernetes, set_for_kubernetes
from rekindle.api.names import is_name
from rekindle.api.pod_spec import DriverSpec, ExecutorSpec
from rekindle.api.quantities import YEAR, Factor
from rekindle.api.restart_policy import RestartPolicy, Timeouts
from rekindle.api.settings import BlocklistSpec, RecoverySpec, RekindleSettings, SpeculationSpec

Name = Annotated[str, AfterValidator(is_name)]
"""A DNS-1035 label, as Kubeflow's webhook asks."""


class Metadata(ApiModel):
    """Kubernetes' object metadata, as far as a manifest has it."""

    model_config = ConfigDict(extra="ignore")  # the API server adds fields of its own

    name: Name
    """At most 63 of a-z, 0-9 and -, a letter first."""

    namespace: str = "default"
    """The namespace of the application and of all its objects."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Kubernetes' labels."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Kubernetes' annotations."""


class SparkApplicationSpec(ApiModel):
    """What is to run, with what, and how it recovers."""

    type: Literal["Python", "Java", "Scala", "R"]
    """The application's language."""

    spark_version: str
    """The version of Spark in the image; on one machine the installed one is used."""

    main_application_file: str
    """The program: a Python file or a jar. On Kubernetes `local://` is a path in the image."""

    arguments: list[str] = Field(default_factory=list)
    """The program's arguments."""

    main_class: str | None = None
    """The class to run. Needed for Java and Scala."""

    mode: Literal["cluster", "client"] = "cluster"
    """Where the driver runs; on Kubernetes always in a pod of its own, `cluster`."""

    workload: Literal["Batch", "Streaming"] = "Batch"
    """`Batch` ends by itself; `Streaming` does not, and cannot speculate."""

    spark_conf: dict[str, str] = Field(default_factory=dict)
    """Spark configuration; all values are texts. `spark.rekindle.*` wins over the blocks of this spec."""

    hadoop_conf: dict[str, str] = Field(default_factory=dict)
    """Hadoop configuration, without the prefix `spark.hadoop.`."""

    deps: Dependencies = Field(default_factory=Dependencies)
    """Files and packages that the application needs."""

    restart_policy: RestartPolicy | None = None
    """Whether and how often a driver that ended is started again. Unset: three restarts after failures of the
    infrastructure."""

    timeouts: OnKubernetes[Timeouts] = Field(default_factory=Timeouts)
    """How long pods may take to run."""

    driver: DriverSpec = Field(default_factory=DriverSpec)
    """The driver."""

    executor: ExecutorSpec = Field(default_factory=ExecutorSpec)
    """The executors."""

    speculation: SpeculationSpec = Field(default_factory=SpeculationSpec)
    """Copies of slow tasks on other nodes."""

    blocklist: BlocklistSpec = Field(default_factory=BlocklistSpec)
    """Nodes that get no new tasks for a while."""

    recovery: RecoverySpec = Field(default_factory=RecoverySpec)
    """What is restarted after a failure, and where results are stored."""

    suspend: OnKubernetes[bool | None] = None
    """Whether the application is stopped, its pods removed, until this is unset again. Unset: no."""

    proxy_user: OnKubernetes[str | None] = None
    """The user in whose name Hadoop is asked."""

    image: OnKubernetes[str | None] = None
    """The image of driver and executors, where they name none themselves."""

    image_pull_policy: OnKubernetes[Literal["Always", "IfNotPresent", "Never"] | None] = None
    """When the image is pulled. Unset: IfNotPresent."""

    image_pull_secrets: OnKubernetes[list[str] | None] = None
    """Names of the Secrets by which the image is pulled."""

    spark_config_map: OnKubernetes[str | None] = None
    """A ConfigMap with Spark's configuration files."""

    hadoop_config_map: OnKubernetes[str | None] = None
    """A ConfigMap with Hadoop's configuration files."""

    volumes: OnKubernetes[list[dict[str, Any]] | None] = None
    """Kubernetes' volumes, for the `volumeMounts` of driver and executors."""

    node_selector: OnKubernetes[dict[str, str] | None] = None
    """Labels that the nodes of driver and executors must have. Not beside a `nodeSelector` of theirs."""

    python_version: OnKubernetes[Literal["2", "3"] | None] = None
    """The major version of Python. Unset: the image's; only 3 is left."""

    memory_overhead_factor: OnKubernetes[Factor | None] = None
    """Memory beside the heap as a share of it, a text such as "0.1". Unset: 0.1 for Java and Scala, else 0.4."""

    monitoring: OnKubernetes[Monitoring | None] = None
    """Spark's metrics for Prometheus."""

    batch_scheduler: OnKubernetes[str | None] = None
    """The batch scheduler that places the pods as a group."""

    batch_scheduler_options: OnKubernetes[BatchSchedulerOptions | None] = None
    """What the batch scheduler is told."""

    time_to_live_seconds: OnKubernetes[int | None] = Field(default=None, ge=0, le=YEAR)
    """Seconds after its end at which the application is deleted, with its pods, their logs, and the claims of
    `recovery.storage.claimTemplate`; results elsewhere stay. Unset: never."""

    spark_ui_options: OnKubernetes[SparkUIOptions | None] = Field(default=None, alias="sparkUIOptions")
    """The service and the ingress in front of Spark's UI."""

    driver_ingress_options: OnKubernetes[list[DriverIngress] | None] = None
    """Services and ingresses in front of other ports of the driver."""

    dynamic_allocation: OnKubernetes[DynamicAllocation | None] = None
    """Executors that come and go with the work. Unset: `sparkConf` decides."""

    driver_pod_disruption_budget: OnKubernetes[bool | None] = None
    """Whether a PodDisruptionBudget keeps the driver from being evicted. Unset: no."""

    failure_retries: OnKubernetes[int | None] = None
    """Kubeflow's older name of `restartPolicy.onFailureRetries`."""

    retry_interval: OnKubernetes[int | None] = None
    """Kubeflow's older name of `restartPolicy.onFailureRetryInterval`."""

    @model_validator(mode="after")
    def _streams_do_not_speculate(self) -> Self:
        if self.workload == "Streaming" and self.speculation.enabled:
            raise ValueError(
                "speculation.enabled is true and workload is Streaming: only tasks that end can be slow "
                "(S2-9); set speculation.enabled to false or workload to Batch"
            )
        return self

    @property
    def allocates_dynamically(self) -> bool:
        """Whether executors come and go with the work."""
        if self.dynamic_allocation is not None:
            return self.dynamic_allocation.enabled
        return self.spark_conf.get("spark.dynamicAllocation.enabled", "").strip().lower() == "true"

    @property
    def deletes_executors(self) -> bool:
        """Whether executors that have ended are deleted."""
        chosen = self.executor.delete_on_termination
        conf = self.spark_conf.get("spark.kubernetes.executor.deleteOnTermination", "true")
        return conf.strip().lower() != "false" if chosen is None else chosen

    @property
    def executor_instances(self) -> int:
        """How many executors it asks for where they do not come and go; Spark's default is 2."""
        return self.executor.instances or _whole(self.spark_conf.get("spark.executor.instances"), otherwise=2)

    @property
    def executor_slots(self) -> int:
        """How many tasks an executor runs at once."""
        conf = self.spark_conf
        chosen = self.executor.cores if "cores" in self.executor.model_fields_set else None
        cores = chosen or _whole(conf.get("spark.executor.cores"), otherwise=1)
        return max(1, cores // _whole(conf.get("spark.task.cpus"), otherwise=1))

    def settings(self) -> RekindleSettings:
        """The blocks of this spec, and over them the `spark.rekindle.*` keys of its `sparkConf`.

        Raises SettingsError for such a key that cannot be used.
        """
        blocks = RekindleSettings(speculation=self.speculation, blocklist=self.blocklist, recovery=self.recovery)
        settings = RekindleSettings.from_spark_conf({**blocks.to_spark_conf(), **self.spark_conf})
        volumes = {"storage": self.recovery.storage, "shuffle_volumes": self.recovery.shuffle_volumes}
        recovery = settings.recovery.model_copy(update=volumes)  # no key of Spark's says them
        return settings.model_copy(update={"recovery": recovery})


def _whole(text: str | None, *, otherwise: int) -> int:
    """A number of Spark's, from 1; what Spark itself will refuse counts as not given."""
    return max(1, int(text)) if text is not None and text.strip().isdecimal() else otherwise


class SparkApplication(ApiModel):
    """A Spark application: what runs, with what, and what is done when a part of it is slow or lost."""

    api_version: Literal["rekindle.dev/v1beta2", "sparkoperator.k8s.io/v1beta2"]
    """The version of this schema."""

    kind: Literal["SparkApplication"]
    """The kind of the object."""

    metadata: Metadata
    """Name, namespace, labels."""

    spec: SparkApplicationSpec
    """What is to run."""

    status: OnKubernetes[dict[str, Any] | None] = None
    """What the operator knows of the application; written by the operator only."""

    def meaningless_locally(self) -> list[str]:
        """Paths of the fields that this manifest sets and one machine gives no meaning, in its order."""
        return set_for_kubernetes(self)
