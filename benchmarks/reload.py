"""What it takes to know again where a job was, and to plan for a lost driver, at 10,000 by 10,000 tasks and beyond.

    python benchmarks/reload.py             three rounds
    python benchmarks/reload.py --rounds 9

The job has two vertices with an all-to-all, BLOCKING exchange, and a sink. All partitions of the first are stored, and
half of the second, in every other place; for `told` and `planned` only the first 2,000 of the second are so, as no more
ranges are told. No Spark and no cluster:

    told       the job master's inventory, as the operator hears it: parsed, checked, and written for the status
    planned    the operator's plan for a lost driver, from what the status has: its text is read, a graph is made of it,
               and backtracking runs
    replayed   the next driver is where the last one was, by the journal: its segments' text is parsed, and every event
               handled

Each is done once in a new process, as operator and driver do it, and timed there; the table has medians and ranges of
milliseconds. Results go to .build/bench/reload.json, in milliseconds too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.on_kubernetes.command_line import positive
from benchmarks.procedures import attempt
from benchmarks.results import ResultsFile, Run, markdown, spread
from rekindle.api.application_status import RecoveryStatus
from rekindle.api.job_report import JobReport, job_report
from rekindle.api.settings import RekindleSettings
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.controller.recovery.planning import job_of, planned
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.job_graph import JobEdge, JobGraph, JobVertex
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.runtime.facts import fold

SIZES = (10_000, 50_000)
"""Tasks of each of the two vertices; an operator takes no job of more than 100,000 subtasks."""

_FOLDER = Path(__file__).resolve().parents[1] / ".build" / "bench"
_PROCESS_SECONDS = 300.0
_A_DIGEST = "8-1b5f-9cc3"


def new_graph(parallelism: int) -> ExecutionGraph:
    """Nothing has begun."""
    vertices = (JobVertex("made", parallelism), JobVertex("read", parallelism - 1), JobVertex("sink", 1))
    edges = (JobEdge("made", "read"), JobEdge("read", "sink"))
    return ExecutionGraph(
        JobGraph("reload", vertices, edges),
        speculation=SpeculationOptions(),
        failover=FailoverOptions(),
        blocklist=BlocklistOptions(),
    )


def history(parallelism: int) -> list[ev.Event]:
    """All of the first vertex is stored, and every other partition of the second."""
    return [ev.JobSubmitted(), *ran("made", range(parallelism)), *ran("read", range(0, parallelism - 1, 2))]


def ran(vertex: str, subtasks: range) -> Iterator[ev.Event]:
    """They begin and end, one after the other."""
    for subtask in subtasks:
        yield ev.AttemptDeployed(attempt(vertex, subtask), f"node-{subtask % 100}", 1.0, 4096)
        yield ev.AttemptFinished(attempt(vertex, subtask), 2.0, ev.PartitionOutput(100, 4096, _A_DIGEST))


def report_of(parallelism: int) -> JobReport:
    """What the job master tells. It tells no more than 3,000 ranges: of the second vertex the first are apart."""
    graph = new_graph(parallelism)
    most_apart = 1000
    for event in (*history(parallelism), *ran("read", range(2 * most_apart + 1, parallelism - 1, 2))):
        graph.handle(event, 1.0)
    report = job_report(graph.job_graph, graph.inventory(), {"made": 1.0, "read": 1.0})
    assert report is not None
    return report


def told(parallelism: int) -> Callable[[], object]:
    text = report_of(parallelism).model_dump_json(by_alias=True)
    return lambda: json.dumps(facts_of(JobReport.model_validate_json(text)).job)


def plan(parallelism: int) -> Callable[[], object]:
    text = json.dumps(facts_of(report_of(parallelism)).job)
    options = RekindleSettings().to_core()

    def it() -> object:
        job = job_of(RecoveryStatus(job=json.loads(text)))
        assert job is not None
        return planned(job, options, 2, "a lost driver", 9.0)

    return it


def replayed(parallelism: int) -> Callable[[], object]:
    lines = [json.dumps({"t": 1.0, "kind": "event", "event": ev.to_record(event)}) for event in history(parallelism)]
    text, graph = "\n".join(lines), new_graph(parallelism)

    def it() -> object:
        for event, now in fold(map(json.loads, text.splitlines())).events:
            graph.handle(event, now)
        return graph

    return it


PROCEDURES = {"told": told, "planned": plan, "replayed": replayed}


def once(name: str, parallelism: int) -> float:
    """Milliseconds, of a process that does nothing else."""
    do = PROCEDURES[name](parallelism)
    began = time.perf_counter()
    if do() is None:
        raise SystemExit(f"{name} at {parallelism} has no answer")
    return (time.perf_counter() - began) * 1e3


def measure(rounds: int) -> list[Run]:
    """All of them in turns; saved as soon as they are there."""
    found: list[Run] = []
    results = ResultsFile(_FOLDER / "reload.json")
    for number in range(1, rounds + 1):
        for size in SIZES:
            for name in PROCEDURES:
                command = [sys.executable, __file__, "--once", name, str(size)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_PROCESS_SECONDS, check=True)
                found.append(Run(f"{name} {size}", number, float(done.stdout)))
                results.save("reload", {"cores": os.cpu_count()}, found)
                print(f"round {number}  {name} at {size:,}: {found[-1].seconds:.0f} ms", flush=True)
    return found


def table(found: Sequence[Run]) -> str:
    """A line for each procedure, a column for each size."""
    rows = [(name, *(spread(found, f"{name} {size}") for size in SIZES)) for name in PROCEDURES]
    return markdown(("milliseconds", *(f"2 x {size:,} tasks" for size in SIZES)), rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=3, help="how often each is done (default: %(default)s)")
    parser.add_argument("--once", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(once(options.once[0], int(options.once[1])))
        return 0
    print(f"\n{table(measure(options.rounds))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
