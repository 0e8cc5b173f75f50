"""Who is measured beside a slow node, in which scenarios, and the manifest of each run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.event_log import CONF as EVENT_LOG
from rekindle.controller.resources import Object
from tests.cluster.api import SPREAD
from tests.cluster.deployment import JOBS
from tests.kind.storage import IN_NODE

HOLD, SICK = 0.6, 0.06
"""CPUs of each worker, so that the healthy ones do not inherit what the sick one leaves; and of the sick one."""

EXECUTORS = 3
LOWER_BOUND = "2s"
"""No task counts as slow before, for whoever looks for slow tasks."""

APPS = Path(__file__).with_name("apps")
TPCH, TPCH_SCALE = "tpch", 1.0
"""The folder of TPC-H's tables in that of all volumes, and their scale factor."""

PROGRAMS = "slow-node-programs"
"""The ConfigMap with all of `apps/`."""

_ROOT, _PACKAGE = "/app", "/app/benchmarks/on_kubernetes/apps"
_EVENTS = "file:///tmp/events"  # where apps/measured.py looks for them

_MAP_TASKS, _SHORT_TASKS = 30, 90
_SLOTS = 4
_SECONDS_OF_QUERIES = 60.0
"""CPU-seconds that apps/tpch.py takes for its queries once, about, at TPCH_SCALE."""

_ROWS, _PARTITIONS, _SKEWED_SHARE = 24_000, 12, 0.45


@dataclass(frozen=True)
class Contender:
    """Who runs the program.

    Attributes:
        sick: whether a node becomes sick, in a scenario that has one.
        cordoned: the sick node is cordoned before the application begins.
        conf: of `spec.sparkConf`; speculation: `spec.speculation`.
    """

    name: str
    sick: bool = True
    cordoned: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    speculation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_rekindle(self) -> bool:
        return bool(self.speculation)


_SPECULATION = {"spark.speculation": "true", "spark.speculation.minTaskRuntime": LOWER_BOUND}
_ROLL = {
    "spark.plugins": "org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin",
    "spark.kubernetes.executor.rollInterval": "15s",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
}
_BY_TIME, _BY_NODE = (
    {"enabled": True, "baselineLowerBound": LOWER_BOUND, "detector": detector}
    for detector in ("executionTime", "nodeAware")
)

CONTENDERS = {
    one.name: one
    for one in (
        Contender("healthy", sick=False),
        Contender("healthy-rekindle", sick=False, speculation=_BY_TIME),
        Contender("healthy-rekindle-node-aware", sick=False, speculation=_BY_NODE),
        Contender("oracle", cordoned=True),
        Contender("plain"),
        Contender("spark-speculation", conf=_SPECULATION),
        Contender(
            "spark-speculation-0.75-1.5",
            conf={**_SPECULATION, "spark.speculation.quantile": "0.75", "spark.speculation.multiplier": "1.5"},
        ),
        Contender("spark-speculation-defaults", conf={"spark.speculation": "true"}),
        Contender("roll", conf=_ROLL),
        Contender("rekindle", speculation=_BY_TIME),
        Contender("rekindle-node-aware", speculation=_BY_NODE),
        Contender("rekindle-defaults", speculation={"enabled": True}),
    )
}

NEVER, FROM_THE_START, HALF, SECOND_STAGE = "never", "start", "half", "second-stage"
"""When the sick node becomes sick; what a program looks out for itself is called as in apps/measured.py."""


@dataclass(frozen=True)
class Scenario:
    """A program, and when a node becomes sick.

    Attributes:
        slots: tasks that an executor runs at once.
        arguments: of the program, but for the moment: (CPU-seconds that all executors have, steps per second).
        data: where the program wants TPC-H's tables; empty where it wants none.
    """

    title: str
    program: str
    moment: str
    arguments: Callable[[float, float], list[int]]
    slots: int = 1
    data: str = ""

    @property
    def reference(self) -> str:
        """The contender to which the others are compared."""
        return "healthy" if self.moment == NEVER else "oracle"

    def contenders(self) -> list[str]:
        """Those that differ from each other in this scenario."""
        same = ("plain", "oracle", "healthy-rekindle", "healthy-rekindle-node-aware") if self.moment == NEVER else ()
        return [name for name in CONTENDERS if name not in same]


