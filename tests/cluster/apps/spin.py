"""So many tasks that compute for so many CPU-seconds each; prints where and when each ran, as JSON.

Arguments: tasks, CPU-seconds.
"""

import json
import os
import sys
import time

from pyspark import TaskContext
from pyspark.sql import SparkSession

tasks, seconds = int(sys.argv[1]), float(sys.argv[2])


def spin(index):
    context = TaskContext.get()
    assert context is not None
    began, used = time.time(), time.process_time()
    while time.process_time() - used < seconds:
        pass
    node = os.environ["SPARK_EXECUTOR_ATTRIBUTE_NODE"]
    return {"task": index, "node": node, "began": began, "ended": time.time(), "attempt": context.attemptNumber()}


spark = SparkSession.builder.getOrCreate()
wanted = int(spark.conf.get("spark.executor.instances") or 2)
tracker = spark.sparkContext._jsc.sc().statusTracker()
deadline = time.time() + 90
while len(tracker.getExecutorInfos()) - 1 < wanted and time.time() < deadline:
    time.sleep(0.2)
print("begins", time.time(), flush=True)
for ran in spark.sparkContext.parallelize(range(tasks), tasks).map(spin).collect():
    print("ran", json.dumps(ran))
print("ended", time.time(), flush=True)
spark.stop()
