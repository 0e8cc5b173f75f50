"""Delays of flights from New York in 2013: how late, why, and what one flight passes on to the next.

    rekindle explain examples/flights/app.yaml
    rekindle run examples/flights/app.yaml

Reads the tables that data.py writes, from the folder FLIGHTS_DATA (`data` beside this file); writes two
reports to FLIGHTS_OUT (`out` beside this file). All sums are sums of whole numbers, so the reports are the
same to the last digit however the work was split, copied or repeated. The long stages say deterministic=True:
they make the same rows again, so what was stored of them stays when a driver is lost in their midst.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

HERE = Path(__file__).resolve().parent
DATA = os.environ.get("FLIGHTS_DATA", str(HERE / "data"))
OUT = os.environ.get("FLIGHTS_OUT", str(HERE / "out"))

LATE = 15
"""Minutes after schedule from which an arrival counts as late."""

pipeline = Pipeline("flights", default_partitions=12)


# -- sources ---------------------------------------------------------------------------------------------


@pipeline.source(partition_by=("copy", "tailnum"), deterministic=True)
def flights(spark: SparkSession) -> DataFrame:
    """Departures from New York, all legs of a plane in one partition."""
    return spark.read.parquet(f"{DATA}/flights").select(
        *("copy", "month", "day", "hour", "sched_dep_time", "dep_delay", "arr_delay"),
        *("carrier", "flight", "tailnum", "origin", "dest", "distance"),
    )


@pipeline.source(partitions=1)
def airlines(spark: SparkSession) -> DataFrame:
    """Names of the 16 airlines."""
    return spark.read.parquet(f"{DATA}/airlines").withColumnRenamed("name", "airline")


@pipeline.source(partitions=1)
def airports(spark: SparkSession) -> DataFrame:
    """Names of the airports."""
    return spark.read.parquet(f"{DATA}/airports").select(F.col("faa").alias("dest"), F.col("name").alias("airport"))


@pipeline.source(partitions=1)
def planes(spark: SparkSession) -> DataFrame:
    """Seats of the planes that are registered."""
    return spark.read.parquet(f"{DATA}/planes").select("tailnum", "seats")


@pipeline.source(partitions=1)
def weather(spark: SparkSession) -> DataFrame:
    """Hourly observations at the three airports."""
    return spark.read.parquet(f"{DATA}/weather")


# -- stages ----------------------------------------------------------------------------------------------


@pipeline.stage(partition_by=("copy", "tailnum"), deterministic=True)
def legs(flights: DataFrame) -> DataFrame:
    """Each flight with the minutes it inherited from the same plane's flight before, that day.

    The rows of a plane are in one partition already: the window needs no exchange. Its order is total (an
    airline's flight number flies once a day), so it gives the same rows each time.
    """
    by_plane = Window.partitionBy("copy", "tailnum").orderBy("month", "day", "sched_dep_time", "carrier", "flight")
    before = F.lag(F.struct("month", "day", "arr_delay")).over(by_plane)
    same_day = (F.col("before.month") == F.col("month")) & (F.col("before.day") == F.col("day"))
    passed_on = F.least(_late("before.arr_delay"), _late("dep_delay"))
    known = F.col("tailnum").isNotNull() & same_day
    return (
        flights.withColumn("before", before)
        .withColumn("inherited", F.coalesce(F.when(known, passed_on), F.lit(0)))
        .drop("before", "sched_dep_time")
    )


@pipeline.stage(pointwise=True, broadcast=("airlines", "planes"))
def described(legs: DataFrame, airlines: DataFrame, planes: DataFrame) -> DataFrame:
    """With the airline's name and the plane's seats; partition by partition, nothing moves."""
    return legs.join(airlines, "carrier", "left").join(planes, "tailnum", "left")


@pipeline.stage(exchange="pipelined", deterministic=True)
def storms(weather: DataFrame) -> DataFrame:
    """Hours of bad weather; computed where it is read, not stored."""
    bad = (F.col("visib") < 3) | (F.col("precip") > 0.05) | (F.col("wind_speed") > 25)
    return weather.where(bad).select("origin", "month", "day", "hour").distinct()


@pipeline.stage(partition_by="origin", deterministic=True)
def exposed(described: DataFrame, storms: DataFrame) -> DataFrame:
    """With whether it left in bad weather; by airport, so three partitions hold all rows."""
    stormy = storms.withColumn("stormy", F.lit(1))
    joined = described.join(stormy, ["origin", "month", "day", "hour"], "left")
    return joined.withColumn("stormy", F.coalesce("stormy", F.lit(0)))


# -- sinks -----------------------------------------------------------------------------------------------


@pipeline.sink(
    FileSink(f"{OUT}/carriers", mode="overwrite"), partition_by=("carrier", "airline", "month"), partitions=4
)
def carriers(exposed: DataFrame) -> DataFrame:
    """Delays of each airline in each month."""
    return (
        exposed.groupBy("carrier", "airline", "month")
        .agg(
            *_sums(),
            F.count(F.when(F.col("arr_delay") > LATE, 1)).alias("late"),
            F.count("arr_delay").alias("arrived"),
            F.sum(F.coalesce("seats", F.lit(0))).alias("seats"),
        )
        .withColumn("tenths_per_arrival", F.expr("delay_minutes * 10 div nullif(arrived, 0)"))
    )


@pipeline.sink(FileSink(f"{OUT}/routes", format="csv", mode="overwrite"), partition_by="origin")
def routes(exposed: DataFrame, airports: DataFrame) -> DataFrame:
    """Routes of each airport by the delay they cause; grouped and ranked where the rows are."""
    place = F.rank().over(Window.partitionBy("origin").orderBy(F.desc("delay_minutes"), "dest"))
    return (
        exposed.groupBy("origin", "dest")
        .agg(*_sums(), F.sum("distance").alias("miles"))
        .join(F.broadcast(airports), "dest", "left")
        .withColumn("airport", F.coalesce("airport", F.lit("unknown")))
        .withColumn("place", place)
    )


def _late(column: str) -> Column:
    """Minutes after schedule; 0 where there are none, or none are known."""
    return F.greatest(F.coalesce(F.col(column), F.lit(0)), F.lit(0))


def _sums() -> tuple[Column, ...]:
    return (
        F.count(F.lit(1)).alias("flights"),
        F.count(F.when(F.col("dep_delay").isNull(), 1)).alias("cancelled"),
        F.sum(_late("arr_delay")).alias("delay_minutes"),
        F.sum("inherited").alias("inherited_minutes"),
        F.sum("stormy").alias("stormy"),
    )


if __name__ == "__main__":
    pipeline.run()
