"""A stage that partitions by a random key: made twice, it sends rows elsewhere.

Arguments: the number of partitions of that stage; the share of the numbers that goes to three of them; "random", or
"same" for a key that is the same each time, which the stage does not promise.

Each number must arrive exactly once, whatever is lost while the stage runs (E-4 of FLIP-1's reasons).
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

PARTITIONS, HEAVY_SHARE, KEY, OUT = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
ROWS = 1_500_000
HEAVY_BUCKETS = (9, 49, 11)
"""Of 12 partitions these are in the last three, which the three executors work on last and together."""

pipeline = Pipeline("random-key", default_partitions=PARTITIONS)


@pipeline.source(partition_by="bucket", deterministic=False if KEY == "random" else None)
def scattered(spark: SparkSession) -> DataFrame:
    """Numbers, each in a bucket drawn at random, wide enough that writing them takes a while."""
    wide = [F.sha2(F.concat_ws("-", "id", F.lit(n)), 256).alias(f"w{n}") for n in range(3)]
    heavy = F.array(*(F.lit(bucket) for bucket in HEAVY_BUCKETS))[(F.rand() * 3).cast("int")]
    anywhere = (F.rand() * 1000).cast("int") if KEY == "random" else (F.col("id") % 1000).cast("int")
    bucket = F.when(F.rand() < HEAVY_SHARE, heavy).otherwise(anywhere)
    return spark.range(0, ROWS, 1, 3).select("id", bucket.alias("bucket"), *wide)


@pipeline.sink(FileSink(OUT), pointwise=True)
def arrived(scattered: DataFrame) -> DataFrame:
    """The numbers that arrived."""
    return scattered.select("id")


if __name__ == "__main__":
    pipeline.run()
