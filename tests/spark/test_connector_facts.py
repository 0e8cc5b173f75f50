"""A pipeline that tells the operator how far its source is read, and its sinks are committed."""

import pytest

from rekindle.api.connector_report import WireSink, WireSource
from rekindle.api.job_report import JobReport
from rekindle.api.operator_exchange import ExchangeRequest
from rekindle.local.cluster import ClusterShape, LocalCluster
from rekindle.local.watchdog import Watchdog
from tests.spark.asked_driver import Driver, until
from tests.spark.heard_driver import LISTENS, post

SPLITS = 20

# Its readers go on, and its second sink commits, when there is a file that says so. One reader fails once.
PROGRAM = (
    LISTENS
    + """
import json, os, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage,
)
import rekindle
from rekindle.pipeline import DataSourceSink, FileSink, Pipeline
from rekindle.runtime.report import build_report
from rekindle.runtime.store import Store

here = Path.cwd()
spark = rekindle.configure(SparkSession.builder, options={}).getOrCreate()

def wait_for(name):
    while not (here / name).exists():
        time.sleep(0.05)

class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "n BIGINT"

    def reader(self, schema):
        return Reader()

class Reader(DataSourceReader):
    def partitions(self):
        return [InputPartition(number) for number in range(20)]

    def read(self, partition):
        if partition.value == 3:
            wait_for("read")
            if not (here / "failed").exists():
                (here / "failed").touch()
                raise ValueError("no such luck")
        yield (partition.value,)

class Table(DataSource):
    @classmethod
    def name(cls):
        return "table"

    def writer(self, schema, overwrite):
        return Writer()

class Writer(DataSourceWriter):
    def write(self, rows):
        for row in rows:
            pass
        return WriterCommitMessage()

    def commit(self, messages):
        wait_for("commit")
        raise OSError("the table is gone")

    def abort(self, messages):
        pass

pipeline = Pipeline("ends", default_partitions=2)
pipeline.read("numbers", Numbers, partitions=2)
pipeline.sink(FileSink("out"), pointwise=True, name="files")(lambda numbers: numbers)
pipeline.sink(DataSourceSink(Table), pointwise=True, name="table")(lambda numbers: numbers)
raised = []

def run():
    try:
        pipeline.run(spark, store="store")
    except Exception as error:
        raised.append(str(error))

threading.Thread(target=run, daemon=True).start()

def report():
    found = build_report(Store.at("store", {}))
    return {name: found[name] for name in ("state", "sources", "commits", "sinks")}

questions = {"port": lambda: port, "raised": lambda: raised, "report": report}
for line in sys.stdin:
    print(json.dumps(questions[line.strip()]()), flush=True)
os._exit(0)
"""
)


@pytest.fixture
def driver(tmp_path):
    shape = ClusterShape(nodes=2, cores=1, memory=500)
    with Watchdog() as watchdog, LocalCluster(shape, tmp_path / "cluster", watchdog) as cluster:
        driver = Driver(cluster, tmp_path, PROGRAM)
        yield driver
        driver.end()


class Operator:
    """Asks the driver of its job."""

    def __init__(self, driver: Driver) -> None:
        self.port = int(driver.ask("port"))
        self.job: JobReport | None = None

    def look(self) -> bool:
        """Whether it has told of a job."""
        try:
            self.job = post(self.port, ExchangeRequest(nodes={})).job or self.job
        except OSError:  # it does not listen yet
            return False
        return self.job is not None

    @property
    def source(self) -> WireSource:
        assert self.look()
        assert self.job is not None
        return self.job.sources[0] if self.job.sources else WireSource(name="none", subtasks=0, splits=0)

    @property
    def sinks(self) -> dict[str, WireSink]:
        assert self.look()
        assert self.job is not None
        return {one.name: one for one in self.job.sinks}

    def commits(self) -> dict[str, str]:
        return {name: one.commit for name, one in self.sinks.items()}


def test_how_far_a_source_is_read_and_its_sinks_are_committed(driver, tmp_path):
    operator = Operator(driver)
    until(operator.look)
    until(lambda: operator.source.finished == SPLITS - 1)
    source = operator.source
    assert (source.kind, source.subtasks, source.splits, source.assigned) == ("numbers", 2, SPLITS, SPLITS)
    assert (source.no_more_splits, source.reread, source.concurrent_attempts) == (1, 0, True)
    assert source.most is not None
    assert source.fewest is not None
    assert source.most.splits + source.fewest.splits == SPLITS
    assert {one.commit for one in operator.sinks.values()} == {"Pending"}

    (tmp_path / "read").touch()
    until(lambda: operator.commits() == {"files": "Committed", "table": "Committing"})
    source, files = operator.source, operator.sinks["files"]
    assert (source.finished, source.no_more_splits, source.records) == (SPLITS, 2, SPLITS)
    assert source.reread >= 1, "what the reader had that failed"
    assert (files.kind, files.mode, files.written, files.records) == ("FileSink", "error", 2, SPLITS)
    assert (files.concurrent_attempts, files.reason) == (False, "speculation.enabled is false")

    (tmp_path / "commit").touch()
    until(lambda: driver.ask("raised"))
    assert "the table is gone" in driver.ask("raised")[0]
    report = driver.ask("report")
    assert [(one["stage"], one["state"]) for one in report["commits"]] == [("files", "Committed"), ("table", "Failed")]
    assert "the table is gone" in report["commits"][1]["commitReason"]
    assert [(one["splits"], one["settled"], one["rows"]) for one in report["sources"]] == [(SPLITS, SPLITS, SPLITS)]
    assert report["sources"][0]["reread"] == source.reread
    assert [one["stage"] for one in report["sinks"]] == ["files"]
