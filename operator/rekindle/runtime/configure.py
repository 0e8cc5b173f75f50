"""Settings that must be there when the SparkContext starts.

`configure(builder, ...)` sets them on a builder in any PySpark program; `rekindle run` sets the same ones. In a
session made without them a pipeline runs with what is left, and says at its start what is missing; so does `explain`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.api.quantities import parse_duration
from rekindle.api.settings import CONF_PREFIX, CONNECT_TIMEOUT, RekindleSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOLS = Path(__file__).with_name("fairscheduler.xml")


@dataclass(frozen=True, slots=True)
class Lever:
    """A Spark setting that a pipeline pulls at, and what is missing without it.

    Attributes:
        any_value_does: that a session has it at another value was somebody's choice, and leaves nothing out.
    """

    key: str
    value: str
    without: str
    any_value_does: bool = False

    def is_in(self, conf: Mapping[str, str]) -> bool:
        """Whether a session has what this one brings."""
        return self.key in conf and (self.any_value_does or _plain(conf[self.key]) == _plain(self.value))


def _plain(value: str) -> str | float:
    """The same for two ways to write a value: `60s` and `1min`, `true` and `True`."""
    try:
        return parse_duration(value)
    except ValueError:
        return value.lower()


def levers(settings: RekindleSettings) -> tuple[Lever, ...]:
    """The settings of a session for `settings`, with their reasons."""
    return (*_always(settings), *_for_copies(), *(_for_speculation(settings) if settings.speculation.enabled else ()))


def configure(
    builder: SparkSession.Builder,
    *,
    store: str | None = None,
    options: Mapping[str, str] | None = None,
) -> SparkSession.Builder:
    """Add to `builder` what a pipeline needs of its session, and Rekindle's own options. What was submitted stands.

    Args:
        store: a folder that the driver and all executors can reach, or `s3://bucket/prefix`.
        options: options by name, as in the manifest, for example `{"speculation.enabled": "true"}`.

    Raises:
        ValueError: an unknown option or a bad value, named.

    ```python
    builder = SparkSession.builder.appName("flights")
    spark = rekindle.configure(builder, store="/shared/flights").getOrCreate()
    ```
    """
    given = {f"{CONF_PREFIX}{name}": value for name, value in (options or {}).items()}
    if store is not None:
        given[f"{CONF_PREFIX}recovery.store"] = store
    submitted = _submitted_conf()
    merged = RekindleSettings.from_spark_conf({**submitted, **given})
    needed = {lever.key: lever.value for lever in levers(merged) if lever.key not in submitted}
    for key, value in {**needed, **given}.items():
        builder = builder.config(key, value)
    return builder


def _submitted_conf() -> dict[str, str]:
    """What spark-submit (or `rekindle run`, or the operator) gave this program; it stands."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # else there is no JVM to ask yet, and it has been given nothing
    return dict(SparkConf().getAll())


def session_conf(settings: RekindleSettings) -> dict[str, str]:
    """All Spark settings for `settings`: the levers, and `settings` themselves."""
    return {**{lever.key: lever.value for lever in levers(settings)}, **settings.to_spark_conf()}


def missing_levers(conf: Mapping[str, str], settings: RekindleSettings) -> list[str]:
    """What a running session does without, and which settings it lacks for that; a sentence each."""
    idle = () if settings.speculation.enabled else _for_copies()
    lacking: dict[str, list[str]] = {}
    for lever in levers(settings):
        if lever not in idle and not lever.is_in(conf):
            lacking.setdefault(lever.without, []).append(f"{lever.key}={lever.value}")
    return [f"{without}: this session lacks {', '.join(keys)}" for without, keys in lacking.items()]


def _always(settings: RekindleSettings) -> tuple[Lever, ...]:
    return (
        Lever(
            "spark.task.maxFailures",
            str(settings.recovery.max_failures_per_task + 1),  # Spark counts the failure that is one too many
            "Spark gives a task up after its own number of failures, not after maxFailuresPerTask",
        ),
        Lever(
            "spark.shuffle.io.connectionCreationTimeout",
            CONNECT_TIMEOUT,
            "a task waits for spark.network.timeout before the map outputs of an executor that is gone count as lost",
            any_value_does=True,
        ),
        Lever(
            "spark.python.task.killTimeout",
            "500ms",
            "a cancelled task holds its slot for two seconds",
            any_value_does=True,
        ),
    )


def _for_copies() -> tuple[Lever, ...]:
    return (
        Lever("spark.scheduler.mode", "FAIR", "copies wait behind the stage they should rescue"),
        Lever("spark.scheduler.allocation.file", _POOLS.as_uri(), "copies are not served first"),
    )


def _for_speculation(settings: RekindleSettings) -> tuple[Lever, ...]:
    options = settings.to_core().slow_tasks
    block = f"{max(1, round(settings.speculation.block_slow_node_duration))}s"
    node = "copies may be placed on the slow node"
    outputs = "a slow node's map outputs are waited for, however long that takes"
    map_side = "tasks of a stage's map side are not speculated"
    measure = "tasks of a stage's map side are slow by Spark's own measure"
    return (
        Lever("spark.excludeOnFailure.application.enabled", "true", node),
        Lever("spark.excludeOnFailure.application.fetchFailure.enabled", "true", node),
        Lever("spark.excludeOnFailure.timeout", block, "blocks last as long as Spark's own time-out"),
        Lever(
            "spark.excludeOnFailure.application.maxFailedTasksPerExecutor",
            "1000000",
            "failed tasks of user code exclude executors",
        ),
        Lever("spark.excludeOnFailure.taskAndStage.enabled", "false", "failed tasks exclude executors"),
        Lever("spark.decommission.enabled", "true", outputs),
        Lever("spark.storage.decommission.enabled", "true", outputs),
        Lever("spark.storage.decommission.shuffleBlocks.enabled", "true", outputs),
        Lever("spark.speculation", "true", map_side),
        Lever("spark.speculation.interval", f"{round(options.check_interval * 1000)}ms", measure, any_value_does=True),
        Lever("spark.speculation.quantile", str(float(options.baseline_ratio)), measure, any_value_does=True),
        Lever("spark.speculation.multiplier", str(options.baseline_multiplier), measure, any_value_does=True),
        Lever(
            "spark.speculation.minTaskRuntime",
            f"{round(options.baseline_lower_bound * 1000)}ms",
            measure,
            any_value_does=True,
        ),
        Lever(
            "spark.speculation.efficiency.enabled", "false", "a slow task of a map side that reads on is not speculated"
        ),
    )
