"""Connectors of other people, read by splits as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark_datasources import ArrowDataSource, FakeDataSource

from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.sources import DataSourceRead


def published(spark: Any, folder: Path, source: type, options: dict[str, Any]) -> DataFrame:
    """What a pipeline publishes that reads with a connector."""
    pipeline = Pipeline("connected")
    pipeline.read("rows", source, options=options, partitions=2)

    @pipeline.sink(FileSink(str(folder / "out")), partitions=1)
    def out(rows: DataFrame) -> DataFrame:
        return rows

    pipeline.run(spark, store=folder / "store")
    return spark.read.parquet(str(folder / "out"))


@pytest.mark.requirement("S4-1", "S5-6")
def test_files_of_arrow_are_read_file_by_file(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for file in range(5):
        rows = pa.table({"id": list(range(10 * file, 10 * file + 10)), "name": [f"n{file}"] * 10})
        with pa.OSFile(str(tmp_path / "in" / f"{file}.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as to:
            to.write_table(rows)
    options = {"path": str(tmp_path / "in")}
    found = published(spark, tmp_path, ArrowDataSource, options)
    alone = DataSourceRead(ArrowDataSource, options).function()(spark)
    assert sorted(found.collect()) == sorted(alone.collect())
    assert found.count() == 50
    assert found.dtypes == alone.dtypes


@pytest.mark.requirement("S4-1", "S5-6")
def test_a_source_without_splits_is_read_by_one_task(spark, tmp_path):
    found = published(spark, tmp_path, FakeDataSource, {"numRows": 7})
    assert found.count() == 7
    assert found.columns == ["name", "date", "zipcode", "state"]
