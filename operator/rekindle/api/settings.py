"""How a job recovers and speculates: the three blocks that a manifest adds to Kubeflow's SparkApplication.

The same settings have two other forms: the options of the core, and Spark configuration keys
(`spark.rekindle.speculation.maxConcurrentExecutions`), which is how they reach a driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, Self

from pydantic import Field, ValidationError

from rekindle.api.model import ApiModel, OnKubernetes, nearest, problems
from rekindle.api.quantities import YEAR, Duration, PositiveDuration, PositiveSize, Ratio, RatioBelowOne, SecondOrMore
from rekindle.api.storage import ShuffleVolumesSpec, StorageSpec
from rekindle.core.options import (
    BlocklistOptions,
    FailoverOptions,
    FailoverStrategyKind,
    NodeAwareOptions,
    SlowTaskDetectorOptions,
    SpeculationOptions,
)

CONF_PREFIX = "spark.rekindle."

CONNECT_TIMEOUT = "10s"
"""Of tasks that fetch map outputs (`spark.shuffle.io.connectionCreationTimeout`). As a rule a kernel answers sooner,
however busy its node is."""

DRIVER_ATTEMPT = f"{CONF_PREFIX}driver.attempt"
"""Which driver of `rekindle run` this is, from 1."""

DRIVER_TAKEOVER = f"{CONF_PREFIX}driver.takeover"
"""`true`: the driver before is proven gone, its lease need not run out."""

DRIVER_ERROR = f"{CONF_PREFIX}driver.error"
"""The file to which a driver writes the error that ends it, for who started it."""

SPLITS_PORT = f"{CONF_PREFIX}driver.splitsPort"
"""The port on which a driver hands out splits of sources; one that is free where it is not said."""

EXPLAIN = f"{CONF_PREFIX}explain"
"""A form of explanation: the pipeline is explained, and not run."""

_NO_SETTINGS = ("driver", "explain")
"""What else is said to a driver under the prefix."""

_NODE_AWARE_LOWER_BOUND = NodeAwareOptions().lower_bound

_STRATEGIES = {"region": FailoverStrategyKind.REGION, "restartAll": FailoverStrategyKind.RESTART_ALL}


class SettingsError(ValueError):
    """A `spark.rekindle.*` key that cannot be used; the message names the key and the remedy."""


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """The settings as the core takes them."""

    speculation: SpeculationOptions
    slow_tasks: SlowTaskDetectorOptions
    node_aware: NodeAwareOptions | None
    """None where the detector is another one."""

    failover: FailoverOptions
    blocklist: BlocklistOptions


class SpeculationSpec(ApiModel):
    """Speculative execution of slow tasks (FLIP-168)."""

    enabled: bool = False
    """Launch copies of slow tasks on other nodes, and block the nodes that made them slow."""

    max_concurrent_executions: int = Field(default=2, ge=1)
    """Current executions of one task, its copies included (S2)."""

    block_slow_node_duration: Duration = 60.0
    """How long a slow task's node gets no new tasks."""

    on_slow_node: OnKubernetes[Literal["MarkBlocked", "MarkBlockedAndEvacuateTasks"]] = "MarkBlocked"
    """What becomes of tasks that run on a slow node: `MarkBlocked` lets them go on, `MarkBlockedAndEvacuateTasks`
    ends this application's executors there once there is room elsewhere and it is proven that the node is slow."""

    source_enabled: bool | None = None
    """Speculate stages that read sources; unset follows `enabled`."""

    sink_enabled: bool = False
    """Speculate stages that write sinks which take concurrent attempts."""

    detector: Literal["executionTime", "nodeAware"] = "executionTime"
    """What tells slow tasks: `executionTime` compares tasks (FLIP-168), `nodeAware` finds slow nodes."""

    check_interval: PositiveDuration = 1.0
    """Time between two searches for slow tasks."""

    baseline_lower_bound: Duration = 60.0
    """No task is slow that has run for less than this."""

    baseline_ratio: RatioBelowOne = Decimal("0.75")
    """Share of a stage's tasks that must have finished before any of the others can be called slow."""

    baseline_multiplier: float = Field(default=1.5, gt=0)
    """A task is slow beyond this many times the median of the finished ones."""

    tolerated_node_factor: float = Field(default=1.6, ge=1)
    """`nodeAware`: a node may be this many times slower than others for good (older hardware)."""

    false_alarm_rate: float = Field(default=0.01, gt=0, lt=1)
    """`nodeAware`: share of the stages in which chance may make a healthy node look slow."""

    cold_start: Duration = 30.0
    """`nodeAware`: what a new node's first tasks may take longer."""

    max_duplicate_share: OnKubernetes[Ratio] = Decimal("0.5")
    """Most duplicate executors at a time, as a share of those that the application asks for, rounded up."""


