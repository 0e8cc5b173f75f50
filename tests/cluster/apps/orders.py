"""A table of a database, read by ranges and keyed, a slow stage, and a table with sums by customer. Prints the report,
as JSON.

Arguments: the database; its table; splits; partitions of the slow stage, and seconds that each takes; the table that
is made.
"""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.connectors.database import Database
from rekindle.connectors.postgresql import Postgresql
from rekindle.pipeline import DataSourceSink, Pipeline

url, table, splits, partitions, seconds, made = sys.argv[1:]
pipeline = Pipeline("orders")
options = {"url": url, "dbtable": table, "partitionColumn": "id", "numPartitions": int(splits)}
pipeline.read("orders", Database, options=options, partitions=2)


def slept(batches):
    time.sleep(float(seconds))
    yield from batches


@pipeline.stage(partition_by="customer", partitions=int(partitions))
def keyed(orders):
    """What was read, by customer."""
    return orders


@pipeline.stage(pointwise=True)
def worked(keyed):
    """The same rows, after some time."""
    return keyed.mapInArrow(slept, keyed.schema)


@pipeline.sink(DataSourceSink(Postgresql, {"url": url, "table": made}), partition_by="customer", partitions=2)
def totals(worked):
    """Sums by customer."""
    return worked.groupBy("customer").agg(F.sum("cents").alias("cents"), F.count("*").alias("n"))


spark = rekindle.configure(SparkSession.builder).getOrCreate()
result = pipeline.run(spark)
print("report", json.dumps(result.report))
spark.stop()
