"""TPC-H's profits once, as a pipeline or as what somebody would write instead: `storing.py plain|hand|rekindle`.

plain stores nothing but the answer, in one lazy plan; hand writes each result that the pipeline stores to a folder of
the store, and reads it back. The clock runs when all executors are there and are warm, until the answer is written.

It prints how long that took, as JSON: seconds, and core_seconds of the whole machine, for whomever.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from benchmarks.job import wait_for_executors
from benchmarks.tpch import peers
from benchmarks.tpch.pipeline import pipeline

WARM_UP_ROWS = 30_000_000


def warm_up(spark: SparkSession) -> None:
    """A shuffle with a map task for each core, so that the start of no executor is in what is measured."""
    cores = spark.sparkContext.defaultParallelism
    spark.range(0, WARM_UP_ROWS, 1, cores).selectExpr("max(xxhash64(id))").collect()


def run(spark: SparkSession, how: str) -> None:
    """The job, to the written answer."""
    if how == "plain":
        peers.profits_plain(spark)
    elif how == "hand":
        peers.profits_by_hand(spark, folder_of(str(spark.conf.get("spark.rekindle.recovery.store"))), partitioned=True)
    else:
        pipeline.run(spark)


def folder_of(store: str) -> str:
    """Where to store by hand, as Spark calls it: of a bucket, by the name of its connector."""
    return f"{store.replace('s3://', 's3a://', 1)}/by-hand"


def busy_seconds() -> float:
    """Seconds in which a core of this node's machine did something."""
    user, nice, system, _idle, _iowait, *rest = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, *rest))) / os.sysconf("SC_CLK_TCK")


def main(how: str) -> None:
    builder = SparkSession.builder
    spark = (rekindle.configure(builder) if how == "rekindle" else builder).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    wait_for_executors(spark)
    warm_up(spark)
    began, busy = time.monotonic(), busy_seconds()
    run(spark, how)
    took = {"seconds": time.monotonic() - began, "core_seconds": busy_seconds() - busy}
    print("took", json.dumps(took), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