class BlocklistSpec(ApiModel):
    """Blocked nodes (FLIP-224)."""

    max_blocked_share: Ratio = Decimal("0.2")
    """At most this share of the nodes is blocked at a time, rounded up; never the last one."""

    remove_when_done: OnKubernetes[bool] = False
    """Blocks that nobody but this application asked for are removed when it has ended."""


class RecoverySpec(ApiModel):
    """What is restarted after a failure, how often, and where results are stored (FLIP-1)."""

    failover_strategy: Literal["region", "restartAll"] = "region"
    """`region` restarts the failed regions and what depends on lost results; `restartAll` everything."""

    max_failures_per_task: int = Field(default=4, ge=1)
    """Failures of one task that the job survives; lost infrastructure is not counted."""

    max_total_failures: int | None = Field(default=None, ge=0)
    """Failures of the whole job that it survives, lost infrastructure included; unset is no bound."""

    store: str | None = None
    """Folder of the stored results, or `s3://bucket/prefix`. A folder is relative to the manifest on one machine, to
    the driver's working folder on Kubernetes, where `storage` wins over it. Unset: chosen by who runs it."""

    storage: OnKubernetes[StorageSpec | None] = None
    """A volume for the stored results, which outlives drivers and executors: all pods mount it, and the store is there.
    Unset: `store` decides."""

    shuffle_volumes: OnKubernetes[ShuffleVolumesSpec | None] = None
    """For any application: executors' shuffle files lie on volumes that outlive an executor, though not the driver.
    Unset: they go with their executor, and what it had shuffled is made again."""

    volumes: int = Field(default=1, ge=1, le=100)
    """Volumes over which stored results are spread."""

    store_limit: PositiveSize | None = None
    """Most bytes the store may take; unset is as much as fits."""

    store_timeout: SecondOrMore = 60.0
    """How long a bucket that does not answer is asked again, before the run ends or the task fails."""

    run_history_limit: int = Field(default=10, ge=1)
    """Runs, the newest among them, whose journal and manifests are kept for those who ask what happened."""

    changed_stages: Literal["refuse", "rerun"] | None = None
    """What becomes of stages whose code has changed since an unfinished run began: `refuse` ends the next driver with
    an error, `rerun` makes them again, with all that was made of them. Unset: `rerun` with `storage`, else `refuse`."""

    lease_seconds: float = Field(default=10.0, gt=0)
    """Seconds: a second run on the same store is refused while the first renewed its lease within this time."""

    fencing: OnKubernetes[Literal["Wait", "Assume"]] = "Wait"
    """What is done when an old driver cannot be proven gone: `Wait` starts no other driver;
    `Assume` starts one after `fencingTimeoutSeconds`, and two drivers are then possible."""

    fencing_timeout_seconds: OnKubernetes[int] = Field(default=300, ge=1, le=YEAR)
    """Seconds after which `fencing: Assume` takes a driver for gone that nobody can reach."""

    @property
    def outlives_driver(self) -> bool:
        """Whether what is stored is there for a driver that follows on Kubernetes, as far as the manifest tells."""
        return self.storage is not None or (self.store or "").startswith(("s3://", "s3a://"))


