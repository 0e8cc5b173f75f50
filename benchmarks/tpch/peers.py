"""The same jobs without Rekindle, from the same stage functions: a decorator returns its function unchanged."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from benchmarks.tpch import pipeline as profits
from benchmarks.tpch import scores
from rekindle.pipeline import Keyed


def profits_by_hand(spark: SparkSession, folder: str, *, partitioned: bool) -> None:
    """Every result that the pipeline stores is written to a folder and read back.

    `partitioned`: in the pipeline's own partitions, by the same keys. Plain Parquet files do not tell a reader
    how they are partitioned, so a join of what is read shuffles again. Else nothing is shuffled to be written,
    and only the readers shuffle: as many shuffles as the pipeline has, unless Spark finds a way without one.
    """

    def stored(name: str, frame: DataFrame) -> DataFrame:
        path = f"{folder}/{name}"
        laid_out = frame.repartition(profits.PARTITIONS, *_keys(name)) if partitioned else frame
        laid_out.write.mode("overwrite").parquet(path)
        return spark.read.parquet(path)

    lines = stored("lines", profits.lines(spark))
    orders = stored("orders", profits.orders(spark))
    costs = stored("costs", profits.costs(spark))
    dated = stored("dated", profits.dated(lines, orders))
    earned = stored("profits", profits.profits(dated, costs))
    answer = profits.answer(earned, profits.suppliers(spark))
    answer.coalesce(1).write.mode("overwrite").parquet(profits.OUT)


def _keys(stage: str) -> tuple[str, ...]:
    """What the pipeline partitions the result of a stage by."""
    distribution = profits.pipeline.build().stage(stage).distribution
    assert isinstance(distribution, Keyed)
    return distribution.keys


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
