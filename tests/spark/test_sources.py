"""Python DataSources as they are, read by splits that the driver hands out one at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Tasks are tried twice, as on a cluster four times."""
    builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    session = rekindle.configure(builder, options={"speculation.enabled": "true"}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


class Numbers(DataSource):
    """`splits` splits of ten numbers each; it names them in another order each time it is asked."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n BIGINT, split BIGINT, task BIGINT"

    def reader(self, schema: Any) -> DataSourceReader:
        return NumbersReader(int(self.options["splits"]))


class NumbersReader(DataSourceReader):
    def __init__(self, splits: int) -> None:
        self.splits = splits

    def partitions(self) -> list[InputPartition]:
        found = [InputPartition(number) for number in range(self.splits)]
        random.shuffle(found)
        return found

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for n in range(10):
            yield 10 * partition.value + n, partition.value, context.partitionId()


class Failing(Numbers):
    """Does what its option says at split 7: `raise` always, `once` at the first attempt, `wrong` gives other rows."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def reader(self, schema: Any) -> DataSourceReader:
        return FailingReader(20, self.options["how"], Path(self.options["folder"]))


class FailingReader(NumbersReader):
    def __init__(self, splits: int, how: str, folder: Path) -> None:
        super().__init__(splits)
        self.how, self.folder = how, folder

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value == 7 and self.how == "wrong":
            yield (1, 2)
        if partition.value == 7 and (self.how == "raise" or (self.how == "once" and self._is_first())):
            raise ValueError("no such luck")
        yield from super().read(partition)

    def _is_first(self) -> bool:
        try:
            (self.folder / "failed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def failing_pipeline(folder: Path, how: str, **options: Any) -> Pipeline:
    pipeline = Pipeline("failing")
    read = {"how": how, "folder": folder}
    pipeline.read("numbers", Failing, options=read, **{"partitions": 3, **options})

    @pipeline.sink(FileSink(str(folder / "out")), partitions=2)
    def out(numbers: DataFrame) -> DataFrame:
        return numbers

    return pipeline


LAYOUTS = [{}, {"partition_by": "n"}, {"exchange": "pipelined", "partitions": None}]


@pytest.mark.requirement("S4-1", "S4-2", "S4-16")
@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_every_split_is_read_once(spark, tmp_path, options):
    pipeline = Pipeline("numbers")
    pipeline.read("numbers", Numbers, options={"splits": 20}, **{"partitions": 3, **options})

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=2)
    def out(numbers: DataFrame) -> DataFrame:
        return numbers

    result = pipeline.run(spark, store=tmp_path / "store")
    read = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.n for row in read) == list(range(200))
    assert len({(row.split, row.task) for row in read}) == 20, "a split is read by one task"
    (source,) = result.report["sources"]
    assert (source["splits"], source["settled"]) == (20, 20)


@pytest.mark.requirement("S4-30", "S4-31")
@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_a_reader_that_fails_once_is_tried_again_on_the_same_splits(spark, tmp_path, options):
    failing_pipeline(tmp_path, "once", **options).run(spark, store=tmp_path / "store")
    assert (tmp_path / "failed").exists()
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(200))


def test_a_split_that_cannot_be_read_is_named(spark, tmp_path):
    """Its subtask is tried again, then the run ends; what others have read stays."""
    with pytest.raises(PipelineFailed) as failure:
        failing_pipeline(tmp_path, "raise").run(spark, store=tmp_path / "store")
    said = str(failure.value)
    assert re.search(r"ValueError: no such luck while it read split \d+ of 20: InputPartition\((value=)?7\)", said), (
        said
    )
    assert "test_sources.py" in said
    assert "split_reader" not in said


def test_rows_that_do_not_fit_the_schema_are_told_with_the_stage(spark, tmp_path):
    with pytest.raises(PipelineFailed, match=r"(?s)stage numbers.*DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        failing_pipeline(tmp_path, "wrong").run(spark, store=tmp_path / "store")


def test_a_source_that_raises_when_it_is_asked_for_splits_is_told_as_any_stage(spark, tmp_path):
    class Raising(Numbers):
        def reader(self, schema: Any) -> DataSourceReader:
            raise OSError("the catalogue is away")

    pipeline = Pipeline("raising")
    pipeline.read("numbers", Raising)
    pipeline.sink(FileSink(str(tmp_path / "out")))(reading)
    with pytest.raises(
        PipelineFailed, match=r"(?s)stage numbers: its source numbers raised OSError.*OSError: the catalogue is away"
    ):
        pipeline.run(spark, store=tmp_path / "store")


def reading(numbers: DataFrame) -> DataFrame:
    return numbers


@pytest.mark.requirement("S4-2")
def test_a_function_reads_each_of_its_splits(spark, tmp_path):
    pipeline = Pipeline("squares")

    @pipeline.source_function("n BIGINT, of BIGINT", splits=5, partitions=2, side_effects=False)
    def squares(split: int, splits: int) -> list[tuple[int, int]]:
        return [(split * split, splits)]

    @pipeline.sink(FileSink(str(tmp_path / "out")))
    def out(squares: DataFrame) -> DataFrame:
        return squares

    pipeline.run(spark, store=tmp_path / "store")
    assert sorted(spark.read.parquet(str(tmp_path / "out")).collect()) == [(n * n, 5) for n in range(5)]
