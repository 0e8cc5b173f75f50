"""A join with a key that two fifths of the rows have: `skewed_join.py ROWS STEPS PARTITIONS MOMENT`.

Each joined row takes so many steps, so the task of that key takes as much longer as it has more to read. Adaptive
execution and broadcasts, which would do away with the skew, are off.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, length, lit, sha2, udf, when
from pyspark.sql.functions import sum as sum_of

from benchmarks.on_kubernetes.apps.measured import measure
from benchmarks.on_kubernetes.apps.work import burn

KEYS = 997


def job(spark: SparkSession) -> int:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.shuffle.partitions", sys.argv[3])
    rows, number = int(sys.argv[1]), col("id")
    key = when(number % 10 < 4, lit(0)).otherwise(number % KEYS)
    facts = spark.range(0, rows, 1, 6).select(key.alias("key"), "id", sha2(number.cast("string"), 512).alias("text"))
    names = spark.range(0, KEYS, 1, 1).select(number.alias("key"), sha2(number.cast("string"), 256).alias("name"))
    score = udf(lambda number: burn(steps, number), "long")
    joined = facts.join(names, "key").where(length("text") > length("name"))
    [total] = joined.select(score("id").alias("score")).agg(sum_of("score").alias("total")).collect()
    return int(total["total"])


if __name__ == "__main__":
    steps = int(sys.argv[2])
    measure(job, sys.argv[4])
