"""A job that is mostly the user's own Python: a score for each line of each order, then sums by ship mode.

The score is what TPCH_ROUNDS (1000) steps of a linear congruential generator make of the line's key. It costs
time in proportion and cannot be guessed, yet the oracle knows it at once, for many steps of such a generator
are one step of another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

HERE = Path(__file__).resolve().parent
DATA = os.environ.get("TPCH_DATA", str(HERE / "data"))
OUT = os.environ.get("TPCH_OUT", str(HERE / "out"))
ROUNDS = int(os.environ.get("TPCH_ROUNDS", "1000"))

FACTOR, INCREMENT, MODULUS = 48_271, 11, 2**31 - 1

PARTITIONS = 9
"""Three for each of the three cores, as Spark's tuning guide recommends."""

pipeline = Pipeline("tpch-scores", default_partitions=PARTITIONS)


@pipeline.source(partition_by="line", deterministic=True)
def lines(spark: SparkSession) -> DataFrame:
    """A key for each line of each order, with its ship mode."""
    key = F.col("l_orderkey") * 8 + F.col("l_linenumber")
    return spark.read.parquet(f"{DATA}/lineitem").select(
        (key % MODULUS).alias("line"), F.col("l_shipmode").alias("shipmode")
    )


@pipeline.stage(pointwise=True, deterministic=True)
def scored(lines: DataFrame) -> DataFrame:
    """Each line with its score; this is nearly all of the work."""
    rounds, factor, increment, modulus = ROUNDS, FACTOR, INCREMENT, MODULUS

    def score(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            scores = []
            for value in batch.column("line").to_pylist():
                for _ in range(rounds):
                    value = (factor * value + increment) % modulus
                scores.append(value)
            yield batch.append_column("score", pyarrow.array(scores, pyarrow.int64()))

    return lines.mapInArrow(score, "line long, shipmode string, score long")


@pipeline.sink(FileSink(OUT, mode="overwrite"), partition_by="shipmode", partitions=1, deterministic=True)
def answer(scored: DataFrame) -> DataFrame:
    """Lines and scores of each ship mode."""
    return scored.groupBy("shipmode").agg(F.count(F.lit(1)).alias("lines"), F.sum("score").alias("score"))


def one_step(rounds: int) -> tuple[int, int]:
    """(factor, increment) of the generator of which one step is `rounds` steps of ours."""
    factor, increment = 1, 0
    for _ in range(rounds):
        factor, increment = factor * FACTOR % MODULUS, (increment * FACTOR + INCREMENT) % MODULUS
    return factor, increment


if __name__ == "__main__":
    pipeline.run()
