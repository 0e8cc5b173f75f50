"""TPC-H's queries 1, 12 and 21, one after the other: `tpch.py REPEATS MOMENT`, on the tables in DATA.

Their substitution parameters are those of the validation in TPC-H's section 2.4. Each query is run REPEATS times.
"""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.on_kubernetes.apps.measured import measure

DATA = "/tpch"
_SPLIT = str(4 << 20)
_PARTITIONS = "12"


def pricing_summary(table: dict[str, DataFrame]) -> DataFrame:
    """Query 1."""
    price, discount = f.col("l_extendedprice"), f.col("l_discount")
    paid = price * (1 - discount)
    lines = table["lineitem"].where(f.col("l_shipdate") <= f.lit(date(1998, 9, 2)))
    grouped = lines.groupBy("l_returnflag", "l_linestatus").agg(
        f.sum("l_quantity"),
        f.sum(price),
        f.sum(paid),
        f.sum(paid * (1 + f.col("l_tax"))),
        f.avg("l_quantity"),
        f.avg(price),
        f.avg(discount),
        f.count("*"),
    )
    return grouped.orderBy("l_returnflag", "l_linestatus")


def shipping_modes(table: dict[str, DataFrame]) -> DataFrame:
    """Query 12."""
    receipt = f.col("l_receiptdate")
    lines = table["lineitem"].where(
        f.col("l_shipmode").isin("MAIL", "SHIP")
        & (f.col("l_commitdate") < receipt)
        & (f.col("l_shipdate") < f.col("l_commitdate"))
        & (receipt >= f.lit(date(1994, 1, 1)))
        & (receipt < f.lit(date(1995, 1, 1)))
    )
    is_urgent = f.col("o_orderpriority").isin("1-URGENT", "2-HIGH").cast("long")
    joined = lines.join(table["orders"], f.col("l_orderkey") == f.col("o_orderkey"))
    return joined.groupBy("l_shipmode").agg(f.sum(is_urgent), f.sum(1 - is_urgent)).orderBy("l_shipmode")


def suppliers_who_kept_orders_waiting(table: dict[str, DataFrame]) -> DataFrame:
    """Query 21, its two sub-queries as one aggregate of each order's suppliers."""
    is_late = f.col("l_receiptdate") > f.col("l_commitdate")
    lines = table["lineitem"]
    suppliers = lines.groupBy(f.col("l_orderkey").alias("key")).agg(
        f.countDistinct("l_suppkey").alias("all"),
        f.countDistinct(f.when(is_late, f.col("l_suppkey"))).alias("late"),
    )
    alone = suppliers.where((f.col("all") > 1) & (f.col("late") == 1))
    of_nation = table["supplier"].join(
        table["nation"].where(f.col("n_name") == "SAUDI ARABIA"), f.col("s_nationkey") == f.col("n_nationkey")
    )
    waiting = (
        lines.where(is_late)
        .join(of_nation, f.col("l_suppkey") == f.col("s_suppkey"))
        .join(table["orders"].where(f.col("o_orderstatus") == "F"), f.col("l_orderkey") == f.col("o_orderkey"))
        .join(alone, f.col("l_orderkey") == f.col("key"), "left_semi")
    )
    return waiting.groupBy("s_name").agg(f.count("*").alias("waits")).orderBy(f.desc("waits"), "s_name").limit(100)


QUERIES = (pricing_summary, shipping_modes, suppliers_who_kept_orders_waiting)


def job(spark: SparkSession) -> int:
    """The sum of all numbers in all answers, in millionths."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", _SPLIT)
    spark.conf.set("spark.sql.shuffle.partitions", _PARTITIONS)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    table = {name: spark.read.parquet(f"{DATA}/{name}") for name in ("lineitem", "orders", "supplier", "nation")}
    total = Decimal(0)
    for _ in range(int(sys.argv[1])):
        for query in QUERIES:
            values = (value for row in query(table).collect() for value in row)
            total += sum((Decimal(value) for value in values if isinstance(value, int | Decimal)), Decimal(0))
    return round(total * 10**6)


if __name__ == "__main__":
    measure(job, sys.argv[2])
