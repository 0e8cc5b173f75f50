"""What a plan of a stage depends on."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.inputs import input_versions

pipeline = Pipeline("inputs", default_partitions=2)


@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    """Stored."""
    return spark.range(10)


@pipeline.stage(exchange="cached")
def drawn(numbers: DataFrame) -> DataFrame:
    """Held by executors."""
    return numbers


@pipeline.stage(exchange="pipelined")
def fused(drawn: DataFrame) -> DataFrame:
    """Part of its reader."""
    return drawn


@pipeline.sink(FileSink("/nowhere"))
def result(fused: DataFrame) -> DataFrame:
    """What is asked for."""
    return fused


def test_a_plan_is_out_of_date_when_a_stored_or_a_cached_input_has_a_new_version():
    graph = pipeline.build()
    versions = {"numbers": (1, 1), "drawn": (1,), "result": (1, 1)}
    planned = input_versions(graph, graph.stage("result"), versions)
    assert planned == (("numbers", (1, 1)), ("drawn", (1,)))
    assert input_versions(graph, graph.stage("result"), {**versions, "drawn": (2,)}) != planned
    assert input_versions(graph, graph.stage("result"), {**versions, "result": (2, 2)}) == planned
