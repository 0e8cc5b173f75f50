"""What Rekindle costs when nothing fails: against the same job by hand, and against plain Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench, interleaved
from benchmarks.data import tpch_data
from benchmarks.measure import EXECUTOR_MIB, Contender, Workload, measure
from benchmarks.results import Run, comparison, core_seconds, ratio
from rekindle.local.cluster import ClusterShape, LocalCluster

NAME = "no-fault"

REKINDLE = Contender("Rekindle", "rekindle", options={"speculation.enabled": "true", "speculation.sinkEnabled": "true"})
BY_HAND = Contender("by hand, the same partitions", "by-hand")
LEAN = Contender("by hand, no shuffle before a write", "by-hand-lean")
PLAIN = Contender("plain Spark, stores nothing", "plain")
CONTENDERS = (REKINDLE, BY_HAND, LEAN, PLAIN)


def runs(bench: Bench) -> Iterator[Run]:
    """Each contender once a round, on three nodes that are not held back."""
    workload = Workload("profits", tpch_data(bench.settings.scale, bench.cache / "data"))
    shape = ClusterShape(nodes=3, cores=1, memory=EXECUTOR_MIB)
    with bench.folder("cluster") as folder, LocalCluster(shape, folder, bench.watchdog) as cluster:
        for number, contender in interleaved(CONTENDERS, bench.rounds):
            yield measure(bench, cluster, workload, contender, number)


def tables(found: Sequence[Run]) -> str:
    """Seconds and core-seconds of each, and Rekindle's by theirs."""
    ratios = {
        "Rekindle takes, times": lambda title: ratio(found, REKINDLE.title, title),
        "in core-seconds, times": lambda title: ratio(found, REKINDLE.title, title, core_seconds),
    }
    return comparison(found, (one.title for one in CONTENDERS), ratios)
