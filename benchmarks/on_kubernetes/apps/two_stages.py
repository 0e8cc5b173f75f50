"""A map stage, a shuffle and a reduce stage: `two_stages.py TASKS STEPS MOMENT`, the tasks and steps of each stage.

Each task of the first writes something for each of the second, random bytes that do not get smaller; the answer is
the sum of what the second finds.
"""

import sys
from collections.abc import Iterable, Iterator
from random import Random

from pyspark.sql import SparkSession

from benchmarks.on_kubernetes.apps.measured import measure
from benchmarks.on_kubernetes.apps.work import burn

PADDING = 20_000
"""Bytes from each task for each other."""

Row = tuple[int, tuple[int, bytes]]


def job(spark: SparkSession) -> int:
    written = spark.sparkContext.parallelize(range(tasks), tasks).flatMap(rows_of)
    return sum(written.partitionBy(tasks, int).mapPartitions(found_in).collect())


def rows_of(task: int) -> list[Row]:
    value, padding = burn(steps, task), Random(task).randbytes(PADDING)
    return [(reader, (value + reader, padding)) for reader in range(tasks)]


def found_in(rows: Iterable[Row]) -> Iterator[int]:
    yield burn(steps, sum(value + len(padding) for _, (value, padding) in rows))


if __name__ == "__main__":
    tasks, steps = int(sys.argv[1]), int(sys.argv[2])
    measure(job, sys.argv[3])
