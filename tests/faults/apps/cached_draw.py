"""Two stages that read one cached result at the same time: each number is drawn low or high, by Python.

Arguments: seconds that drawing one partition takes; folders of the two results.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from rekindle.pipeline import FileSink, Pipeline

SECONDS, LOW, HIGH = float(sys.argv[1]), sys.argv[2] + "/low", sys.argv[2] + "/high"
ROWS = 1000

pipeline = Pipeline("cached-draw", default_partitions=2)


@pipeline.source(partition_by="id")
def numbers(spark: SparkSession) -> DataFrame:
    """Whole numbers."""
    return spark.range(ROWS)


@pipeline.stage(exchange="cached")
def drawn(numbers: DataFrame) -> DataFrame:
    """A coin for each number, which comes up differently each time it is tossed."""

    def toss(batches):
        import random
        import time

        import pyarrow

        time.sleep(SECONDS)
        for batch in batches:
            coins = pyarrow.array([random.random() < 0.5 for _ in range(batch.num_rows)])
            yield pyarrow.RecordBatch.from_arrays([batch.column(0), coins], names=["id", "high"])

    return numbers.mapInArrow(toss, "id long, high boolean")


@pipeline.sink(FileSink(LOW), partition_by="id")
def low(drawn: DataFrame) -> DataFrame:
    """The numbers whose coin came up low."""
    return drawn.where("not high").select("id")


@pipeline.sink(FileSink(HIGH), partition_by="id")
def high(drawn: DataFrame) -> DataFrame:
    """All others."""
    return drawn.where("high").select("id")


if __name__ == "__main__":
    pipeline.run()
