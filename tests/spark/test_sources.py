"""Python DataSources as they are, read by splits that the driver hands out one at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.journal import read_run
from rekindle.runtime.store import Store


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


def numbers_pipeline(folder: Path, splits: int, **options: Any) -> Pipeline:
    pipeline = Pipeline("numbers")
    pipeline.read("numbers", Numbers, options={"splits": splits}, partitions=3, **options)

    @pipeline.sink(FileSink(str(folder / "out")), partitions=2)
    def out(numbers: DataFrame) -> DataFrame:
        return numbers

    return pipeline


@pytest.mark.requirement("S4-1", "S4-2", "S4-16")
@pytest.mark.parametrize("options", [{}, {"partition_by": "n"}, {"exchange": "pipelined", "partitions": None}], ids=str)
def test_every_split_is_read_once(spark, tmp_path, options):
    pipeline = Pipeline("numbers")
    pipeline.read("numbers", Numbers, options={"splits": 20}, **{"partitions": 3, **options})

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=2)
    def out(numbers: DataFrame) -> DataFrame:
        return numbers

    pipeline.run(spark, store=tmp_path / "store")
    read = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.n for row in read) == list(range(200))
    assert len({(row.split, row.task) for row in read}) == 20, "a split is read by one task"
    assert len(settled(tmp_path)) == 20


def settled(folder: Path) -> list[int]:
    """The numbers of splits that the journal knows to be settled."""
    notes = [note for note in read_run(Store.at(folder / "store")) if note.get("note") == "SplitsSettled"]
    return sorted(n for note in notes for first, last in note["splits"] for n in range(first, last + 1))
