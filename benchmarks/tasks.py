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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from benchmarks.bench import interleaved

CONTENDERS = ("Rekindle", "plain Spark")
ROWS = 4


def run_once(contender: str, partitions: int) -> dict[str, float]:
    """In this process: {"seconds": for each task, "core_seconds": for each task}."""
    from pyspark.sql import DataFrame, SparkSession

    import rekindle
    from rekindle.pipeline import FileSink, Pipeline

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if contender == "Rekindle":
        builder = rekindle.configure(builder, options={"speculation.enabled": "true"})
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    with tempfile.TemporaryDirectory() as folder:
        spark.range(0, 20 * ROWS, 1, 20).mapInArrow(same, "id long").write.parquet(f"{folder}/warm")
        began, used = time.monotonic(), _cpu()
        if contender == "Rekindle":
            pipeline = Pipeline("tasks", default_partitions=partitions)

            @pipeline.source
            def numbers(spark: SparkSession) -> DataFrame:
                """A few for each partition."""
                return spark.range(0, partitions * ROWS, 1, partitions)

            pipeline.sink(FileSink(f"{folder}/out"), pointwise=True, name="out")(lambda numbers: numbers)
            pipeline.run(spark, store=f"{folder}/store")
            tasks = 2 * partitions
        else:
            frame = spark.range(0, partitions * ROWS, 1, partitions).mapInArrow(same, "id long")
            frame.write.parquet(f"{folder}/out")
            tasks = partitions
        took = {"seconds": (time.monotonic() - began) / tasks, "core_seconds": (_cpu() - used) / tasks}
    spark.stop()
    return took


def _cpu() -> float:
    """Core-seconds of this process and all it has started, as far as they live."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(one.user + one.system for one in times)


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
        command = [sys.executable, __file__, "--contender", contender, "--partitions", str(options.partitions)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=1800)
        found[contender].append(json.loads(done.stdout.splitlines()[-1]))
        said = {name: f"{1000 * value:.1f} ms" for name, value in found[contender][-1].items()}
        print(f"   round {number}  {contender}: {said}", flush=True)
    print("\n| each task, ms | seconds | core-seconds |\n| --- | ---: | ---: |")
    for contender, runs in found.items():
        cells = [_cell([1000 * run[name] for run in runs]) for name in ("seconds", "core_seconds")]
        print(f"| {contender} | {' | '.join(cells)} |")
    return 0


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} – {max(values):.1f})"


if __name__ == "__main__":
    sys.exit(main())
