"""So many tasks of so many steps each: `equal_tasks.py TASKS STEPS MOMENT`. The answer is the sum of what they find."""

import sys

from pyspark.sql import SparkSession

from benchmarks.on_kubernetes.apps.measured import measure
from benchmarks.on_kubernetes.apps.work import burn


def job(spark: SparkSession) -> int:
    found = spark.sparkContext.parallelize(range(tasks), tasks).map(lambda task: burn(steps, task)).collect()
    return sum(found)


if __name__ == "__main__":
    tasks, steps = int(sys.argv[1]), int(sys.argv[2])
    measure(job, sys.argv[3])
