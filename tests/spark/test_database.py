"""Tables of a real PostgreSQL server, read by ranges: the rows that it has, whatever becomes of connections."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle
from rekindle.connectors.database import Database
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed
from tests import postgres

ROWS, SPLITS = 4000, 40
TABLE = f"""
CREATE TABLE orders AS SELECT
    n AS id, (n / 8.0)::numeric(12, 3) AS price, 'word ' || n AS word, DATE '2013-01-01' + n % 90 AS day,
    TIMESTAMPTZ '2013-01-01 00:00+00' + n * interval '1 hour' AS at, ARRAY['a', 'b'] AS letters
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO orders (word) VALUES ('none'), ('of'), ('these');
CREATE ROLE reader LOGIN PASSWORD 'sesame-first';
GRANT SELECT ON orders TO reader
"""
SLOW = "SELECT id, word, pg_sleep(0.002)::text AS slept FROM orders"
IN_SPARK = "string(id)", "string(price)", "word", "string(day)", "string(unix_seconds(at))", "string(letters[1])"
IN_SQL = "id::text, price::text, word, day::text, extract(epoch FROM at)::bigint::text, letters[2]"
DEADLINE = 120.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Tasks are tried twice, as on a cluster four times."""
    builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    session = rekindle.configure(builder, options={"speculation.enabled": "true"}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    with postgres.server() as made:
        made.execute(TABLE)
        yield made


def pipeline_of(folder: Path, options: Mapping[str, Any], *, fails: bool = False) -> Pipeline:
    """Two tasks read, and the rows are published to `out` of the folder, unless the stage behind them fails."""
    pipeline = Pipeline("reads")
    more = {"partitionColumn": "id", "numPartitions": SPLITS}
    pipeline.read("orders", Database, options={**more, **options}, partitions=2)

    @pipeline.sink(FileSink(str(folder / "out")))
    def out(orders: DataFrame) -> DataFrame:
        if fails:
            raise ValueError("it ends here")
        return orders

    return pipeline


@contextmanager
def meanwhile(what: Callable[[], None]) -> Iterator[None]:
    """Runs `what` beside the block, and raises what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            what()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(DEADLINE)
        assert not thread.is_alive()
        assert not raised, raised


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def readers(server: postgres.Server, condition: str) -> int:
    """How many of the reader's connections are like that."""
    return int(server.execute(f"SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND {condition}")[0][0])


def numbers(spark: SparkSession, folder: Path) -> list[int | None]:
    return sorted((row.id for row in spark.read.parquet(str(folder / "out")).collect()), key=lambda n: n or 0)


@pytest.mark.requirement("S4-2")
def test_the_rows_are_those_that_the_server_has(spark, tmp_path, server):
    options = {"url": server.uri("reader", None), "password": "sesame-first", "dbtable": "orders"}
    report = pipeline_of(tmp_path, options).run(spark, store=tmp_path / "store").report
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr(*IN_SPARK).collect()
    assert sorted(map(tuple, found), key=repr) == sorted(server.execute(f"SELECT {IN_SQL} FROM orders"), key=repr)
    (source,) = report["sources"]
    assert (source["splits"], source["settled"], source["subtasks"]) == (SPLITS, SPLITS, 2)


def test_the_password_is_not_stored(spark, tmp_path, server):
    """What is stored of a source goes when a run has finished; this one has not."""
    options = {"url": server.uri("reader", None), "password": "sesame-first", "dbtable": "orders"}
    with pytest.raises(PipelineFailed, match="it ends here"):
        pipeline_of(tmp_path, options, fails=True).run(spark, store=tmp_path / "store")
    kept = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(b"rekindle.connectors.database" in path.read_bytes() for path in kept), "the reader is stored"
    assert [path for path in kept if b"sesame" in path.read_bytes()] == []


@pytest.mark.requirement("S4-30", "S4-31")
def test_a_connection_that_is_ended_and_a_password_that_is_changed_cost_one_attempt(spark, tmp_path, server):
    """Both readers wait for a lock of the table while that is done, so none connects in between."""
    passwords = tmp_path / "passwords"
    write_password(passwords, "sesame-first")

    def change() -> None:
        from adbc_driver_postgresql import dbapi

        until(lambda: readers(server, "query LIKE 'COPY%WHERE%'") > 0)
        with dbapi.connect(server.uri()) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
            until(lambda: readers(server, "wait_event_type = 'Lock'") == 2)
            server.execute("ALTER ROLE reader PASSWORD 'sesame-second'")
            write_password(passwords, "sesame-second")
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader' LIMIT 1"
            assert server.execute(ended) == [(True,)]

    options = {"url": f"{server.uri('reader', None)}?passfile={passwords}", "query": SLOW}
    with meanwhile(change):
        pipeline_of(tmp_path, options).run(spark, store=tmp_path / "store")
    assert "terminating connection due to administrator command" in server.log
    assert numbers(spark, tmp_path) == [None, None, None, *range(1, ROWS + 1)]


def write_password(path: Path, password: str) -> None:
    path.write_text(f"*:*:*:reader:{password}\n")
    os.chmod(path, 0o600)


def test_a_server_that_is_gone_is_told_and_the_next_run_goes_on(spark, tmp_path, server):
    def stop() -> None:
        until(lambda: readers(server, "query LIKE 'COPY%WHERE%'") > 0)
        server.stop()

    options = {"url": server.uri("reader", None), "password": "sesame-first", "query": SLOW}
    with meanwhile(stop), pytest.raises(PipelineFailed) as failure:
        pipeline_of(tmp_path, options).run(spark, store=tmp_path / "store")
    said = str(failure.value)
    assert "stage orders" in said
    assert f"there is no connection to postgresql://reader@127.0.0.1:{server.port}/postgres" in said
    assert "while it read split" in said
    assert "sesame" not in said
    server.start()
    server.execute("ALTER ROLE reader PASSWORD 'sesame-second'")
    pipeline_of(tmp_path, {**options, "password": "sesame-second"}).run(spark, store=tmp_path / "store")
    assert numbers(spark, tmp_path) == [None, None, None, *range(1, ROWS + 1)]
