"""Loops on Spark: what they end with, what goes on after a failure, and what is said of a body that does not fit."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.loops import LoopStream, LoopTable
from rekindle.runtime.errors import PipelineFailed, PipelineMisuse
from rekindle.runtime.loops.batches import Batch, BatchStore

Pair = tuple[LoopStream, LoopStream]
KM = "city LONG, km LONG"


def a_map(cities: int = 40, roads: int = 70, seed: int = 1) -> networkx.DiGraph:
    """Some cities cannot be reached from city 0."""
    dice, graph = random.Random(seed), networkx.DiGraph()
    graph.add_nodes_from(range(cities))
    for _ in range(roads):
        graph.add_edge(dice.randrange(cities), dice.randrange(cities), km=dice.randint(1, 99))
    return graph


def further(nearer: DataFrame, roads: DataFrame) -> DataFrame:
    there = nearer.withColumnRenamed("km", "so_far").join(roads, F.col("city") == F.col("here"))
    return there.select(F.col("there").alias("city"), (F.col("so_far") + F.col("km")).alias("km"))


def shorter(batch: DataFrame, state: DataFrame) -> DataFrame:
    best, known = batch.groupBy("city").agg(F.min("km").alias("km")), state.withColumnRenamed("km", "known")
    return best.join(known, "city", "left").where("known IS NULL OR km < known").select("city", "km")


class Paths:
    """The shortest ways from city 0; `further` may be another function."""

    def __init__(self, folder: Path, further: Callable[..., Any] = further, **options: Any) -> None:
        self.folder, self.graph = folder, a_map()
        self.pipeline = Pipeline("paths", default_partitions=2)
        edges = [(here, there, data["km"]) for here, there, data in self.graph.edges(data=True)]

        @self.pipeline.source(partition_by="here")
        def roads(spark: SparkSession) -> DataFrame:
            return spark.createDataFrame(edges, "here LONG, there LONG, km LONG")

        @self.pipeline.source
        def start(spark: SparkSession) -> DataFrame:
            return spark.createDataFrame([(0, 0)], KM)

        @self.pipeline.iterate_with_feedback("start", partition_by="city", **options)
        def reached(start: LoopStream, nearer: LoopStream, roads: LoopTable) -> Pair:
            best = start.union(nearer.transform(further, roads, name="further")).update(shorter, key="city", schema=KM)
            return best, best.at_end()

        @self.pipeline.sink(FileSink(str(folder / "out")))
        def report(reached: DataFrame) -> DataFrame:
            return reached

    def run(self, spark: SparkSession) -> dict[int, int]:
        self.pipeline.run(spark, store=self.folder / "store")
        return {row.city: row.km for row in spark.read.parquet(str(self.folder / "out")).collect()}

    @property
    def right(self) -> dict[int, int]:
        return networkx.single_source_dijkstra_path_length(self.graph, 0, weight="km")


def activations(caplog: pytest.LogCaptureFixture, what: str = "has ended") -> list[int]:
    """How many there were, as the log says."""
    return [int(number) for number in re.findall(rf"{what} after (\d+) activations", caplog.text)]


@pytest.fixture(autouse=True)
def told(caplog):
    caplog.set_level(logging.INFO, logger="rekindle.runtime.loops")


@pytest.mark.requirement("S8-5", "S9-4", "S10-2", "S10-3")
def test_shortest_paths_are_those_of_networkx_and_nobody_counts_rounds(spark, tmp_path, caplog):
    paths = Paths(tmp_path)
    assert 10 < len(paths.right) < 40
    assert paths.run(spark) == paths.right
    assert activations(caplog)[0] > 3
    assert not list(tmp_path.glob("store/runs/0001/loops")), "what went round is gone with the run"


@pytest.mark.requirement("S8-4", "S8-8", "S8-11", "S10-19")
def test_a_loop_within_a_loop(spark, tmp_path, monkeypatch):
    """Halve while a number is even, within: else three times and one, until it is one. What crosses the border of a
    scope is stored there."""
    stored, write = set[str](), BatchStore.write

    def noted(batches: BatchStore, what: str, *more: Any) -> Batch:
        stored.add(what)
        return write(batches, what, *more)

    monkeypatch.setattr(BatchStore, "write", noted)
    pipeline = Pipeline("collatz", default_partitions=2)

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([(n, n, 0) for n in (1, 3, 4, 5)], "first LONG, n LONG, steps LONG")

    def stepped(batch: DataFrame, where: str, n: str) -> DataFrame:
        return batch.where(where).select(
            "first", F.expr(n).cast("long").alias("n"), (F.col("steps") + 1).alias("steps")
        )

    def halving(stream: LoopStream) -> Pair:
        halved = stream.transform(lambda batch: stepped(batch, "n % 2 = 0", "n / 2"), name="halved")
        return halved, stream.transform(lambda batch: batch.where("n % 2 = 1"), name="odd")

    @pipeline.iterate("numbers")
    def collatz(numbers: LoopStream) -> Pair:
        odd = numbers.iterate(halving)
        tripled = odd.transform(lambda batch: stepped(batch, "n > 1", "3 * n + 1"), name="tripled")
        return tripled, odd.transform(lambda batch: batch.where("n = 1"), name="ones")

    @pipeline.sink(FileSink(str(tmp_path / "out")))
    def report(collatz: DataFrame) -> DataFrame:
        return collatz

    pipeline.run(spark, store=tmp_path / "store")
    found = {(row["first"], row["steps"]) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found == {(1, 0), (3, 7), (4, 2), (5, 5)}
    assert stored == {"collatz.entry", "collatz.halving.odd", "collatz.ones", "feedback"}


@pytest.mark.requirement("S9-4")
def test_what_raises_in_one_activation_is_named_and_the_next_run_goes_on_behind_the_last_that_was_whole(
    spark, tmp_path, caplog
):
    calls = tmp_path / "calls"
    calls.write_text("")

    def fails_once(nearer: DataFrame, roads: DataFrame) -> DataFrame:
        calls.write_text(calls.read_text() + ".")
        if len(calls.read_text()) == 4:  # the first is for its columns alone
            raise OSError("the map is torn")
        return further(nearer, roads)

    paths = Paths(tmp_path, fails_once)
    with pytest.raises(PipelineFailed, match=r"loop reached, activation 4 of 'further': its function raised OSError"):
        paths.run(spark)
    assert paths.run(spark) == paths.right
    assert activations(caplog, "goes on") == [3]
    (total,) = activations(caplog)
    undisturbed = Paths(tmp_path / "again")
    undisturbed.run(spark)
    assert activations(caplog) == [total, total]


def test_what_a_task_raises_is_told_with_the_activation(spark, tmp_path):
    def torn(batches: Any) -> Any:
        for batch in batches:
            if 7 in batch.column("city").to_pylist():
                raise ValueError("the map is torn at 7")
            yield batch

    paths = Paths(tmp_path, lambda nearer, roads: further(nearer, roads).mapInArrow(torn, KM))
    assert 7 in paths.right
    said = r"loop reached, activation [2-9], while reached/shorter was written: .*the map is torn at 7"
    with pytest.raises(PipelineFailed, match=said):
        paths.run(spark)


def test_a_key_that_is_null_fails_the_activation(spark, tmp_path):
    paths = Paths(tmp_path, lambda nearer, roads: further(nearer, roads).withColumn("city", F.expr("nullif(city, 7)")))
    with pytest.raises(PipelineFailed, match=r"update 'shorter' returns a row whose key 'city' is null"):
        paths.run(spark)


def test_a_bound_that_is_reached_is_an_error_that_names_it(spark, tmp_path):
    paths = Paths(tmp_path, most_activations=3)
    with pytest.raises(PipelineFailed, match=r"loop reached has not ended after 3 activations \(most_activations\)"):
        paths.run(spark)


def test_a_loop_that_puts_nothing_out_has_the_columns_of_what_it_would_have(spark, tmp_path):
    pipeline = Pipeline("nothing", default_partitions=2)

    @pipeline.source
    def start(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([(1, 2)], KM)

    @pipeline.iterate("start")
    def nothing(start: LoopStream) -> Pair:
        gone = start.transform(lambda batch: batch.where("false"), name="gone")
        return gone, gone.transform(lambda batch: batch.select(F.col("km").alias("far")), name="far")

    @pipeline.sink(FileSink(str(tmp_path / "out")))
    def report(nothing: DataFrame) -> DataFrame:
        return nothing.agg(F.count("far").alias("n"))

    pipeline.run(spark, store=tmp_path / "store")
    assert [row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [0]


def one_loop(body: Callable[[LoopStream], Pair]) -> Pipeline:
    pipeline = Pipeline("odd", default_partitions=2)

    @pipeline.source
    def start(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([(1, 2)], KM)

    pipeline.iterate("start", name="odd")(body)

    @pipeline.sink("out")
    def report(odd: DataFrame) -> DataFrame:
        return odd

    return pipeline


def renamed(batch: DataFrame) -> DataFrame:
    return batch.withColumnRenamed("km", "miles")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            lambda start: (start.transform(renamed), start),
            "what is fed back has the columns city bigint, miles bigint, what comes in city bigint, km bigint",
        ),
        (
            lambda start: (start.union(start.transform(renamed)), start),
            "union is of streams with the columns city bigint, km bigint and city bigint, miles bigint",
        ),
        (
            lambda start: (
                start.update(lambda batch, state: renamed(batch), key="city", schema=KM, name="kept"),
                start,
            ),
            "update 'kept' returns the columns city bigint, miles bigint, its schema says city bigint, km bigint",
        ),
        (
            lambda start: (start.update(shorter, key="town", schema=KM), start),
            "update 'shorter' has the key 'town', which its schema has not",
        ),
    ],
)
def test_columns_that_do_not_fit_are_told_before_anything_goes_round(spark, tmp_path, body, said):
    with pytest.raises(PipelineMisuse, match=re.escape(said)):
        one_loop(body).run(spark, store=tmp_path / "store")


def test_a_function_that_returns_no_frame(spark, tmp_path):
    body = one_loop(lambda start: (start.transform(lambda batch: batch.count(), name="counted"), start))
    with pytest.raises(PipelineFailed, match=r"of 'counted': its function returned int, not a DataFrame"):
        body.run(spark, store=tmp_path / "store")