def _tasks(count: int, stages: int = 1) -> Callable[[float, float], list[int]]:
    """`count` equal tasks in each stage."""
    return lambda seconds, rate: [count, round(seconds * rate / count / stages)]


def _skewed(seconds: float, rate: float) -> list[int]:
    """As many steps a row as have the task of the big key take a node's share of the time."""
    return [_ROWS, round(seconds / EXECUTORS * rate / _SKEWED_SHARE / _ROWS), _PARTITIONS]


def _repeats(seconds: float, rate: float) -> list[int]:
    return [max(1, round(seconds / _SECONDS_OF_QUERIES))]


SCENARIOS = {
    "a": Scenario("many short tasks", "equal_tasks.py", FROM_THE_START, _tasks(_SHORT_TASKS)),
    "b": Scenario(
        "as many tasks as slots, a third on the sick node",
        "equal_tasks.py",
        FROM_THE_START,
        _tasks(_SLOTS * EXECUTORS),
        slots=_SLOTS,
    ),
    "c": Scenario("a join with a skewed key, and no sick node", "skewed_join.py", NEVER, _skewed),
    "d": Scenario("a node becomes sick half-way", "equal_tasks.py", HALF, _tasks(_SHORT_TASKS)),
    "e": Scenario("three queries of TPC-H", "tpch.py", FROM_THE_START, _repeats, data="/tpch"),
    "f": Scenario(
        "the sick node holds map output of the running stage", "two_stages.py", SECOND_STAGE, _tasks(_MAP_TASKS, 2)
    ),
}


def arguments(scenario: Scenario, seconds: float, rate: float) -> list[str]:
    """Of the program, for a healthy run that computes for `seconds`; `rate`: steps in a second of CPU time."""
    looks_for = scenario.moment if scenario.moment in (HALF, SECOND_STAGE) else NEVER
    return [*map(str, scenario.arguments(seconds * HOLD * EXECUTORS, rate)), looks_for]


def programs() -> Object:
    """The ConfigMap."""
    data = {path.name: path.read_text() for path in sorted(APPS.glob("*.py"))}
    metadata = {"name": PROGRAMS, "namespace": JOBS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def manifest(
    name: str, contender: Contender, scenario: Scenario, words: list[str], image: str, drivers_node: str
) -> Object:
    """The application; its driver is held on one node, its executors are spread over all."""
    pod: Object = {
        "memory": "600m",
        "coreRequest": "100m",
        "env": [{"name": "PYTHONPATH", "value": _ROOT}],
        "configMaps": [{"name": PROGRAMS, "path": _PACKAGE}],
    }
    spec: Object = {}
    if scenario.data:
        pod["volumeMounts"] = [{"name": "tpch", "mountPath": scenario.data, "readOnly": True}]
        spec["volumes"] = [{"name": "tpch", "hostPath": {"path": f"{IN_NODE}/{TPCH}", "type": "Directory"}}]
    here = {"kubernetes.io/hostname": drivers_node}
    spec |= {
        "type": "Python",
        "sparkVersion": version("pyspark"),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "mainApplicationFile": f"local://{_PACKAGE}/{scenario.program}",
        "arguments": words,
        "restartPolicy": {"type": "Never"},
        "sparkConf": {**EVENT_LOG, "spark.eventLog.dir": _EVENTS, **contender.conf},
        "driver": {**pod, "cores": 1, "serviceAccount": "spark", "nodeSelector": here},
        "executor": {**pod, "cores": scenario.slots, "instances": EXECUTORS, "affinity": SPREAD},
        **({"speculation": dict(contender.speculation)} if contender.is_rekindle else {}),
    }
    metadata = {"name": name, "namespace": JOBS}
    return {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "metadata": metadata, "spec": spec}
