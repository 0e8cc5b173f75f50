"""A shuffle that nobody can fetch, while all executors live."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Without speculation: with it, Spark keeps off the only executor after the first failed fetch."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("scratch")))
    for key in ("spark.excludeOnFailure.enabled", "spark.excludeOnFailure.application.fetchFailure.enabled"):
        builder = builder.config(key, "false")  # a builder remembers what was set by builders before it
    session = rekindle.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.parametrize("deterministic", [None, True])
def test_map_outputs_that_nobody_can_fetch_end_the_run_as_they_would_end_a_job_of_sparks(
    spark, tmp_path, deterministic
):
    scratch = Path(spark.sparkContext.getConf().get("spark.local.dir"))
    over = threading.Event()

    def remove() -> None:
        while not over.wait(0.01):
            for file in scratch.glob("blockmgr-*/*/shuffle_*.data"):
                file.unlink(missing_ok=True)

    pipeline = Pipeline("unreachable", default_partitions=2)

    @pipeline.source(partition_by="id", deterministic=deterministic)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 100_000, 1, 2)

    pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True, name="out")(lambda numbers: numbers)
    thread = threading.Thread(target=remove)
    thread.start()
    try:
        with pytest.raises(
            PipelineFailed, match=r"(?s)stage numbers: its map outputs were lost 5 times.*executors reach"
        ):
            pipeline.run(spark, store=tmp_path / "store")
    finally:
        over.set()
        thread.join()