class RekindleSettings(ApiModel):
    """The three blocks together; every field has a default."""

    speculation: SpeculationSpec = Field(default_factory=SpeculationSpec)
    """Copies of slow tasks."""

    blocklist: BlocklistSpec = Field(default_factory=BlocklistSpec)
    """Nodes that get no new tasks for a while."""

    recovery: RecoverySpec = Field(default_factory=RecoverySpec)
    """What is restarted after a failure."""

    @property
    def asks_driver(self) -> bool:
        """Whether the operator asks the driver if it runs a pipeline, and that one's job master answers."""
        return self.speculation.enabled or self.recovery.outlives_driver

    def to_core(self) -> CoreOptions:
        """The same settings as options of the core. ValueError where the core refuses a value."""
        speculation, recovery = self.speculation, self.recovery
        return CoreOptions(
            speculation=SpeculationOptions(
                enabled=speculation.enabled,
                max_concurrent_executions=speculation.max_concurrent_executions,
                block_slow_node_duration=speculation.block_slow_node_duration,
                source_enabled=speculation.source_enabled,
                sink_enabled=speculation.sink_enabled,
            ),
            slow_tasks=SlowTaskDetectorOptions(
                check_interval=speculation.check_interval,
                baseline_lower_bound=speculation.baseline_lower_bound,
                baseline_ratio=Fraction(speculation.baseline_ratio),
                baseline_multiplier=speculation.baseline_multiplier,
            ),
            node_aware=self._node_aware() if speculation.detector == "nodeAware" else None,
            failover=FailoverOptions(
                strategy=_STRATEGIES[recovery.failover_strategy],
                max_failures_per_task=recovery.max_failures_per_task,
                max_total_failures=recovery.max_total_failures,
            ),
            blocklist=BlocklistOptions(max_blocked_share=Fraction(self.blocklist.max_blocked_share)),
        )

    def _node_aware(self) -> NodeAwareOptions:
        speculation = self.speculation
        return NodeAwareOptions(
            lower_bound=min(_NODE_AWARE_LOWER_BOUND, speculation.baseline_lower_bound),
            tolerated_factor=speculation.tolerated_node_factor,
            false_alarm_rate=speculation.false_alarm_rate,
            cold_start=speculation.cold_start,
        )

    def to_spark_conf(self) -> dict[str, str]:
        """Every setting that has a value, as Spark configuration; `from_spark_conf` reads it back."""
        return {
            f"{CONF_PREFIX}{block}.{name}": str(value).lower() if isinstance(value, bool) else str(value)
            for block, values in self.model_dump(mode="json", by_alias=True, exclude_none=True).items()
            for name, value in values.items()
            if not isinstance(value, dict)  # what shapes pods
        }

    @classmethod
    def _meant(cls, block: str, name: str) -> str:
        """What was probably meant by `block.name`, or by `block` alone."""
        blocks = {option: of for of, options in cls().model_dump(by_alias=True).items() for option in options}
        if not name and (option := nearest(block, blocks)):
            return f"did you mean {CONF_PREFIX}{blocks[option]}.{option}?"
        if name and (near := nearest(block, cls.model_fields)):
            return f"did you mean {CONF_PREFIX}{near}.{name}?"
        return f"there are {', '.join(f'{CONF_PREFIX}{of}.*' for of in cls.model_fields)}"

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str]) -> Self:
        """Settings from a driver's configuration; keys of other owners are ignored.

        Raises SettingsError, naming each key, for an unknown setting and for a value that cannot be read.
        """
        blocks: dict[str, dict[str, str]] = {}
        for key in sorted(conf):
            if not key.startswith(CONF_PREFIX):
                continue
            block, _, name = key.removeprefix(CONF_PREFIX).partition(".")
            if block in cls.model_fields and name:
                blocks.setdefault(block, {})[name] = conf[key]
            elif block not in _NO_SETTINGS:
                raise SettingsError(f"{key}: unknown setting; {cls._meant(block, name)}")
        try:
            return cls.model_validate(blocks, strict=False, by_alias=True, by_name=False)
        except ValidationError as error:
            raise SettingsError("\n".join(f"{CONF_PREFIX}{line}" for line in problems(error, cls))) from None
