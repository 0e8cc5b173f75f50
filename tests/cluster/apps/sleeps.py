"""A pipeline of so many tasks that sleep for so many seconds each; prints, as JSON, where each was started and when,
how it ended, and what was blocked.

Arguments: tasks, seconds, the store.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

import rekindle
from rekindle.pipeline import Pipeline
from rekindle.runtime.journal import read_run
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.store import Store

tasks, seconds, store = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
spark = rekindle.configure(SparkSession.builder).getOrCreate()
scheduler = Scheduler(spark)
pipeline = Pipeline("sleeps", default_partitions=tasks)


def slept(batches):
    for batch in batches:
        time.sleep(seconds)
        yield batch


@pipeline.source(partition_by="id")
def numbers(spark):
    """Some for each task."""
    return spark.range(100 * tasks)


@pipeline.sink("out", pointwise=True)
def sleeps(numbers):
    """The same, after some time."""
    return numbers.mapInArrow(slept, "id long")


wanted = int(spark.conf.get("spark.executor.instances") or 2)
deadline = time.time() + 90
while len(scheduler.executors()) < wanted and time.time() < deadline:
    time.sleep(0.2)
pipeline.run(spark, store=store)
for stage in range(20):
    for view in scheduler._attempts(stage):
        for task in scheduler.tasks_of(view, 0):
            print("ran", json.dumps({"host": task.node, "began": task.started_at, "status": task.status}))
for record in read_run(Store.at(store)):
    if record.get("action") in ("Block", "Unblock"):
        print("action", json.dumps(record))
spark.stop()
