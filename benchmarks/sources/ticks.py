"""Splits of some rows and much work: all alike, or a few of them twenty times as much as the others.

A unit of work is TPCH_ROUNDS (1000) times a thousand hashes, so that it takes CPU wherever it is done. Both kinds of
splits are the same work altogether.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.sources import DataSourceRead

OUT = os.environ.get("TPCH_OUT", str(Path(__file__).resolve().parent / "out"))
ROUNDS = int(os.environ.get("TPCH_ROUNDS", "1000"))

READERS = 4
ROWS = 1000
UNITS = {"even": [2] * 60, "skewed": [20, *[1] * 19] * 3 + [1, 1, 1]}
"""[kind -> units of work of each split]"""


class Ticks(DataSource):
    """`kind` is one of UNITS, `rounds` the thousands of hashes of a unit."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "split BIGINT, n BIGINT"

    def reader(self, schema: Any) -> DataSourceReader:
        return TicksReader(UNITS[self.options["kind"]], int(self.options["rounds"]))


class TicksReader(DataSourceReader):
    def __init__(self, units: list[int], rounds: int) -> None:
        self.units, self.rounds = units, rounds

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(len(self.units))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        for _ in range(1000 * self.rounds * self.units[partition.value]):
            hashlib.sha256(b"a tick").digest()
        for n in range(ROWS):
            yield partition.value, n


def options(kind: str) -> dict[str, str]:
    return {"kind": kind, "rounds": str(ROUNDS)}


def pipeline(kind: str) -> Pipeline:
    """A subtask for each reader; what they read is stored, and published."""
    made = Pipeline(f"ticks-{kind}")
    made.read("ticks", Ticks, options=options(kind), partitions=READERS)

    @made.sink(FileSink(OUT, mode="overwrite"), pointwise=True)
    def answer(ticks: DataFrame) -> DataFrame:
        return ticks

    return made


def plain(spark: SparkSession, kind: str) -> None:
    """Spark alone: a task for each split."""
    read = DataSourceRead(Ticks, options(kind)).function()
    read(spark).write.mode("overwrite").parquet(OUT)


def right_answer(kind: str) -> list[tuple[object, ...]]:
    """Rows, and the sum of what is in them."""
    splits = len(UNITS[kind])
    return [(splits * ROWS, splits, ROWS * sum(range(splits)) + splits * sum(range(ROWS)))]


FOUND = "select count(*), count(distinct split), sum(split + n)::bigint from {out}"
