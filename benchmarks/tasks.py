"""What a task costs: partitions of a few rows each, by the thousand, beside the same number of plain Spark's tasks.

    python benchmarks/tasks.py                       1,000 partitions, three rounds; six minutes
    python benchmarks/tasks.py --partitions 5000     more of them

Each contender has a Spark of its own (`local[2]`) each round, in turns. Rekindle's pipeline stores its source and
publishes a sink made of it, two tasks for each partition (and those of the shuffle that deals the source out, which are
its cost here and not counted as tasks); plain Spark passes the same rows through Python and writes Parquet, one task.
Seconds and core-seconds (driver, JVM and Python workers) are for each task; starting Spark, and twenty tasks to warm it
up, are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame, SparkSession

import rekindle
from benchmarks.bench import interleaved
from benchmarks.cpu import CpuSampler
from benchmarks.results import Spread, markdown
from rekindle.pipeline import FileSink, Pipeline

CONTENDERS = ("Rekindle", "plain Spark")
ROWS = 4


def run_once(contender: str, partitions: int) -> dict[str, float]:
    """In this process and its session: {"seconds": for each task, "core_seconds": for each task}."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if contender == "Rekindle":
        builder = rekindle.configure(builder, options={"speculation.enabled": "true"})
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        write(spark, 20, f"{folder}/warm")
        began = time.monotonic()
        with CpuSampler(os.getsid(0)) as used:
            if contender == "Rekindle":
                run_pipeline(spark, partitions, folder)
            else:
                write(spark, partitions, f"{folder}/out")
        seconds = time.monotonic() - began
    spark.stop()
    tasks = 2 * partitions if contender == "Rekindle" else partitions
    return {"seconds": seconds / tasks, "core_seconds": used.seconds / tasks}


def run_pipeline(spark: SparkSession, partitions: int, folder: str) -> None:
    pipeline = Pipeline("tasks", default_partitions=partitions)

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        """A few for each partition."""
        return spark.range(0, partitions * ROWS, 1, partitions)

    pipeline.sink(FileSink(f"{folder}/out"), pointwise=True, name="out")(lambda numbers: numbers)
    pipeline.run(spark, store=f"{folder}/store")


def write(spark: SparkSession, partitions: int, folder: str) -> None:
    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    spark.range(0, partitions * ROWS, 1, partitions).mapInArrow(same, "id long").write.parquet(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--contender", choices=CONTENDERS, help="only this one, once, and say it in JSON")
    options = parser.parse_args()
    if options.contender:
        print(json.dumps(run_once(options.contender, options.partitions)))
        return 0
    found: dict[str, list[dict[str, float]]] = {contender: [] for contender in CONTENDERS}
    for number, contender in interleaved(CONTENDERS, range(1, options.rounds + 1)):
        found[contender].append(in_a_session_of_its_own(contender, options.partitions))
        said = ", ".join(f"{1000 * value:.1f} ms" for value in found[contender][-1].values())
        print(f"   round {number}  {contender}: {said} of cores", flush=True)
    rows = [
        (contender, *(spread(runs, name) for name in ("seconds", "core_seconds"))) for contender, runs in found.items()
    ]
    print("\n" + markdown(("each task", "ms", "core-ms"), rows))
    return 0


def in_a_session_of_its_own(contender: str, partitions: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--contender", contender, "--partitions", str(partitions)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, check=True, timeout=1800, start_new_session=True
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def spread(runs: list[dict[str, float]], name: str) -> Spread:
    """In thousandths."""
    values = [1000 * run[name] for run in runs]
    return Spread(median(values), min(values), max(values), len(values))


if __name__ == "__main__":
    sys.exit(main())
