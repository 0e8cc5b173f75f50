"""One run of one contender on a private cluster: a fresh session, the clock, the CPU, the answer checked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cpu import CpuSampler
from benchmarks.results import Run
from benchmarks.tpch.oracle import difference
from benchmarks.tpch.pipeline import PARTITIONS
from rekindle.local.cluster import LocalCluster
from rekindle.local.sessions import end_sessions
from rekindle.runtime.errors import RekindleError
from rekindle.runtime.report import build_report
from rekindle.runtime.store import Store

JOB = Path(__file__).with_name("job.py")
EXECUTOR_MIB = 1024
_KILLED_SECONDS = 10.0

_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": f"{EXECUTOR_MIB}m",
    "spark.executor.cores": "1",
    "spark.pyspark.python": sys.executable,
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Contender:
    """One of those that are compared.

    Attributes:
        job: `rekindle`, `by-hand`, `by-hand-lean` or `plain`.
        conf: Spark settings beside those that all have.
        options: Rekindle's, by name.
        nodes: executors, one on each node.
        slowed: whether the first node is slow while the job runs.
    """

    title: str
    job: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 3
    slowed: bool = False


@dataclass(frozen=True)
class Workload:
    """What is computed: `profits` or `scores`, from which data; `rounds` is the work of a score."""

    name: str
    data: Path
    rounds: int = 0


@dataclass(frozen=True)
class Took:
    """Seconds, and CPU seconds of the driver with its JVM, and of the nodes with master and executors."""

    seconds: float
    driver: float
    nodes: float


class JobFailed(Exception):
    """A run gave no answer."""


def measure(
    bench: Bench, cluster: LocalCluster, workload: Workload, contender: Contender, number: int, slow_factor: float = 1.0
) -> Run:
    """Run a contender once; `number` is its round. What fails is in the `Run`, never raised."""
    with bench.folder(f"{contender.job}-{number}") as folder:
        try:
            took = _run(bench, cluster, workload, contender, folder, slow_factor)
        except JobFailed as error:
            return Run(contender.title, number, error=str(error))
        finally:
            _wait_for_rest(cluster)
        wrong = difference(workload.name, workload.data, workload.rounds, folder / "out")
        details = {"driver_core_seconds": took.driver}
        if contender.job == "rekindle":
            details |= _rekindle_details(folder / "store")
        return Run(contender.title, number, took.seconds, took.driver + took.nodes, error=wrong, details=details)


def _run(
    bench: Bench, cluster: LocalCluster, workload: Workload, contender: Contender, folder: Path, slow_factor: float
) -> Took:
    """From a session that is ready to the stored answer."""
    sick = cluster.nodes[0]
    with _driver(bench, cluster, workload, contender, folder) as driver:
        _read(driver, "it was not ready")
        if contender.slowed:
            sick.slow(slow_factor)
        try:
            with CpuSampler(driver.pid) as by_driver, CpuSampler(*cluster.sessions()) as by_nodes:
                _say(driver, "go")
                seconds = float(json.loads(_read(driver, "it failed"))["seconds"])
            took = Took(seconds, by_driver.seconds, by_nodes.seconds)
        finally:
            sick.recover_speed()
        _say(driver, "end")
        with suppress(subprocess.TimeoutExpired):
            driver.wait(30)
        return took


@contextmanager
def _driver(
    bench: Bench, cluster: LocalCluster, workload: Workload, contender: Contender, folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """The program `job.py`; ended with all it started, at the deadline if not before."""
    conf = {**_CONF, "spark.cores.max": str(contender.nodes), **contender.conf}
    options = [part for name, value in contender.options.items() for part in ("--option", f"{name}={value}")]
    with open(bench.log(f"{contender.title}"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(JOB), workload.name, contender.job, "--store", str(folder / "store"), *options],
            env=_environment(cluster, workload, folder, conf),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    bench.watchdog.own("session", process.pid)
    deadline = threading.Timer(bench.deadline, end_sessions, (process.pid,))
    deadline.start()
    try:
        yield process
    finally:
        deadline.cancel()
        end_sessions(process.pid)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        bench.watchdog.done("session", process.pid)


def _environment(cluster: LocalCluster, workload: Workload, folder: Path, conf: Mapping[str, str]) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir()
    return {
        **cluster.environment(temporary, conf),
        "SPARK_LOCAL_DIRS": str(temporary),
        "TPCH_DATA": str(workload.data),
        "TPCH_OUT": str(folder / "out"),
        "TPCH_ROUNDS": str(workload.rounds),
    }


def _read(driver: subprocess.Popen[str], otherwise: str) -> str:
    assert driver.stdout is not None
    line = driver.stdout.readline()
    if not line:
        raise JobFailed(f"{otherwise}, or its deadline passed")
    return line


def _say(driver: subprocess.Popen[str], word: str) -> None:
    assert driver.stdin is not None
    try:
        driver.stdin.write(f"{word}\n")
        driver.stdin.flush()
    except BrokenPipeError:
        raise JobFailed("it ended too early, or its deadline passed") from None


def _wait_for_rest(cluster: LocalCluster, deadline: float = 60.0) -> None:
    """Wait until no executor is left, so that the next run finds free nodes; kill what is left at the deadline."""
    for seconds in (deadline, _KILLED_SECONDS):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not any(node.executor_count() for node in cluster.nodes):
                return
            time.sleep(0.2)
        for node in cluster.nodes:
            node.kill_executors()


def _rekindle_details(store: Path) -> dict[str, Any]:
    """What the pipeline's own report says of the run."""
    try:
        report = build_report(Store.at(store))
    except RekindleError as error:
        return {"report": str(error)}
    return {
        "copies": report["speculation"],
        "blocks": len(report["blocks"]),
        "stored": sum(stage["bytes"] or 0 for stage in report["stages"]),
        "stages": {stage["name"]: stage["seconds"] for stage in report["stages"]},
    }
