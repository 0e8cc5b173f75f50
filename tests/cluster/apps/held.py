"""No pipeline: shuffles, has nothing to do for a while, reads the shuffle again, and lets go of it.

Arguments: how many executors there are first; what ends the while, seconds or "leaves", the end of one of them.
Prints, as JSON, after each part how many tasks of the map stage have run, whether the sums are right, and how many
executors there are; at the end, how many after a while without the shuffle.
"""

import gc
import json
import sys
import time

from pyspark.sql import SparkSession

wanted, pause = int(sys.argv[1]), sys.argv[2]
maps, keys, rows, patience = 6, 7, 1000, 120.0
spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
runs = context.accumulator(0)


def counted(numbers):
    runs.add(1)
    time.sleep(3)  # so that each executor gets some
    for number in numbers:
        yield number % keys, number


def executors():
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def wait_for(seen):
    deadline = time.monotonic() + patience
    while not seen() and time.monotonic() < deadline:
        time.sleep(0.2)


def tell(word, sums):
    """The count is of before the job: it may bring executors, or others may come meanwhile."""
    count = executors()
    right = dict(sums.map(lambda pair: pair).collect()) == {key: sum(range(key, rows, keys)) for key in range(keys)}
    print(word, json.dumps({"maps": runs.value, "right": right, "executors": count}), flush=True)


if pause == "leaves":
    wait_for(lambda: executors() == wanted)
sums = context.range(0, rows, 1, maps).mapPartitions(counted).reduceByKey(lambda a, b: a + b, 3)
sums.count()
tell("shuffled", sums)
if pause == "leaves":
    wait_for(lambda: executors() < wanted)
else:
    time.sleep(float(pause))
tell("again", sums)
del sums
assert context._jvm is not None
collect = context._jvm.System.gc


def without_shuffle():
    """Spark learns from its garbage collector that nobody can read a shuffle any more."""
    gc.collect()
    collect()
    return executors() == 0 or pause == "leaves"


wait_for(without_shuffle)
print("released", executors(), flush=True)
spark.stop()
