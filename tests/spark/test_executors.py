"""What the job master asks of executors that hold map outputs."""

import pytest

from rekindle.local.cluster import ClusterShape, LocalCluster
from rekindle.local.watchdog import Watchdog
from tests.spark.asked_driver import Driver, until

# A driver with a finished shuffle of six map outputs, two on each of three executors.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import rekindle
from rekindle.runtime.spark_plan import shuffle_ids, shuffles_of
from rekindle.runtime.scheduler import Scheduler

spark = rekindle.configure(SparkSession.builder, options={"speculation.enabled": "true"}).getOrCreate()
scheduler = Scheduler(spark)
shuffled = spark.sparkContext.parallelize([(n, n) for n in range(600)], 6).partitionBy(6)
map_side = lambda: shuffle_ids(shuffles_of(shuffled._jrdd.rdd()))
questions = {
    "executors": lambda: scheduler.executors(),
    "shuffle": lambda: shuffled.count(),
    "holders": lambda: [output and output[1] for output in scheduler.map_outputs(map_side()[0])],
    "silent": lambda: sorted(scheduler.silent(scheduler.executors(), 3.0)),
    "decommission": lambda executor: scheduler.decommission(executor, "a test"),
    "sum": lambda: shuffled.values().sum(),
}
for line in sys.stdin:
    name, *arguments = line.split()
    print(json.dumps(questions[name](*arguments)), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with Watchdog() as watchdog, LocalCluster(ClusterShape(nodes=3, cores=1, memory=500), folder, watchdog) as cluster:
        yield cluster


@pytest.fixture
def driver(cluster, tmp_path):
    driver = Driver(cluster, tmp_path, PROGRAM)
    until(lambda: len(driver.ask("executors")) == 3)
    assert driver.ask("shuffle") == 600
    yield driver
    driver.end()


def test_a_hung_executor_is_the_silent_one(cluster, driver):
    (hung,) = (name for name, node in driver.ask("executors").items() if node == cluster.nodes[1].host)
    assert driver.ask("silent") == []
    cluster.nodes[1].hang_executors()
    try:
        assert driver.ask("silent") == [hung]
    finally:
        cluster.nodes[1].resume_executors()


def test_a_decommissioned_executor_hands_its_map_outputs_on_and_ends(driver):
    leaving = driver.ask("holders")[0]
    assert driver.ask(f"decommission {leaving}") is True
    until(lambda: leaving not in driver.ask("executors"))
    holders = driver.ask("holders")
    assert leaving not in holders
    assert None not in holders
    assert driver.ask("sum") == sum(range(600))
