"""Files, read by ranges on executors: the same rows as Spark's own reader gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.connectors.files import Files
from rekindle.pipeline import Pipeline

SCHEMA = "n BIGINT, price DOUBLE, word STRING, day DATE, at TIMESTAMP, odd BOOLEAN"


def orders(spark: SparkSession) -> DataFrame:
    return spark.range(3000).selectExpr(
        "id AS n",
        "id / 8 AS price",
        "CASE WHEN id % 10 < 9 THEN concat('word ', id, ', and more') END AS word",
        "date_add(DATE'2013-01-01', CAST(id % 365 AS INT)) AS day",
        "timestamp_millis(id * 12345678) AS at",
        "id % 2 = 1 AS odd",
    )


def read(spark: SparkSession, store: Path, schema: str | None, **options: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """The rows that a pipeline reads, and its report."""
    pipeline = Pipeline("reads")
    pipeline.read("some", Files, options=options, schema=schema, partitions=3)

    @pipeline.sink(store.with_name(f"{store.name}-out"))
    def out(some: DataFrame) -> DataFrame:
        return some

    report = pipeline.run(spark, store=store).report
    return spark.read.parquet(str(store.with_name(f"{store.name}-out"))).collect(), report


SCHEMAS = {"parquet": None, "csv": SCHEMA, "json": SCHEMA}


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.requirement("S4-2")
def test_the_rows_are_those_that_spark_reads(spark, tmp_path, kind):
    folder = str(tmp_path / "orders")
    orders(spark).repartition(3).write.partitionBy("odd").option("header", "true").format(kind).save(folder)
    found, report = read(spark, tmp_path / "store", SCHEMAS[kind], path=folder, format=kind, splitBytes="4k")
    (source,) = report["sources"]
    assert source["splits"] > 6, "files are cut"
    wanted = orders(spark).selectExpr("n", "price", "word", "day", "at", "odd").collect()
    names = ("n", "price", "word", "day", "at")
    assert sorted(tuple(row[name] for name in names) for row in found) == sorted(
        tuple(row[name] for name in names) for row in wanted
    )
    assert {(row.n % 2 == 1, str(row.odd).lower()) for row in found} == {(True, "true"), (False, "false")}


def test_text_that_is_compressed_is_read_too(spark, tmp_path):
    folder = str(tmp_path / "lines")
    orders(spark).selectExpr("coalesce(word, '')").repartition(2).write.option("compression", "gzip").text(folder)
    found, report = read(spark, tmp_path / "store", None, path=folder, format="text", splitBytes="1k")
    assert report["sources"][0]["splits"] == 2
    assert sorted(found) == sorted(spark.read.text(folder).collect())


def test_columns_are_found_whatever_their_case_as_by_spark(spark, tmp_path):
    schema = StructType().add("n", "long").add("odd", "boolean").add("WORD", "string")
    orders(spark).selectExpr("n AS N", "odd AS Odd", "word").write.partitionBy("Odd").parquet(str(tmp_path / "orders"))
    reader = Files({"path": str(tmp_path / "orders"), "format": "parquet"}).reader(schema)
    batches: list[Any] = [batch for split in reader.partitions() for batch in reader.read(split)]
    found = [(row["n"], row["odd"], row["WORD"]) for batch in batches for row in batch.to_pylist()]
    wanted = spark.read.schema(schema).parquet(str(tmp_path / "orders")).select("n", "odd", "WORD").collect()
    assert sorted(found, key=str) == sorted(map(tuple, wanted), key=str)
