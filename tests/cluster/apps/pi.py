"""Counts to a number with executors, slowly if told: `pi.py NUMBER [SECONDS_OF_EACH_TASK] [TASKS]`."""

import sys
import time

from pyspark.sql import SparkSession

number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
tasks = int(sys.argv[3]) if len(sys.argv) > 3 else 4

spark = SparkSession.builder.getOrCreate()


def count(numbers):
    time.sleep(seconds)
    yield sum(1 for _ in numbers)


total = sum(spark.sparkContext.parallelize(range(number), tasks).mapPartitions(count).collect())
print(f"counted {total}", flush=True)
spark.stop()
