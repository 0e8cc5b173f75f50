"""How far each city of a road is from the first, found by a loop, a city in each activation.

Arguments: a folder for what happens; the folder of the result. The function that goes one road further notes each of
its calls in `calls`; at the 4th and the 8th the driver is to die, and while tasks of the 11th run, on all executors,
one of these. That is asked for by a file `driver`, `driver-again` or `executor`; who has asked goes on when it is gone.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.pipeline import FileSink, Pipeline

FOLDER, OUT = Path(sys.argv[1]), sys.argv[2]
CITIES = 8
ROW = "city LONG, km LONG"
FAULTS, IN_TASKS = {4: "driver", 8: "driver-again"}, 11

pipeline = Pipeline("road", default_partitions=3)


@pipeline.source(partition_by="here")
def roads(spark):
    return spark.range(CITIES - 1).select(
        F.col("id").alias("here"), (F.col("id") + 1).alias("there"), (F.col("id") + 10).alias("km")
    )


@pipeline.source
def start(spark):
    return spark.createDataFrame([(0, 0)], ROW)


def ask(folder, fault):
    """Once, whoever asks; and wait until it is done."""
    try:
        (folder / f"{fault}-asked").touch(exist_ok=False)
        (folder / fault).touch()
    except FileExistsError:
        pass
    end = time.monotonic() + 60
    while (folder / fault).exists():
        assert time.monotonic() < end, f"{fault}: it has not happened"
        time.sleep(0.05)


def further(nearer, roads):
    """One road on from each city."""
    with open(FOLDER / "calls", "a") as calls:
        calls.write(".")
    number = (FOLDER / "calls").stat().st_size
    if number in FAULTS:
        ask(FOLDER, FAULTS[number])
    there = nearer.withColumnRenamed("km", "so_far").join(roads, F.col("city") == F.col("here"))
    on = there.select(F.col("there").alias("city"), (F.col("so_far") + F.col("km")).alias("km"))
    folder = FOLDER

    def halted(batches):
        ask(folder, "executor")
        yield from batches

    return on.mapInArrow(halted, on.schema) if number == IN_TASKS else on


def shorter(batch, state):
    """Cities that are nearer than was known."""
    best, known = batch.groupBy("city").agg(F.min("km").alias("km")), state.withColumnRenamed("km", "known")
    return best.join(known, "city", "left").where("known IS NULL OR km < known").select("city", "km")


@pipeline.iterate_with_feedback("start", partition_by="city")
def far(start, nearer, roads):
    best = start.union(nearer.transform(further, roads)).update(shorter, key="city", schema=ROW)
    return best, best.at_end()


@pipeline.sink(FileSink(OUT))
def report(far):
    return far


if __name__ == "__main__":
    spark = rekindle.configure(SparkSession.builder).getOrCreate()
    pipeline.run(spark)
    spark.stop()
