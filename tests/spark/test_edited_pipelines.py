"""A pipeline that is edited before its run has finished: what still fits is read, and the answer is the new one's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.local.stored import lose_partition
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed, StoreRefused
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.store import Store

RERUN = {"recovery.changedStages": "rerun"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = rekindle.configure(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def broken(rows: DataFrame) -> DataFrame:
    raise ValueError(f"broken for now: {rows.columns}")


def sum_of_doubled(doubled: DataFrame) -> DataFrame:
    return doubled.groupBy((F.col("id") / 10).cast("long").alias("tens")).agg(F.sum("value").alias("sum"))


def sum_of_numbers(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy((F.col("id") / 10).cast("long").alias("tens")).agg(F.sum("id").alias("sum"))


def broken_sum(doubled: DataFrame) -> DataFrame:
    return broken(doubled)


class Edited:
    """numbers -> doubled -> summed -> result, and what an edit makes of it."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark = root, spark

    def pipeline(
        self, *, breaks: str = "", partitions: int = 3, doubled: bool = True, factor: int = 2, odd: bool = False
    ) -> Pipeline:
        pipeline = Pipeline("edited", default_partitions=3)

        @pipeline.source(partition_by="id")
        def numbers(spark: SparkSession) -> DataFrame:
            return spark.range(30)

        if doubled:

            @pipeline.stage(name="doubled", partition_by="id", partitions=partitions)
            def double(numbers: DataFrame) -> DataFrame:
                return numbers.select("id", (F.col("id") * factor).alias("value"))

        summing = sum_of_doubled if doubled else sum_of_numbers
        pipeline.stage(name="summed", partition_by="tens")(broken_sum if breaks == "summed" else summing)

        @pipeline.sink(FileSink(str(self.root / "out")), partitions=1)
        def result(summed: DataFrame) -> DataFrame:
            return broken(summed) if breaks == "result" else summed

        if odd:

            @pipeline.sink(FileSink(str(self.root / "odd")), partitions=1)
            def odd_numbers(numbers: DataFrame) -> DataFrame:
                return numbers.where("id % 2 = 1")

        return pipeline

    def run(self, options: dict[str, Any] | None = None, **edit: Any) -> dict[str, Any]:
        """The report of one driver that goes on with the run."""
        result = self.pipeline(**edit).run(
            self.spark, store=self.root / "store", options=RERUN if options is None else options
        )
        return dict(result.report)

    def breaks(self, stage: str = "result", **edit: Any) -> None:
        with pytest.raises(PipelineFailed, match="broken for now"):
            self.run(breaks=stage, **edit)

    def sums(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.root / "out")).orderBy("tens").collect()
        return [row["sum"] for row in rows]

    def stored(self, stage: str) -> bool:
        return Store.at(self.root / "store").holds(RunLayout(1).data(stage, 0))


@pytest.fixture
def edited(spark: SparkSession, tmp_path: Path) -> Edited:
    return Edited(tmp_path, spark)


def attempts(report: dict[str, Any]) -> dict[str, int]:
    """[stage -> attempts of its partitions, of all drivers]"""
    return {stage["name"]: stage["attempts"] for stage in report["stages"]}


@pytest.mark.requirement("S7-3", "S7-5")
def test_other_partitions_of_a_stage_cost_that_stage_and_what_was_made_of_it(edited):
    edited.breaks("summed")
    report = edited.run(partitions=5)
    assert (report["run"], report["drivers"]) == (1, 2)
    assert attempts(report) == {"numbers": 3, "doubled": 3 + 5, "summed": 3, "result": 1}
    assert edited.sums() == [90, 290, 490]


@pytest.mark.requirement("S7-4", "S7-7")
def test_a_new_sink_has_a_result_made_again_that_nobody_needed_any_more_and_nothing_else(edited):
    edited.breaks()
    assert not edited.stored("numbers")
    report = edited.run(odd=True)
    assert attempts(report) == {"numbers": 3 + 3, "doubled": 3, "summed": 3, "result": 1, "odd_numbers": 1}
    assert report["recoveries"][0]["cause"] == "the pipeline was edited"
    assert edited.sums() == [90, 290, 490]
    assert edited.spark.read.parquet(str(edited.root / "odd")).count() == 15


@pytest.mark.requirement("S7-17")
def test_a_stage_that_goes_and_comes_back_with_other_code_is_not_taken_for_the_old_one(edited):
    edited.breaks()
    edited.breaks(doubled=False)
    assert not edited.stored("doubled")
    report = edited.run(factor=3)
    assert attempts(report)["doubled"] == 3 + 3
    assert edited.sums() == [135, 435, 735]


