"""How far each city of a road is from the first, found by a loop, a city in each activation. Prints how often this
driver went one road further, the report, and whether the distances are what arithmetic says, as JSON.

Arguments: cities; seconds that each activation takes; a folder of the driver for the sink.
"""

import json
import sys
import time

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.pipeline import FileSink, Pipeline

cities, seconds, out = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
row = "city LONG, km LONG"
calls: list[None] = []
pipeline = Pipeline("road", default_partitions=2)


@pipeline.source(partition_by="here")
def roads(spark):
    id = F.col("id")
    return spark.range(cities - 1).select(id.alias("here"), (id + 1).alias("there"), (id + 10).alias("km"))


@pipeline.source
def start(spark):
    return spark.createDataFrame([(0, 0)], row)


def further(nearer, roads):
    """One road on from each city."""
    calls.append(None)
    time.sleep(seconds)
    there = nearer.withColumnRenamed("km", "so_far").join(roads, F.col("city") == F.col("here"))
    return there.select(F.col("there").alias("city"), (F.col("so_far") + F.col("km")).alias("km"))


def shorter(batch, state):
    """Cities that are nearer than was known."""
    best, known = batch.groupBy("city").agg(F.min("km").alias("km")), state.withColumnRenamed("km", "known")
    return best.join(known, "city", "left").where("known IS NULL OR km < known").select("city", "km")


@pipeline.iterate_with_feedback("start", partition_by="city")
def far(start, nearer, roads):
    best = start.union(nearer.transform(further, roads)).update(shorter, key="city", schema=row)
    return best, best.at_end()


@pipeline.sink(FileSink(out))
def report(far):
    return far


if __name__ == "__main__":
    spark = rekindle.configure(SparkSession.builder).getOrCreate()
    result = pipeline.run(spark)
    found = {line["city"]: line["km"] for line in pq.read_table(out).to_pylist()}
    print("calls", json.dumps(len(calls)))
    print("report", json.dumps(result.report))
    print("right", json.dumps(found == {city: sum(range(10, 10 + city)) for city in range(cities)}))
    spark.stop()
