"""A source that is read by splits, some of which are long, on four nodes of which one is slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.bench import Bench, interleaved
from benchmarks.measure import EXECUTOR_MIB, Contender, Workload, measure
from benchmarks.results import Run, comparison, ratio
from benchmarks.scenarios import slow_node
from benchmarks.sources.ticks import READERS
from rekindle.local.cluster import ClusterShape, LocalCluster

NAME = "splits"

HOLD = 0.4
"""Cores of each node."""

ROUNDS = 1000

ORACLE = Contender("plain Spark, even splits, the three healthy nodes only", "plain", nodes=READERS - 1)
HEALTHY = Contender("Rekindle, even splits, four healthy nodes", "rekindle", nodes=READERS)
PEER = Contender("plain Spark, even splits, four healthy nodes", "plain", nodes=READERS)

SLOWED = tuple(
    replace(one, title=f"{title}, long splits, slow node", nodes=READERS)
    for title, one in {
        "Rekindle": slow_node.REKINDLE,
        "plain Spark": slow_node.PLAIN,
        "Spark's speculation (0.9, 3)": slow_node.DEFAULT,
        "Spark's speculation (0.75, 1.5)": slow_node.EAGER,
    }.items()
)
CONTENDERS = (ORACLE, HEALTHY, PEER, *SLOWED)


def runs(bench: Bench) -> Iterator[Run]:
    """Each contender once a round, every node held to the same share of a core."""
    shape = ClusterShape(nodes=READERS, cores=1, memory=EXECUTOR_MIB, hold=HOLD)
    with bench.folder("cluster") as folder, LocalCluster(shape, folder, bench.watchdog) as cluster:
        for number, contender in interleaved(CONTENDERS, bench.rounds):
            kind = "skewed" if contender.slowed else "even"
            workload = Workload(f"ticks-{kind}", folder, ROUNDS)
            yield measure(bench, cluster, workload, contender, number, slow_node.FACTOR)


def tables(found: Sequence[Run]) -> str:
    """Seconds and core-seconds of each, by the oracle's, and what reading by splits costs where nothing is slow."""
    ratios = {
        "times the oracle": lambda title: ratio(found, title, ORACLE.title),
        "times plain Spark, even splits": lambda title: ratio(found, title, PEER.title),
    }
    return comparison(found, (one.title for one in CONTENDERS), ratios)
