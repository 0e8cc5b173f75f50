"""A pipeline that hears from the operator which nodes are blocked."""

import time

import pytest

from rekindle.api.operator_exchange import ExchangeRequest, WireBlock
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.local.cluster import ClusterShape, LocalCluster
from rekindle.local.watchdog import Watchdog
from tests.spark.asked_driver import Driver, until
from tests.spark.heard_driver import LISTENS, post

# A driver that runs a pipeline of many short tasks, and tells where Spark has started tasks.
PROGRAM = (
    LISTENS
    + """
import json, os, sys, threading, time
from pyspark.sql import SparkSession
import rekindle
from rekindle.pipeline import Pipeline
from rekindle.runtime.journal import read_run
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.store import Store

options = {"speculation.enabled": "true", "speculation.blockSlowNodeDuration": "10min"}
spark = rekindle.configure(SparkSession.builder, options=options).getOrCreate()
scheduler = Scheduler(spark)

def slept(batches):
    for batch in batches:
        time.sleep(0.3)
        yield batch

pipeline = Pipeline("sleeps", default_partitions=300)

@pipeline.source(partition_by="id")
def numbers(spark):
    return spark.range(10000)

@pipeline.sink("out", pointwise=True)
def sleeps(numbers):
    return numbers.mapInArrow(slept, "id long")

def starts():
    views = [view for stage in range(20) for view in scheduler._attempts(stage)]
    return [(task.node, task.started_at) for view in views for task in scheduler.tasks_of(view, 0)]

threading.Thread(target=pipeline.run, args=(spark,), kwargs={"store": "store"}, daemon=True).start()
def blocks():
    return [one for one in read_run(Store.at("store", {})) if one.get("action") in ("Block", "Unblock", "BlockRefused")]

questions = {
    "blocks": blocks,
    "port": lambda: port,
    "executors": scheduler.executors,
    "starts": starts,
    "excluded": lambda: sorted(scheduler.excluded()),
    "time": time.time,
}
for line in sys.stdin:
    print(json.dumps(questions[line.strip()]()), flush=True)
os._exit(0)
"""
)


@pytest.fixture
def driver(tmp_path):
    shape = ClusterShape(nodes=3, cores=1, memory=500)
    with Watchdog() as watchdog, LocalCluster(shape, tmp_path / "cluster", watchdog) as cluster:
        driver = Driver(cluster, tmp_path, PROGRAM)
        yield driver
        driver.end()


def started_after(driver: Driver, moment: float) -> list[str]:
    return [host for host, started_at in driver.ask("starts") if started_at > moment]


@pytest.mark.requirement("S3-3", "S3-4", "S3-14")
def test_a_node_that_the_operator_blocks_gets_no_task_until_it_is_unblocked(driver):
    until(lambda: len({host for host, _ in driver.ask("starts")}) == 3)
    executors, port = driver.ask("executors"), driver.ask("port")
    nodes = {executor: f"node-{executor}" for executor in executors}
    blocked = min(executors)
    block = WireBlock(node=nodes[blocked], end=time.time() + 3600, cause="a person")
    post(port, ExchangeRequest(blocks=(block,), nodes=nodes))

    until(lambda: driver.ask("excluded") == [blocked])
    since = driver.ask("time")
    until(lambda: len(started_after(driver, since)) >= 10)
    assert executors[blocked] not in started_after(driver, since)
    answer = post(port, ExchangeRequest(blocks=(block,), nodes=nodes))
    assert (answer.wishes, answer.excludes) == ((), True)
    assert answer.job is not None
    stages = facts_of(answer.job).stages
    assert [(one.name, one.partitions) for one in stages] == [("numbers.map", 1), ("numbers", 300), ("sleeps", 300)]
    assert sum(one.finished + one.running for one in stages) >= 10

    post(port, ExchangeRequest(blocks=(), nodes=nodes))
    until(lambda: executors[blocked] in started_after(driver, since))
    assert driver.ask("excluded") == []
    told = [(one["action"], one["node"]) for one in driver.ask("blocks")]
    assert told == [("Block", nodes[blocked]), ("Unblock", nodes[blocked])]
