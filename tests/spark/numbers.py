"""A pipeline with one sink, and what a test's own sink has committed."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rekindle.pipeline import Pipeline, Sink


def committed(folder: Path) -> list[list[int]]:
    """Rows of each commit, of sinks that write a file of JSON for each."""
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def numbers(sink: Sink) -> Pipeline:
    """The even numbers below 10, in three partitions."""
    pipeline = Pipeline("numbers")

    @pipeline.source(partitions=2)
    def some(spark: SparkSession) -> DataFrame:
        return spark.range(10).withColumnRenamed("id", "n")

    @pipeline.sink(sink, partitions=3)
    def out(some: DataFrame) -> DataFrame:
        return some.where("n % 2 = 0")

    return pipeline
