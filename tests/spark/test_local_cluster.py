"""The private cluster: real masters, Workers and executors, and what can be done to nodes."""

from pathlib import Path

import psutil
import pytest

from rekindle.local.cluster import ClusterShape, LocalCluster
from rekindle.local.node import Node
from rekindle.local.sessions import session_pids
from rekindle.local.watchdog import Watchdog
from tests.spark.asked_driver import Driver, until

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]

# A driver that answers requests: `hosts` are the executors'; `work SECONDS` has each executor count so long.
DRIVER = """
import json, sys, time
from pyspark.sql import SparkSession

def count(seconds):
    import os, time
    end, turns = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turns += 1
    return os.environ["SPARK_LOCAL_IP"], turns

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
for line in sys.stdin:
    what, *more = line.split()
    if what == "hosts":
        found = sc._jsc.sc().statusStore().executorList(True)
        executors = [found.apply(i) for i in range(found.size())]
        answer = sorted(e.hostPort().split(":")[0] for e in executors if e.id() != "driver")
    else:
        seconds = float(more[0])
        answer = sc.parallelize(range(3), 3).map(lambda _: count(seconds)).collect()
    print(json.dumps(answer), flush=True)
"""


class Counting(Driver):
    def __init__(self, cluster: LocalCluster, folder: Path):
        super().__init__(cluster, folder, DRIVER)

    def wait_for_hosts(self, hosts):
        until(lambda: self.ask("hosts") == sorted(hosts))

    def work(self, seconds: float) -> dict[str, int]:
        """Turns of a counting loop by node; every node has taken part."""
        for _ in range(20):
            turns = dict(self.ask(f"work {seconds}"))
            if len(turns) == 3:
                return turns
        raise AssertionError("the tasks never ran on three nodes")


def running(node: Node) -> list[int]:
    return [pid for pid in node.pids() if psutil.Process(pid).status() != psutil.STATUS_STOPPED]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    shape = ClusterShape(nodes=3, cores=1, memory=500)
    with Watchdog() as watchdog, LocalCluster(shape, folder, watchdog) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    driver = Counting(cluster, folder)
    driver.wait_for_hosts(HOSTS)
    yield driver
    driver.end()


def test_every_node_is_a_host_of_its_own(driver):
    assert set(driver.work(0.1)) == set(HOSTS)


def test_a_slow_node_does_less_work_and_then_as_much_again(cluster, driver):
    """Turns of the same loop in the same time: a ratio, so a busy machine changes nothing but its noise."""
    driver.work(0.5)
    cluster.node("127.0.0.3").slow(0.05)
    slowed = driver.work(4)
    cluster.node("127.0.0.3").recover_speed()
    recovered = driver.work(4)
    healthy = min(slowed["127.0.0.2"], slowed["127.0.0.4"])
    assert slowed["127.0.0.3"] < 0.5 * healthy
    assert recovered["127.0.0.3"] > 0.5 * min(recovered["127.0.0.2"], recovered["127.0.0.4"])


def test_a_hung_executor_is_stopped_and_its_worker_is_not(cluster, driver):
    node = cluster.node("127.0.0.2")
    assert node.hang_executors() == 1
    try:
        until(lambda: running(node) == [node.sessions()[0]])
        assert node.executor_count() == 1
    finally:
        node.resume_executors()
    assert set(driver.work(0.1)) == set(HOSTS)


def test_a_killed_executor_is_replaced_by_the_master(cluster, driver):
    node = cluster.node("127.0.0.4")
    before = node.pids()
    assert node.kill_executors() == 1
    until(lambda: node.executor_count() == 1 and set(node.pids()) != set(before))
    driver.wait_for_hosts(HOSTS)


def test_a_killed_node_is_gone_with_its_disk_and_comes_back_empty(cluster, driver):
    node = cluster.node("127.0.0.3")
    sessions, disk = node.sessions(), node.folder / "local"
    assert list(disk.rglob("blockmgr-*"))
    node.kill()
    assert session_pids(*sessions) == []
    assert not disk.exists()
    assert not node.alive
    driver.wait_for_hosts(["127.0.0.2", "127.0.0.4"])
    node.restart()
    driver.wait_for_hosts(HOSTS)
    assert set(driver.work(0.1)) == set(HOSTS)


def test_another_cluster_can_be_up_at_once_with_its_own_secret(cluster, tmp_path):
    shape = ClusterShape(nodes=1, cores=1, memory=500)
    with Watchdog() as watchdog, LocalCluster(shape, tmp_path / "other", watchdog) as other:
        assert other.master_url != cluster.master_url
        assert other.nodes[0].host == cluster.nodes[0].host
        assert other.properties.read_text() != cluster.properties.read_text()
        sessions = other.sessions()
        throttle = other.nodes[0].throttle
    assert session_pids(*sessions) == []
    assert not getattr(throttle, "folder", Path("/nowhere")).exists()
    assert cluster.nodes[0].alive
