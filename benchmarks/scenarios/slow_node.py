"""One of three nodes at a tenth of its speed for the whole job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench, interleaved
from benchmarks.data import tpch_data
from benchmarks.measure import EXECUTOR_MIB, Contender, Workload, measure
from benchmarks.results import Run, comparison, ratio
from rekindle.local.cluster import ClusterShape, LocalCluster

NAME = "slow-node"

HOLD = 0.6
"""Cores of each node, so that the healthy ones do not inherit what the slow one leaves."""

FACTOR = 0.1
LOWER_BOUND = "2s"
"""No task counts as slow before, for whoever looks for slow tasks."""

_REKINDLE = {
    "speculation.enabled": "true",
    "speculation.sinkEnabled": "true",
    "speculation.baselineLowerBound": LOWER_BOUND,
}
_SPARK = {"spark.speculation": "true", "spark.speculation.minTaskRuntime": LOWER_BOUND}
_EAGER = {"spark.speculation.quantile": "0.75", "spark.speculation.multiplier": "1.5"}

HEALTHY = Contender("plain Spark, three healthy nodes", "plain")
ORACLE = Contender("plain Spark, the two healthy nodes only", "plain", nodes=2)
REKINDLE = Contender("Rekindle, slow node", "rekindle", options=_REKINDLE, slowed=True)
PLAIN = Contender("plain Spark, slow node", "plain", slowed=True)
DEFAULT = Contender("Spark's speculation (0.9, 3), slow node", "plain", conf=_SPARK, slowed=True)
EAGER = Contender("Spark's speculation (0.75, 1.5), slow node", "plain", conf={**_SPARK, **_EAGER}, slowed=True)
CONTENDERS = (HEALTHY, ORACLE, REKINDLE, PLAIN, DEFAULT, EAGER)


def runs(bench: Bench) -> Iterator[Run]:
    """Each contender once a round, every node held to the same share of a core."""
    settings = bench.settings
    scale = settings.scores_scale if settings.slow_workload == "scores" else settings.scale
    workload = Workload(settings.slow_workload, tpch_data(scale, bench.cache / "data"), settings.rounds)
    shape = ClusterShape(nodes=3, cores=1, memory=EXECUTOR_MIB, hold=HOLD)
    with bench.folder("cluster") as folder, LocalCluster(shape, folder, bench.watchdog) as cluster:
        bench.say(f"nodes are held and slowed by {cluster.nodes[0].throttle.kind}")
        for number, contender in interleaved(CONTENDERS, bench.rounds):
            yield measure(bench, cluster, workload, contender, number, FACTOR)


def tables(found: Sequence[Run]) -> str:
    """Seconds and core-seconds of each, by the oracle's, and how much faster than plain Spark."""
    ratios = {
        "times the oracle": lambda title: ratio(found, title, ORACLE.title),
        "plain Spark, slow node, takes, times": lambda title: ratio(found, PLAIN.title, title),
    }
    return comparison(found, (one.title for one in CONTENDERS), ratios)
