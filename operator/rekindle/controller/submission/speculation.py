"""What Spark needs of an application with `speculation.enabled`: to copy slow tasks, and to drain executors."""

from fractions import Fraction

from rekindle.api.settings import CONNECT_TIMEOUT, RekindleSettings
from rekindle.api.spark_application import SparkApplicationSpec

_HALF = Fraction(1, 2)
_LONGEST_HEARTBEAT, _SHORTEST_HEARTBEAT = 10.0, 1.0


def speculation_properties(spec: SparkApplicationSpec) -> dict[str, str]:
    """Spark's properties; what `sparkConf` says of them wins."""
    settings = spec.settings()
    if not settings.speculation.enabled:
        return {}
    return {**_copies(settings), **_drains(), **_witness(settings)}


def overridden(spec: SparkApplicationSpec) -> list[str]:
    """Properties of these that `sparkConf` sets otherwise."""
    ours = speculation_properties(spec)
    return sorted(key for key in ours if spec.spark_conf.get(key, ours[key]) != ours[key])


def _copies(settings: RekindleSettings) -> dict[str, str]:
    """Spark's own copies, by the same measure.

    A node that `nodeAware` blames may hold more of a stage's tasks than the gate of FLIP-168 leaves, and Spark makes no
    copy before its own gate: half of the tasks is what one of two nodes leaves.
    """
    core = settings.to_core()
    options = core.slow_tasks
    quantile = options.baseline_ratio if core.node_aware is None else min(options.baseline_ratio, _HALF)
    return {
        "spark.speculation": str(core.speculation.max_concurrent_executions > 1).lower(),
        "spark.speculation.interval": _milliseconds(options.check_interval),
        "spark.speculation.quantile": str(float(quantile)),
        "spark.speculation.multiplier": str(options.baseline_multiplier),
        "spark.speculation.minTaskRuntime": _milliseconds(options.baseline_lower_bound),
    }


def _drains() -> dict[str, str]:
    """An executor whose pod is deleted ends its tasks, takes none, and gives away what others may fetch from it.

    A stage that runs meanwhile goes on asking the old place for what was given away: Spark tells its tasks of no other.
    Where nobody answers there any more they fail, in seconds and not after `spark.network.timeout`.
    """
    return {
        "spark.shuffle.io.connectionCreationTimeout": CONNECT_TIMEOUT,
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
    }


def _witness(settings: RekindleSettings) -> dict[str, str]:
    """How often a running task says what it has read, which tells skew from a slow node: before it can be slow."""
    options = settings.to_core()
    bound = options.node_aware.lower_bound if options.node_aware else options.slow_tasks.baseline_lower_bound
    seconds = min(max(bound / 2, _SHORTEST_HEARTBEAT), _LONGEST_HEARTBEAT)
    return {"spark.executor.heartbeatInterval": _milliseconds(seconds)}


def _milliseconds(seconds: float) -> str:
    """What is some time stays some: Spark starts no timer of none."""
    return f"{max(round(seconds * 1000), 1 if seconds else 0)}ms"
