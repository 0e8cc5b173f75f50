"""No pipeline: shuffles, waits until an executor has been replaced, shuffles something else there, with which Spark
begins to look for old shuffle files, and reads the first shuffle again.

Prints, as JSON, whether the sums are right both times, and how many tasks of the map stage ran.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

maps, patience = 4, float(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
runs = context.accumulator(0)


def counted(rows):
    runs.add(1)
    for row in rows:
        yield row % 7, row


def executors():
    return set(context._jsc.sc().getExecutorMemoryStatus().keySet().mkString(",").split(","))


sums = context.range(0, 1000, 1, maps).mapPartitions(counted).reduceByKey(lambda a, b: a + b, 3)
expected = {key: sum(range(key, 1000, 7)) for key in range(7)}
first = dict(sums.collect()) == expected
before = executors()
print("shuffled", json.dumps({"maps": runs.value, "right": first}), flush=True)
deadline = time.monotonic() + patience
while not (executors() - before) and time.monotonic() < deadline:
    time.sleep(0.5)
context.range(0, 10, 1, 1).map(lambda number: (number, number)).reduceByKey(max, 1).count()
time.sleep(5)  # what recovers reads all files of the volume, and tells the driver
second = dict(sums.map(lambda pair: pair).collect()) == expected
print("again", json.dumps({"maps": runs.value, "right": second, "replaced": bool(executors() - before)}), flush=True)
spark.stop()
