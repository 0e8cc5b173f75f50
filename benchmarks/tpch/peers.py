"""The same jobs without Rekindle, from the same stage functions: a decorator returns its function unchanged."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from benchmarks.tpch import pipeline as profits
from benchmarks.tpch import scores


def profits_by_hand(spark: SparkSession, folder: str) -> None:
    """Every result that the pipeline stores is written to a folder and read back.

    The stored rows are the same. They are not shuffled before they are written, as Spark would not know when
    it reads them and would shuffle again: each join shuffles what it reads, which makes as many shuffles as
    the pipeline has.
    """

    def stored(name: str, frame: DataFrame) -> DataFrame:
        path = f"{folder}/{name}"
        frame.write.mode("overwrite").parquet(path)
        return spark.read.parquet(path)

    lines = stored("lines", profits.lines(spark))
    orders = stored("orders", profits.orders(spark))
    costs = stored("costs", profits.costs(spark))
    dated = stored("dated", profits.dated(lines, orders))
    earned = stored("profits", profits.profits(dated, costs))
    answer = profits.answer(earned, profits.suppliers(spark))
    answer.coalesce(1).write.mode("overwrite").parquet(profits.OUT)


def profits_plain(spark: SparkSession) -> None:
    """One lazy plan that stores nothing but the answer."""
    dated = profits.dated(profits.lines(spark), profits.orders(spark))
    earned = profits.profits(dated, profits.costs(spark))
    answer = profits.answer(earned, profits.suppliers(spark))
    answer.coalesce(1).write.mode("overwrite").parquet(profits.OUT)


def scores_plain(spark: SparkSession) -> None:
    """One lazy plan; the rows are spread over as many tasks as the pipeline has before the long work."""
    lines = scores.lines(spark).repartition(scores.PARTITIONS, "line")
    scores.answer(scores.scored(lines)).coalesce(1).write.mode("overwrite").parquet(scores.OUT)
