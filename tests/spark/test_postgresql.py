"""A PostgreSQL table as the sink of a pipeline on real executors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.local.cluster import ClusterShape, LocalCluster
from rekindle.local.watchdog import Watchdog
from tests.postgres import PASSWORD, Server, server
from tests.spark.asked_driver import Driver

# A driver that runs a pipeline for each question: `plain`, `fails` (a task, once, in the midst of its rows), `waits`
# (the first attempt of a task, until its copy has made the partition).
PROGRAM = """
import glob, json, os, sys, time
import rekindle
from pyspark import TaskContext
from pyspark.sql import SparkSession
from rekindle.connectors.postgresql import Postgresql
from rekindle.pipeline import DataSourceSink, Pipeline

URL, PASSWORD, FOLDER = sys.stdin.readline().split()
OPTIONS = {
    "speculation.enabled": "true",
    "speculation.sinkEnabled": "true",
    "speculation.baselineLowerBound": "1s",
    "speculation.baselineRatio": "0.5",
}
spark = rekindle.configure(SparkSession.builder, options=OPTIONS).getOrCreate()

def is_first(name):
    try:
        os.close(os.open(f"{FOLDER}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def disturbed(trouble):
    def rows(batches):
        for batch in batches:
            for n in range(batch.num_rows):
                yield batch.slice(n, 1)
            if 4 in batch.column("n").to_pylist():
                first = trouble != "plain" and is_first(trouble)
                if first and trouble == "fails":
                    raise OSError("the disk is broken")
                partition = TaskContext.get().partitionId()
                for _ in range(1200 if first else 0):
                    if glob.glob(f"{FOLDER}/store/**/out/manifests/p{partition:05d}-*.json", recursive=True):
                        break
                    time.sleep(0.1)
    return rows

def pipeline(trouble):
    made = Pipeline("shop")
    sink = DataSourceSink(Postgresql, {"url": URL, "password": PASSWORD, "table": "totals"})

    @made.source(partitions=3)
    def some(spark):
        return spark.range(10).withColumnRenamed("id", "n")

    @made.sink(sink, pointwise=True)  # its function runs in the task that writes
    def out(some):
        return some.mapInArrow(disturbed(trouble), "n long")

    return made

for line in sys.stdin:
    result = pipeline(line.strip()).run(spark, store=f"{FOLDER}/store")
    (out,) = [stage for stage in result.report["stages"] if stage["name"] == "out"]
    print(json.dumps(out), flush=True)
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with Watchdog() as watchdog, LocalCluster(ClusterShape(nodes=2, cores=2, memory=700), folder, watchdog) as cluster:
        yield cluster


@pytest.fixture
def driver(cluster: LocalCluster, postgres: Server, tmp_path: Path) -> Iterator[Driver]:
    postgres.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    driver = Driver(cluster, tmp_path, PROGRAM)
    assert driver.process.stdin is not None
    driver.process.stdin.write(f"{postgres.uri(password=None)} {PASSWORD} {tmp_path}\n")
    yield driver
    driver.end()


def rows(postgres: Server) -> list[int]:
    return [n for (n,) in postgres.execute("SELECT n FROM totals ORDER BY n")]


def is_tidy(postgres: Server) -> bool:
    return postgres.execute("SELECT relname::text FROM pg_stat_user_tables ORDER BY 1") == [
        ("rekindle_commits",),
        ("totals",),
    ]


def files_with(secret: str, folder: Path) -> list[Any]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.mark.requirement("S5-8")
def test_each_run_appends_its_rows_once_and_a_task_that_failed_half_way_adds_none(driver, postgres, tmp_path):
    driver.ask("fails")
    assert (tmp_path / "fails").exists()
    assert rows(postgres) == list(range(10))
    driver.ask("plain")
    assert rows(postgres) == sorted([*range(10), *range(10)])
    assert is_tidy(postgres)
    assert files_with("postgresql://", tmp_path / "store") == []
    assert files_with(PASSWORD, tmp_path) == []


@pytest.mark.requirement("S5-7", "S5-8")
def test_of_two_attempts_that_write_at_once_one_is_in_the_table(driver, postgres):
    out = driver.ask("waits")
    assert out["speculativeEffective"] == 1
    assert rows(postgres) == list(range(10))
    driver.ask("plain")
    assert rows(postgres) == sorted([*range(10), *range(10)])
    assert is_tidy(postgres), "whenever the first attempt was ended"
