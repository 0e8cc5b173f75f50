"""Sinks that Spark writes to, when all of a pipeline is stored."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from rekindle.pipeline import SparkSink
from rekindle.runtime import publisher
from rekindle.runtime.errors import PipelineFailed, PipelineMisuse
from tests.spark.numbers import committed, numbers


class Ledger(DataSource):
    """A file for each commit, of the rows of all tasks whose messages it was given."""

    @classmethod
    def name(cls) -> str:
        return "ledger"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return LedgerWriter(Path(self.options["path"]), self.options.get("broken"))


class LedgerWriter(DataSourceWriter):
    def __init__(self, folder: Path, broken: str | None) -> None:
        self.folder, self.broken = folder, broken

    def write(self, iterator: Iterator[Row]) -> Any:
        return Rows([row.n for row in iterator])

    def commit(self, messages: list[Any]) -> None:
        if self.broken and not (self.folder / "mended").exists():
            raise OSError("the ledger is away")
        rows = sorted(n for message in messages for n in message.rows)
        (self.folder / f"{uuid.uuid4().hex}.json").write_text(json.dumps(rows))


class Rows(WriterCommitMessage):
    def __init__(self, rows: list[int]) -> None:
        self.rows = rows


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "ledger").mkdir()
    return tmp_path / "ledger"


@pytest.mark.requirement("S5-8")
def test_a_python_data_source_is_given_the_rows_in_one_commit(spark, tmp_path, ledger):
    result = numbers(SparkSink(Ledger, {"path": ledger})).run(spark, store=tmp_path / "store")
    assert committed(ledger) == [[0, 2, 4, 6, 8]]
    assert result.report["sinks"] == [{"stage": "out", "path": f"ledger {ledger}", "files": 0}]
    numbers(SparkSink(Ledger, {"path": ledger})).run(spark, store=tmp_path / "store")
    assert committed(ledger) == [[0, 2, 4, 6, 8]] * 2, "another run adds its own"


def test_a_commit_that_failed_is_not_done_again_unless_that_may_be(spark, tmp_path, ledger):
    options = {"path": ledger, "broken": "once"}
    with pytest.raises(PipelineFailed, match=r"(?s)could not write to ledger.*the ledger is away.*look what is there"):
        numbers(SparkSink(Ledger, options)).run(spark, store=tmp_path / "store")
    (ledger / "mended").touch()
    with pytest.raises(PipelineFailed, match="nobody can tell how far it came"):
        numbers(SparkSink(Ledger, options)).run(spark, store=tmp_path / "store")
    assert committed(ledger) == []
    result = numbers(SparkSink(Ledger, options, repeatable=True)).run(spark, store=tmp_path / "store")
    assert committed(ledger) == [[0, 2, 4, 6, 8]]
    assert {stage["name"]: stage["rerun"] for stage in result.report["stages"]} == {"some": 0, "out": 0}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_spark_s_own_formats_append_or_replace(spark, tmp_path, mode):
    sink = SparkSink("parquet", {"path": tmp_path / "out"}, mode)
    for _ in range(2):
        numbers(sink).run(spark, store=tmp_path / "store")
    found = sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == sorted([0, 2, 4, 6, 8] * (2 if mode == "append" else 1))


def test_a_table_is_written_by_its_name(spark, tmp_path):
    numbers(SparkSink("parquet", {"path": str(tmp_path / "table")}, table="evens")).run(spark, store=tmp_path / "store")
    try:
        assert sorted(row.n for row in spark.table("evens").collect()) == [0, 2, 4, 6, 8]
    finally:
        spark.sql("drop table evens")


def test_a_sink_that_cannot_be_reached_is_mended_without_computing_anything_again(spark, tmp_path, ledger):
    """Nothing was written, so even what may not be written twice is written by the next run; elsewhere, if need be."""
    with pytest.raises(PipelineFailed, match=r"(?s)sink out: Spark could not write to nowhere.*only publishing"):
        numbers(SparkSink("nowhere")).run(spark, store=tmp_path / "store")
    absent = SparkSink("jdbc", {"url": "jdbc:absent:x", "dbtable": "numbers", "driver": "no.such.Driver"})
    with pytest.raises(PipelineFailed, match=r"(?s)sink out: Spark could not write to jdbc numbers.*only publishing"):
        numbers(absent).run(spark, store=tmp_path / "store")
    result = numbers(SparkSink(Ledger, {"path": ledger})).run(spark, store=tmp_path / "store")
    assert committed(ledger) == [[0, 2, 4, 6, 8]]
    assert {stage["name"]: stage["rerun"] for stage in result.report["stages"]} == {"some": 0, "out": 0}


def test_spark_makes_no_copies_of_tasks_that_publish(spark, tmp_path, monkeypatch):
    """What they write to may take what both have written."""
    conf, seen = spark.sparkContext._jsc.sc().conf(), list[str]()
    before = conf.get("spark.speculation.quantile")
    assert conf.get("spark.speculation") == "true"

    def write(sink: SparkSink, frame: DataFrame) -> None:
        seen.append(conf.get("spark.speculation.quantile"))

    monkeypatch.setattr(publisher, "write_by_spark", write)
    numbers(SparkSink("noop")).run(spark, store=tmp_path / "store")
    assert float(seen[0]) == 1.0 > float(before)
    assert conf.get("spark.speculation.quantile") == before


def test_a_sink_in_the_store_is_refused_before_anything_runs(spark, tmp_path):
    sink = SparkSink("parquet", {"path": str(tmp_path / "store" / "out")}, "overwrite")
    with pytest.raises(PipelineMisuse, match="lie one in the other"):
        numbers(sink).run(spark, store=tmp_path / "store")
