"""Folders of files: named by columns, and added to; read back by Spark's own reader and by `Files`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.connectors.files import Files
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime import adding
from rekindle.runtime.errors import PipelineMisuse, StoreFull

COLUMNS = ("n", "word", "day", "share", "at")


def days(spark: SparkSession, first: int = 0) -> DataFrame:
    """Words with all that folders' names cannot have, and null, and nothing."""
    return spark.range(first, first + 24).selectExpr(
        "id AS n",
        "CASE id % 4 WHEN 0 THEN 'a/b=c%d e:é' WHEN 1 THEN '' WHEN 3 THEN concat('[', chr(1), '~ü') END AS word",
        "date_add(DATE'2013-01-01', CAST(id % 3 AS INT)) AS day",
        "CAST(id AS DECIMAL(10,2)) / 8 AS share",
        "timestamp_millis(id % 2 * 1234567890) AS at",
    )


def written(spark: SparkSession, store: Path, sink: FileSink, first: int = 0) -> Any:
    pipeline = Pipeline("days")

    @pipeline.source(partitions=1)
    def some(spark: SparkSession) -> DataFrame:
        return days(spark, first)

    @pipeline.sink(sink, partitions=2)
    def out(some: DataFrame) -> DataFrame:
        return some

    return pipeline.run(spark, store=store)


def told(frame: DataFrame, columns: tuple[str, ...] = COLUMNS) -> list[tuple[str, ...]]:
    return sorted(tuple(str(row[name]) for name in columns) for row in frame.collect())


def data(folder: Path) -> set[str]:
    return {str(path.parent.relative_to(folder)) for path in folder.rglob("part-*")}


WRITTEN = {"parquet": ("word", "at"), "csv": ("day", "share")}


@pytest.mark.parametrize("kind", WRITTEN)
def test_folders_are_those_that_spark_writes_and_their_rows_are_read_alike(spark, tmp_path, kind):
    ours, theirs, names = tmp_path / "ours", tmp_path / "theirs", WRITTEN[kind]
    written(spark, tmp_path / "store", FileSink(str(ours), kind, hive_partitions=names))
    days(spark).write.partitionBy(*names).option("header", True).format(kind).save(str(theirs))
    assert data(ours) == data(theirs)
    found, wanted = (spark.read.option("header", True).format(kind).load(str(place)) for place in (ours, theirs))
    assert found.columns == wanted.columns == [*(name for name in COLUMNS if name not in names), *names]
    compared = COLUMNS if kind == "parquet" else ("n", *names)  # times are written as text in another way
    assert told(found, compared) == told(wanted, compared)
    assert told(found, ("n",)) == told(days(spark), ("n",))


def test_files_reads_what_was_written(spark, tmp_path):
    written(spark, tmp_path / "store", FileSink(tmp_path / "out", hive_partitions=("word", "day")))
    made = Files({"path": str(tmp_path / "out"), "format": "parquet"})
    reader = made.reader(made.schema())
    batches: list[Any] = [batch for split in reader.partitions() for batch in reader.read(split)]
    found = [row for batch in batches for row in batch.to_pylist()]
    wanted = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row["n"], str(row["word"]), str(row["day"])) for row in found) == sorted(
        (row.n, str(row.word), str(row.day)) for row in wanted
    )
    assert len(found) == 24


def test_each_task_writes_one_file_for_each_folder(spark, tmp_path):
    written(spark, tmp_path / "store", FileSink(tmp_path / "out", hive_partitions="day"))
    for folder in (tmp_path / "out").glob("day=*"):
        partitions = [path.name[:10] for path in folder.glob("part-*")]
        assert len(partitions) == len(set(partitions)) == 2


@pytest.mark.parametrize("names", [(), ("day",)], ids=["one folder", "by day"])
def test_each_run_adds_its_rows_to_those_that_spark_has_written(spark, tmp_path, names):
    out = tmp_path / "out"
    days(spark, 1000).write.partitionBy(*names).parquet(str(out))
    for first in (0, 100):
        written(spark, tmp_path / "store", FileSink(out, mode="append", hive_partitions=names), first)
    everything = days(spark, 0).union(days(spark, 100)).union(days(spark, 1000))
    assert [row[0] for row in told(spark.read.parquet(str(out)))] == [row[0] for row in told(everything)]
    assert not list(out.glob("_rekindle*"))


def test_only_the_folders_that_have_rows_are_replaced(spark, tmp_path):
    out = tmp_path / "out"
    old = days(spark, 1000).selectExpr("n", "word", "date_add(day, 2) AS day", "share", "at")
    old.write.partitionBy("day").parquet(str(out))
    written(spark, tmp_path / "store", FileSink(out, mode="overwrite_partitions", hive_partitions="day"))
    left = old.where("day > DATE'2013-01-03'")
    assert 0 < left.count() < 24
    assert told(spark.read.parquet(str(out))) == told(left.union(days(spark)))


