"""A store in a bucket of a real S3 server: the contract of every store, words for what can go wrong, and runs that
give the same answers and save the same work as with a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.pipeline import Pipeline
from rekindle.runtime.errors import EnvironmentProblem, StoreRefused
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.manifest import StoredFile
from rekindle.runtime.store import Store
from tests.faults.harness import Application, chain_is_right
from tests.tools.bucket import Server, bucket_server, missing
from tests.tools.connector import CONNECTOR
from tests.unit.runtime.store_contract import StoreContract

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bucket_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def store(server: Server, tmp_path: Path) -> Store:
    return Store.at(server.place(f"a/{tmp_path.name}"), server.spark_conf)


class TestBucket(StoreContract):
    """The contract, kept by a bucket."""


def test_a_client_that_sends_a_put_again_takes_its_own_object_for_its_own(store):
    """The answer to the first one may have been lost."""
    assert store.put_if_absent("journal/1", b'{"writer": "me"}')
    assert store.put_if_absent("journal/1", b'{"writer": "me"}')
    assert not store.put_if_absent("journal/1", b'{"writer": "you"}')


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"spark.hadoop.fs.s3a.secret.key": "wrong"}, "SignatureDoesNotMatch"),
        ({"spark.hadoop.fs.s3a.access.key": "nobody"}, "No user exists"),
    ],
)
def test_keys_that_do_not_fit_are_said_in_a_line(server, changed, words):
    stranger = Store.at(server.place("x"), {**server.spark_conf, **changed})
    with pytest.raises(
        StoreRefused, match=rf"^cannot use the store s3://stores/x: .*{words}[^\n]*\n-> recovery\.store"
    ):
        stranger.prepare()


def test_a_bucket_that_is_not_there_is_said(server):
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        Store.at("s3://nobody-s/x", server.spark_conf).names("runs")
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        Store.at("s3://nobody-s/x", server.spark_conf).get("rekindle.json")


def test_a_bucket_that_cannot_be_asked_says_nothing_about_a_partition(store, server):
    file = StoredFile("data/part.csv", 5)
    assert "is not there" in (file.damage(store.storage) or "")
    stranger = Store.at(store.location, {**server.spark_conf, "spark.hadoop.fs.s3a.secret.key": "wrong"})
    with pytest.raises(ConnectionError):
        file.damage(stranger.storage)
    store.put_if_absent("data/part.csv", b"12345")
    assert file.damage(store.storage) is None


def chain(folder: Path, server: Server, seconds: str = "1.0", **more: object) -> Application:
    spec = {"hadoopConf": server.hadoop_conf, "deps": CONNECTOR, **more}
    place = server.place(folder.name)
    return Application(folder, "chain.py", seconds, "sleep", "8", volumes=2, place=place, more=spec)


@contextmanager
def started(application: Application) -> Iterator[subprocess.Popen[str]]:
    """`rekindle run`, which is ended with the block if it has not ended."""
    running = subprocess.Popen(application.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
            running.communicate(timeout=60)


def wait_for_partitions(application: Application, server: Server, stage: str, count: int) -> None:
    """Return when that many partitions of a stage are stored."""
    store = Store.at(application.place, server.spark_conf)
    deadline = time.monotonic() + 150
    while len(store.names(RunLayout(1).manifests(stage))) < count:
        assert time.monotonic() < deadline, f"{stage} has no {count} partitions yet"
        time.sleep(0.1)


@pytest.mark.requirement("S7-2", "S7-3", "S7-13", "S7-14", "S7-21")
def test_what_a_bucket_holds_outlives_the_driver_and_what_is_lost_or_corrupt_is_made_again(
    tmp_path: Path, server: Server
):
    application = chain(tmp_path, server)
    faults = [
        "corrupt-partition:stage=numbers,partition=7@stage=worked",
        "kill-driver@stage=worked,fraction=0.4",
        "lose-partition:stage=worked,partition=3@stage=doubled",
    ]
    outcome = application.run(*faults)
    assert outcome.code == 0, outcome.err
    assert chain_is_right(application)
    assert outcome.report["drivers"] == 2
    assert outcome.restarted()["worked"] <= 7
    assert 1 <= outcome.restarted()["numbers"] <= 8
    assert [fault["fault"] for fault in outcome.report["launcher"]["chaos"]] == faults
    told = subprocess.run(
        [sys.executable, "-m", "rekindle.cli", "inspect", application.place],
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "run 1: finished" in told
    left = Store.at(application.place, server.spark_conf)
    assert left.names("volume-0/runs/0001/data") == left.names("volume-1/runs/0001/data") == []


def test_a_server_that_comes_back_costs_time_and_one_that_is_gone_ends_the_run_and_the_next_one_goes_on(
    tmp_path: Path,
):
    place = tmp_path / "server"
    patience = {"spark.rekindle.recovery.storeTimeout": "20s"}
    with bucket_server(place) as first:
        application = chain(tmp_path, first, "3.0", sparkConf=patience)
        with started(application) as running:
            wait_for_partitions(application, first, "worked", 1)
            first.kill()
            time.sleep(5)  # refused several times, yet within storeTimeout
            with bucket_server(place, first.port) as second:
                wait_for_partitions(application, second, "worked", 4)
                second.kill()
                _, err = running.communicate(timeout=250)
    assert running.returncode == 4, err
    assert f"cannot use the store {application.place}" in err
    with bucket_server(place, first.port):
        outcome = application.run()
    assert outcome.code == 0, outcome.err
    assert chain_is_right(application)
    assert outcome.report["drivers"] == 2  # one for each run: the first outlived the server's first absence
    assert outcome.stage("numbers")["rerun"] == 0
    assert outcome.restarted()["worked"] <= 4


def test_spark_without_its_connector_is_said_before_anything_runs(spark: SparkSession, server: Server):
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark.range(1))
    pipeline.sink("/nowhere", name="b")(lambda a: a)
    place = server.place("never")
    with pytest.raises(EnvironmentProblem, match=r"-> set spark.jars.packages to org.apache.hadoop:hadoop-aws:"):
        pipeline.run(spark, store=place)
    assert Store.at(place, server.spark_conf).names("") == []