def test_a_stage_is_taken_out_with_what_it_had_stored(edited):
    edited.breaks()
    report = edited.run(doubled=False)
    assert "doubled" not in attempts(report)
    assert edited.sums() == [45, 145, 245]


def test_where_nothing_is_to_be_made_again_an_edit_is_refused_and_the_run_goes_on_as_it_was(edited):
    edited.breaks()
    with pytest.raises(StoreRefused, match=r"(?s)odd_numbers \(new\).*changedStages: rerun"):
        edited.run(options={}, odd=True)
    assert edited.stored("doubled")
    assert edited.run()["drivers"] == 2


class Copied:
    """given -> copied -> result, where `given` has other columns after an edit and `copied` is what it was."""

    def __init__(self, root: Path, spark: SparkSession, *, keys: str, shuffles: bool) -> None:
        self.root, self.spark, self.keys, self.shuffles = root, spark, keys, shuffles

    def pipeline(self, column: str, *, breaks: bool) -> Pipeline:
        pipeline, keys = Pipeline("copied", default_partitions=4), self.keys

        @pipeline.source(partition_by="k")
        def given(spark: SparkSession) -> DataFrame:
            return spark.sql(keys).selectExpr("k", column)

        how: dict[str, Any] = {"partitions": 4} if self.shuffles else {"pointwise": True}

        @pipeline.stage(**how)
        def copied(given: DataFrame) -> DataFrame:
            return given

        @pipeline.sink(FileSink(str(self.root / "out")), partitions=1)
        def result(copied: DataFrame) -> DataFrame:
            return broken(copied) if breaks else copied

        return pipeline

    def loses_one(self) -> None:
        """The first partition of `copied` that has rows."""
        store = Store.at(self.root / "store")
        assert any(lose_partition(store, "copied", partition) for partition in range(4))

    def breaks(self, column: str) -> None:
        with pytest.raises(PipelineFailed, match="broken for now"):
            self.pipeline(column, breaks=True).run(self.spark, store=self.root / "store", options=RERUN)

    def run(self, column: str) -> tuple[list[str], set[tuple[Any, ...]], dict[str, int]]:
        """Types and rows of the result, and how often partitions were made."""
        report = self.pipeline(column, breaks=False).run(self.spark, store=self.root / "store", options=RERUN).report
        out = self.spark.read.parquet(str(self.root / "out"))
        return [f"{name} {kind}" for name, kind in out.dtypes], set(map(tuple, out.collect())), attempts(dict(report))


NINE, ONLY_7, NOTHING = "select explode(sequence(1L, 9L)) as k", "select 7L as k", "select 1L as k where 1 = 0"


@pytest.mark.requirement("S7-5", "S7-7")
@pytest.mark.parametrize("shuffles", [False, True], ids=["pointwise", "after a shuffle"])
@pytest.mark.parametrize("keys", [NINE, NOTHING], ids=["rows", "no row"])
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [("k as a", "k as b", "b bigint"), ("int(k % 2) as a", "k % 2 as a", "a bigint")],
    ids=["another name", "another type"],
)
def test_a_column_of_another_name_or_type_is_another_result(spark, tmp_path, shuffles, keys, before, after, kind):
    """Of the same values: the hashes of rows tell nothing of it."""
    edited = Copied(tmp_path, spark, keys=keys, shuffles=shuffles)
    edited.breaks(before)
    types, rows, made = edited.run(after)
    assert types == ["k bigint", kind]
    assert {row[1] for row in rows} == {row[0] for row in spark.sql(keys).selectExpr(after).collect()}
    assert made["copied"] == 8


@pytest.mark.requirement("S7-5", "S7-7")
@pytest.mark.parametrize(("shuffles", "keys"), [(False, ONLY_7), (True, NINE)], ids=["pointwise", "after a shuffle"])
def test_a_stage_that_is_half_done_with_other_columns_is_made_again_as_a_whole(spark, tmp_path, shuffles, keys):
    """Also where what it had read was nothing before and is nothing now."""
    edited = Copied(tmp_path, spark, keys=keys, shuffles=shuffles)
    edited.breaks("int(k % 2) as a")
    edited.loses_one()
    types, rows, _ = edited.run("k % 2 as a")
    assert types == ["k bigint", "a bigint"]
    assert rows == {(row.k, row.k % 2) for row in spark.sql(keys).collect()}


@pytest.mark.requirement("S7-7")
def test_that_a_plan_knows_a_column_not_to_be_null_makes_no_other_result(spark, tmp_path):
    edited = Copied(tmp_path, spark, keys=NINE, shuffles=False)
    edited.breaks("nullif(k, 0L) as a")
    types, rows, made = edited.run("k as a")
    assert types == ["k bigint", "a bigint"]
    assert rows == {(key, key) for key in range(1, 10)}
    assert made["copied"] == 4