@contextlib.contextmanager
def in_the_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The second of the files cannot be put in its place: a folder stands there."""
    real, seen = adding._place, list[Path]()

    def place(sink: Any, staged: Path, target: Path, names: frozenset[str], identity: str) -> None:
        if not seen:
            seen.append(target / sorted(names)[1])
            (seen[0] / "full").mkdir(parents=True)
        real(sink, staged, target, names, identity)

    with monkeypatch.context() as patched:
        patched.setattr(adding, "_place", place)
        yield
    (seen[0] / "full").rmdir()
    seen[0].rmdir()


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
def test_a_publication_that_is_cut_off_is_finished_by_the_next_driver_and_each_row_is_there_once(
    spark, tmp_path, monkeypatch, mode
):
    out = tmp_path / "out"
    sink = FileSink(out, mode=mode, hive_partitions="day")
    days(spark, 1000).write.partitionBy("day").parquet(str(out))
    with in_the_way(monkeypatch):
        with pytest.raises(StoreFull, match=r"(?s)sink out: cannot publish to .*out.*only publishing is repeated"):
            written(spark, tmp_path / "store", sink)
        placed = [path for path in out.rglob("part-*") if re.match(r"part-\d{5}-\d{3}-", path.name)]
        assert sorted(path.is_dir() for path in placed) == [False, True], "one is there, and one is in the way"
    result = written(spark, tmp_path / "store", sink)
    kept = days(spark, 1000) if mode == "append" else days(spark, 1000).limit(0)
    assert [row[0] for row in told(spark.read.parquet(str(out)))] == [row[0] for row in told(days(spark).union(kept))]
    assert {stage["name"]: stage["rerun"] for stage in result.report["stages"]} == {"some": 0, "out": 0}
    assert not list(out.glob("_rekindle*"))


MISUSES = {
    "no such column": (FileSink("out", hive_partitions="month"), r"hive_partitions names 'month', its result has"),
    "all columns": (FileSink("out", hive_partitions=COLUMNS), r"hive_partitions names all columns, n, word"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_what_cannot_be_put_into_folders_is_refused_by_name(spark, tmp_path, case):
    sink, message = MISUSES[case]
    with pytest.raises(PipelineMisuse, match=f"sink out: {message}"):
        written(spark, tmp_path / "store", FileSink(tmp_path / "out", hive_partitions=sink.hive_partitions))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("expression", ["CAST('x' AS BINARY)", "map(1, 2)"])
def test_types_that_are_no_name_of_a_folder_are_refused(spark, tmp_path, expression):
    pipeline = Pipeline("odd")

    @pipeline.source
    def some(spark: SparkSession) -> DataFrame:
        return spark.range(3).selectExpr("id", f"{expression} AS odd")

    @pipeline.sink(FileSink(tmp_path / "out", hive_partitions="odd"))
    def out(some: DataFrame) -> DataFrame:
        return some

    with pytest.raises(PipelineMisuse, match=r"sink out: column 'odd' of type .* cannot be the name of a folder"):
        pipeline.run(spark, store=tmp_path / "store")


OTHERS = {
    "type": ("CAST(n AS INT) AS n, word, day, share, at", r"column 'n' is int there, and bigint in this result"),
    "missing": ("n, word, day, at", r"column 'share' is not there, and decimal\(\d+,\d+\) in this result"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_rows_of_other_columns_are_not_added(spark, tmp_path, case):
    columns, message = OTHERS[case]
    out = tmp_path / "out"
    days(spark, 1000).selectExpr(*columns.split(", ")).write.partitionBy("day").parquet(str(out))
    before = sorted(out.rglob("*"))
    with pytest.raises(PipelineMisuse, match=f"(?s)sink out: .*files with other columns, day=.*{message}"):
        written(spark, tmp_path / "store", FileSink(out, mode="append", hive_partitions="day"))
    assert sorted(out.rglob("*")) == before


KINDS = (
    "id",
    "CAST(id AS SMALLINT) AS small",
    "CAST('x' AS BINARY) AS binary",
    "now() AS at",
    "array(struct(now() AS at)) AS many",
    "map('k', 1D) AS map",
)


def test_columns_that_spark_has_written_are_those_of_the_same_types(spark, tmp_path):
    """Its times are 96 bits long."""
    out, pipeline = tmp_path / "out", Pipeline("again")
    spark.range(3).selectExpr(*KINDS).write.parquet(str(out))

    @pipeline.source(partitions=1)
    def some(spark: SparkSession) -> DataFrame:
        return spark.range(3, 6).selectExpr(*KINDS)

    @pipeline.sink(FileSink(out, mode="append"), partitions=1)
    def more(some: DataFrame) -> DataFrame:
        return some

    pipeline.run(spark, store=tmp_path / "store")
    assert sorted(row.id for row in spark.read.parquet(str(out)).collect()) == list(range(6))
