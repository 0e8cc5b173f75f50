"""What suppliers of each nation earned each year: TPC-H's query 9, for all parts instead of the green ones.

    TPCH_DATA=folder rekindle run benchmarks/tpch/app.yaml

Reads the tables that `benchmarks/data.py` makes, from TPCH_DATA (`data` beside this file); writes its answer,
a row for each nation and year, to TPCH_OUT (`out` beside this file). All amounts are decimals, so the answer
is the same to the last digit however the work was split. Every stage makes the same rows again when it is run
again, and says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

HERE = Path(__file__).resolve().parent
DATA = os.environ.get("TPCH_DATA", str(HERE / "data"))
OUT = os.environ.get("TPCH_OUT", str(HERE / "out"))

PARTITIONS = 9
"""Three for each of the three cores, as Spark's tuning guide recommends."""

pipeline = Pipeline("tpch-profits", default_partitions=PARTITIONS)


@pipeline.source(partition_by="orderkey", deterministic=True)
def lines(spark: SparkSession) -> DataFrame:
    """Lines of orders, by order."""
    return spark.read.parquet(f"{DATA}/lineitem").select(
        *(F.col(f"l_{name}").alias(name) for name in ("orderkey", "partkey", "suppkey", "quantity")),
        *(F.col(f"l_{name}").alias(name) for name in ("extendedprice", "discount")),
    )


@pipeline.source(partition_by="orderkey", deterministic=True)
def orders(spark: SparkSession) -> DataFrame:
    """The year of each order, by order."""
    return spark.read.parquet(f"{DATA}/orders").select(
        F.col("o_orderkey").alias("orderkey"), F.year("o_orderdate").alias("year")
    )


@pipeline.source(partition_by=("partkey", "suppkey"), deterministic=True)
def costs(spark: SparkSession) -> DataFrame:
    """What a supplier asks for a part, by part and supplier."""
    return spark.read.parquet(f"{DATA}/partsupp").select(
        F.col("ps_partkey").alias("partkey"), F.col("ps_suppkey").alias("suppkey"), F.col("ps_supplycost").alias("cost")
    )


@pipeline.source(exchange="pipelined", deterministic=True)
def suppliers(spark: SparkSession) -> DataFrame:
    """The nation of each supplier; computed where it is read, not stored."""
    nations = spark.read.parquet(f"{DATA}/nation").select("n_nationkey", F.col("n_name").alias("nation"))
    found = spark.read.parquet(f"{DATA}/supplier")
    return found.join(F.broadcast(nations), found["s_nationkey"] == nations["n_nationkey"]).select(
        F.col("s_suppkey").alias("suppkey"), "nation"
    )


@pipeline.stage(partition_by=("partkey", "suppkey"), deterministic=True)
def dated(lines: DataFrame, orders: DataFrame) -> DataFrame:
    """Lines with the year of their order, by part and supplier."""
    return lines.join(orders, "orderkey").drop("orderkey")


@pipeline.stage(partition_by=("suppkey", "year"), deterministic=True)
def profits(dated: DataFrame, costs: DataFrame) -> DataFrame:
    """What each supplier earned each year."""
    amount = F.col("extendedprice") * (1 - F.col("discount")) - F.col("cost") * F.col("quantity")
    return dated.join(costs, ["partkey", "suppkey"]).groupBy("suppkey", "year").agg(F.sum(amount).alias("profit"))


@pipeline.sink(FileSink(OUT, mode="overwrite"), partitions=1, deterministic=True)
def answer(profits: DataFrame, suppliers: DataFrame) -> DataFrame:
    """What each nation's suppliers earned each year."""
    of_nations = profits.join(F.broadcast(suppliers), "suppkey")
    return of_nations.groupBy("nation", "year").agg(F.sum("profit").alias("profit"))


if __name__ == "__main__":
    pipeline.run()
