"""Uses more than it may have: `eat.py memory` in the driver, `eat.py executor` in an executor, `eat.py disk`."""

import os
import sys
import time

from pyspark.sql import SparkSession

MEGABYTE = 1 << 20


def eat_memory(_=None):
    eaten = []
    for _ in range(4000):
        eaten.append(os.urandom(MEGABYTE))
        time.sleep(0.002)
    return [len(eaten)]


def eat_disk():
    with open("/small/file", "wb") as file:
        for _ in range(64):
            file.write(os.urandom(MEGABYTE))
    time.sleep(300)


what = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
if what == "memory":
    eat_memory()
elif what == "executor":
    spark.sparkContext.parallelize(range(1), 1).mapPartitions(eat_memory).collect()
elif what == "disk":
    eat_disk()
spark.stop()
