"""The core's procedures that `scheduler.py` measures, each as Flink's benchmark of the same name has it.

    procedures.py PROCEDURE PARALLELISM TIMES

It prints a line for each time: nanoseconds, and how many tasks the answer names (0 where there is no answer). The
first is the cold one. The job has two vertices of that parallelism and an all-to-all, BLOCKING exchange.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.failover import RestartPipelinedRegionStrategy
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_graph import JobEdge, JobGraph, JobVertex
from rekindle.core.options import (
    BlocklistOptions,
    FailoverOptions,
    FailoverStrategyKind,
    SlowTaskDetectorOptions,
    SpeculationOptions,
)
from rekindle.core.regions import in_order
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector

SHARE_FINISHED = 0.8
SOURCE, SINK = "source", "sink"

Call = Callable[[], int]


def new_graph(parallelism: int, kind: FailoverStrategyKind = FailoverStrategyKind.REGION) -> ExecutionGraph:
    vertices = (JobVertex(SOURCE, parallelism), JobVertex(SINK, parallelism))
    return ExecutionGraph(
        JobGraph("benchmark", vertices, (JobEdge(SOURCE, SINK),)),
        speculation=SpeculationOptions(),
        failover=FailoverOptions(strategy=kind),
        blocklist=BlocklistOptions(),
    )


def submitted(parallelism: int, kind: FailoverStrategyKind = FailoverStrategyKind.REGION) -> ExecutionGraph:
    graph = new_graph(parallelism, kind)
    graph.handle(ev.JobSubmitted(), 0.0)
    return graph


def attempt(vertex: str, subtask: int) -> ExecutionAttemptID:
    return ExecutionAttemptID(ExecutionVertexID(vertex, subtask), 0)


def run(graph: ExecutionGraph, vertex: str, subtasks: range) -> None:
    for subtask in subtasks:
        graph.handle(ev.AttemptDeployed(attempt(vertex, subtask), f"node-{subtask % 100}", 0.0, 1024), 0.0)


def finish(graph: ExecutionGraph, vertex: str, subtasks: range) -> None:
    tasks = graph.execution_vertices(vertex)
    for subtask in subtasks:
        attempt_id = tasks[subtask].representative.attempt_id
        graph.handle(ev.AttemptFinished(attempt_id, 1.0 + subtask / 1e6, ev.PartitionOutput(1, 1)), 1.0)


def tasks_to_restart(parallelism: int) -> Call:
    """A finished producer fails, with all consumers running."""
    graph = submitted(parallelism)
    finish(graph, SOURCE, range(parallelism))
    strategy = graph.failover_strategy
    assert isinstance(strategy, RestartPipelinedRegionStrategy)
    return lambda: len(in_order(graph.job_graph, strategy.reach({SOURCE: {0}}).restart))


def slow_tasks(parallelism: int, lower_bound: float) -> Call:
    """A look at all tasks when four of five of one vertex have finished."""
    graph = submitted(parallelism)
    run(graph, SOURCE, range(parallelism))
    finish(graph, SOURCE, range(int(parallelism * SHARE_FINISHED)))
    options = SlowTaskDetectorOptions(baseline_lower_bound=lower_bound, baseline_multiplier=1.0)
    detector = ExecutionTimeBasedSlowTaskDetector(options)
    return lambda: len(detector.find_slow(graph, 10.0).slow)


def partition_release(parallelism: int) -> Call:
    """All consumers finish, one after the other; with the last, what they read is released."""
    graph = submitted(parallelism)
    finish(graph, SOURCE, range(parallelism))
    run(graph, SINK, range(parallelism))

    def finish_all() -> int:
        finish(graph, SINK, range(parallelism))
        return 0

    return finish_all


def build(parallelism: int) -> Call:
    """The execution graph from the job graph."""

    def build_it() -> int:
        new_graph(parallelism)
        return 0

    return build_it


def restart_all(parallelism: int) -> Call:
    """One task fails, and all are cancelled, reset and deployed again."""
    graph = submitted(parallelism, FailoverStrategyKind.RESTART_ALL)
    run(graph, SOURCE, range(parallelism))
    failure = ev.AttemptFailed(attempt(SOURCE, 0), ev.FailureCause(ev.FailureKind.TASK, "for test"))

    def fail() -> int:
        told = graph.handle(failure, 1.0)
        assert {type(one) for one in told} == {act.Cancel, act.Restart, act.Deploy}
        return 0

    return fail


PROCEDURES: dict[str, Callable[[int], Call]] = {
    "restart": tasks_to_restart,
    "detect": lambda parallelism: slow_tasks(parallelism, lower_bound=86400.0),
    "detect-slow": lambda parallelism: slow_tasks(parallelism, lower_bound=0.0),
    "release": partition_release,
    "build": build,
    "restart-all": restart_all,
}
UNCHANGING = ("restart", "detect", "detect-slow")
"""Called again on the same job; the others get a new one each time."""


def bytes_of_a_task(parallelism: int) -> float:
    """What the graph of a job that has run holds for each of its tasks, its own result partition included."""
    gc.collect()
    tracemalloc.start()
    graph = submitted(parallelism)
    for vertex in (SOURCE, SINK):
        run(graph, vertex, range(parallelism))
        finish(graph, vertex, range(parallelism))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / (2 * parallelism)


def main() -> int:
    name, parallelism, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if name == "memory":
        print(f"{bytes_of_a_task(parallelism):.0f} 0")
        return 0
    prepare = cache(PROCEDURES[name]) if name in UNCHANGING else PROCEDURES[name]
    for _ in range(times):
        call = prepare(parallelism)
        gc.collect()  # of what the preparation has left
        start = time.perf_counter_ns()
        named = call()
        print(time.perf_counter_ns() - start, named)
    return 0


if __name__ == "__main__":
    sys.exit(main())
