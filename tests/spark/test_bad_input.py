"""What goes wrong is told on one screen, with the stage, the remedy and the user's own traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.local.stored import corrupt_partition
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed, PipelineMisuse, StoreFull, StoreRefused
from rekindle.runtime.layout import IDENTITY
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.store import Store


def pipeline_of(out: Path, body, name: str = "bad", **options) -> Pipeline:
    """A source of ten numbers, and a sink made by `body` from its DataFrame."""
    pipeline = Pipeline(name, default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    def result(numbers: DataFrame) -> DataFrame:
        return body(numbers)

    pipeline.sink(FileSink(str(out), **options), partitions=2)(result)
    return pipeline


def test_user_code_that_raises_on_an_executor_shows_its_own_frames_and_no_jvm(spark, tmp_path):
    def body(numbers):
        @F.udf("int")
        def invert(value):
            return 10 // (value - 7)

        return numbers.select(invert("id"))

    with pytest.raises(PipelineFailed) as caught:
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")
    text = str(caught.value)
    assert "stage result" in text
    assert "ZeroDivisionError" in text
    assert "return 10 // (value - 7)" in text or "in invert" in text
    assert "\tat " not in text
    assert "pyspark.zip" not in text
    assert len(text.splitlines()) < 25
    assert not (tmp_path / "out").exists()


def test_a_stage_function_that_raises_shows_its_own_frames(spark, tmp_path):
    def body(numbers):
        return numbers.select("no_such_column")

    with pytest.raises(PipelineFailed) as caught:
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")
    text = str(caught.value)
    assert "stage result: its function raised AnalysisException" in text
    assert 'numbers.select("no_such_column")' in text
    assert "\tat " not in text


def test_a_stage_that_returns_no_dataframe_is_named(spark, tmp_path):
    with pytest.raises(PipelineFailed, match=r"(?s)stage result: its function returned NoneType.*return"):
        pipeline_of(tmp_path / "out", lambda numbers: None).run(spark, store=tmp_path / "store")


@pytest.mark.requirement("S6-8")
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_barrier_stage_is_refused(spark, tmp_path, shuffled):
    def body(numbers):
        together = numbers.mapInPandas(lambda frames: frames, "id long", barrier=True)
        return together.groupBy("id").count() if shuffled else together

    with pytest.raises(PipelineMisuse, match=r"(?s)stage result runs tasks in barrier mode.*leave barrier=True out"):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")


def test_a_stage_function_that_ends_the_program_is_an_error_of_its_own(spark, tmp_path):
    def body(numbers):
        sys.exit("enough")

    with pytest.raises(PipelineFailed, match=r"(?s)stage result: its function raised SystemExit.*enough"):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")


def test_an_exception_that_cannot_be_shown_is_an_error_all_the_same(spark, tmp_path):
    class UnsayableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    def body(numbers):
        raise UnsayableError

    with pytest.raises(PipelineFailed, match=r"(?s)its function raised UnsayableError.*cannot be made: ValueError"):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")


def test_an_error_of_the_users_that_speaks_of_lost_executors_is_not_tried_for_ever(spark, tmp_path):
    def body(numbers):
        return numbers.selectExpr("CAST(raise_error('FetchFailed, Worker lost') AS long) AS id")

    with pytest.raises(PipelineFailed, match="FetchFailed, Worker lost"):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")


def test_a_result_without_columns_is_refused(spark, tmp_path):
    with pytest.raises(PipelineMisuse, match="stage result: its result has no columns"):
        pipeline_of(tmp_path / "out", lambda numbers: numbers.select()).run(spark, store=tmp_path / "store")


def test_a_shuffle_behind_an_rdd_in_a_pointwise_stage_is_refused(spark, tmp_path):
    pipeline = Pipeline("hidden", default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.sink(str(tmp_path / "out"), pointwise=True)
    def moved(numbers: DataFrame) -> DataFrame:
        rows = numbers.rdd.map(lambda row: (row[0] % 3, row[0])).groupByKey(2).flatMap(lambda pair: [(pair[0],)])
        return rows.toDF("id long")

    with pytest.raises(PipelineMisuse, match="stage moved is pointwise, but it shuffles behind an RDD"):
        pipeline.run(spark, store=tmp_path / "store")


def test_a_partition_key_that_the_result_lacks_is_named(spark, tmp_path):
    pipeline = Pipeline("keys", default_partitions=2)

    @pipeline.source
    def customers(spark: SparkSession) -> DataFrame:
        return spark.range(3).withColumnRenamed("id", "customer")

    @pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="custommer")
    def out(customers: DataFrame) -> DataFrame:
        return customers

    with pytest.raises(
        PipelineMisuse, match=r"stage out: partition_by names 'custommer', its result has \['customer'\]"
    ):
        pipeline.run(spark, store=tmp_path / "store")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda numbers: numbers.withColumn("ID", F.lit(1)).toDF("a", "A"), "two columns 'A'"),
        (
            lambda numbers: numbers.select(F.lit(None).alias("nothing")),
            "column 'nothing' of type void cannot be stored",
        ),
        (
            lambda numbers: numbers.selectExpr("named_struct('a', id, 'A', id) AS twice"),
            "column 'twice' of type struct<a:bigint,A:bigint> cannot be stored",
        ),
        (lambda numbers: numbers.selectExpr("array(struct()) AS empty"), "column 'empty' of type array<struct<>>"),
    ],
)
def test_a_result_that_cannot_be_stored_names_the_column(spark, tmp_path, body, words):
    if "two columns" in words:
        body = lambda numbers: numbers.select(F.col("id").alias("a"), F.col("id").alias("A"))  # noqa: E731
    with pytest.raises(PipelineMisuse, match=words):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")


@pytest.mark.parametrize(
    ("column", "kind"), [("array(id)", "array<bigint>"), ("x'ff00'", "binary"), ("INTERVAL '1' DAY", "interval day")]
)
def test_a_result_that_csv_cannot_hold_is_refused_before_any_task(spark, tmp_path, column, kind):
    textless = pipeline_of(tmp_path / "out", lambda numbers: numbers.selectExpr(f"{column} AS a"), format="csv")
    with pytest.raises(PipelineMisuse, match=f"column 'a' of type {kind} cannot be written as csv"):
        textless.run(spark, store=tmp_path / "store")


def test_a_stage_that_observes_its_rows_is_refused(spark, tmp_path):
    """Who waits for the figures in a later stage would wait for ever."""
    observed = pipeline_of(tmp_path / "out", lambda numbers: numbers.observe(Observation(), F.count("id").alias("n")))
    with pytest.raises(PipelineMisuse, match=r"(?s)stage result observes its rows.*aggregates"):
        observed.run(spark, store=tmp_path / "store")


def test_a_sink_that_exists_is_refused_before_any_work_and_left_alone(spark, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("mine")
    with pytest.raises(PipelineMisuse, match=r"(?s)out exists already.*overwrite"):
        pipeline_of(tmp_path / "out", lambda numbers: numbers).run(spark, store=tmp_path / "store")
    assert (tmp_path / "out" / "precious").read_text() == "mine"


@pytest.mark.parametrize("sink", ["store", "store/out", "."])
def test_a_sink_and_a_store_one_in_the_other_are_refused(spark, tmp_path, sink):
    with pytest.raises(PipelineMisuse, match="lie one in the other"):
        pipeline_of(tmp_path / sink, lambda numbers: numbers, mode="overwrite").run(spark, store=tmp_path / "store")


def test_what_somebody_writes_to_a_sink_during_the_run_is_left_alone(spark, tmp_path):
    def body(numbers):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "precious").write_text("mine")
        return numbers

    with pytest.raises(PipelineMisuse, match=r"out exists already"):
        pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]
    assert not list(tmp_path.glob(".out*"))


def fail_once(spark, tmp_path, **run) -> Pipeline:
    """Leave a store behind in which `numbers` is stored and `result` failed."""
    switch = tmp_path / "broken"
    switch.touch()

    def body(numbers):
        def stop(batches):
            assert not switch.exists(), "broken for now"
            yield from batches

        return numbers.mapInArrow(stop, numbers.schema)

    pipeline = pipeline_of(tmp_path / "out", body)
    with pytest.raises(PipelineFailed, match="broken for now"):
        pipeline.run(spark, store=tmp_path / "store", **run)
    switch.unlink()
    return pipeline


@pytest.mark.requirement("S7-3")
def test_after_a_failure_is_mended_the_next_run_goes_on_from_what_is_stored(spark, tmp_path):
    result = fail_once(spark, tmp_path).run(spark, store=tmp_path / "store")
    assert result.report["run"] == 1
    assert result.report["drivers"] == 2
    assert next(stage for stage in result.report["stages"] if stage["name"] == "numbers")["rerun"] == 0


def test_a_pipeline_that_changed_is_refused_by_name_and_the_store_left_as_it_is(spark, tmp_path):
    fail_once(spark, tmp_path)
    before = sorted(str(path) for path in (tmp_path / "store").rglob("*.parquet"))
    changed = pipeline_of(tmp_path / "out", lambda numbers: numbers.where("id > 3"))
    with pytest.raises(StoreRefused, match=r"(?s)the pipeline changed since this run began: result.*--fresh"):
        changed.run(spark, store=tmp_path / "store")
    assert before
    assert before == sorted(str(path) for path in (tmp_path / "store").rglob("*.parquet"))


@pytest.mark.requirement("S7-5")
def test_a_stage_whose_code_has_changed_is_made_again_where_that_is_wanted_and_no_other(spark, tmp_path):
    fail_once(spark, tmp_path)
    changed = pipeline_of(tmp_path / "out", lambda numbers: numbers.where("id > 3"))
    wanted = {"recovery.changedStages": "rerun"}
    result = changed.run(spark, store=tmp_path / "store", options=wanted)
    assert (result.report["run"], result.report["drivers"]) == (1, 2)
    assert {one["name"]: one["rerun"] for one in result.report["stages"]}["numbers"] == 0
    assert spark.read.parquet(str(tmp_path / "out")).where("id <= 3").count() == 0


@pytest.mark.requirement("S7-31", "S7-32")
def test_the_store_of_another_pipeline_is_refused(spark, tmp_path):
    fail_once(spark, tmp_path)
    other = pipeline_of(tmp_path / "out", lambda numbers: numbers, name="other")
    with pytest.raises(StoreRefused, match=r"(?s)belongs to the pipeline 'bad', this is 'other'"):
        other.run(spark, store=tmp_path / "store")


def test_the_store_of_a_newer_version_is_refused(spark, tmp_path):
    pipeline = fail_once(spark, tmp_path)
    path = tmp_path / "store" / IDENTITY
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 9}))
    with pytest.raises(StoreRefused, match=r"(?s)has format 9, this version of rekindle reads format 1"):
        pipeline.run(spark, store=tmp_path / "store")


def test_a_cut_journal_is_refused_and_nothing_is_damaged(spark, tmp_path):
    pipeline = fail_once(spark, tmp_path)
    segment = sorted((tmp_path / "store").rglob("journal/*.jsonl"))[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreRefused, match=rf"(?s)journal is damaged at .*{segment.name}"):
        pipeline.run(spark, store=tmp_path / "store")
    segment.write_bytes(whole)
    assert pipeline.run(spark, store=tmp_path / "store").report["state"] == "finished"


@pytest.mark.requirement("S7-3", "S7-14")
def test_a_manifest_that_is_gone_costs_its_partition(spark, tmp_path):
    pipeline = fail_once(spark, tmp_path)
    sorted((tmp_path / "store").rglob("numbers/manifests/*.json"))[0].unlink()
    result = pipeline.run(spark, store=tmp_path / "store")
    assert {row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()} == set(range(10))
    assert result.report["losses"][0]["stage"] == "numbers"
    assert result.report["losses"][0]["reason"].startswith("the manifest of numbers/0 is gone")


@pytest.mark.requirement("S7-14")
def test_a_session_that_passes_over_corrupt_files_does_not_pass_over_stored_ones(spark, tmp_path):
    pipeline = fail_once(spark, tmp_path)
    store = Store.at(tmp_path / "store")
    assert corrupt_partition(store, "numbers", 0)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        pipeline.run(spark, store=tmp_path / "store")
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert {row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()} == set(range(10))


@pytest.mark.requirement("S7-14", "S2-30")
def test_a_corrupt_partition_is_made_again_for_a_stage_that_has_fewer_partitions(spark, tmp_path):
    """Spark names the task of the map side that could not read it, which is none of the stage's partitions."""
    mended = tmp_path / "mended"
    pipeline = Pipeline("fewer", default_partitions=8)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(1000)

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=1)
    def total(numbers: DataFrame) -> DataFrame:
        if not mended.exists():
            raise ValueError("not yet")
        return numbers

    with pytest.raises(PipelineFailed, match="not yet"):
        pipeline.run(spark, store=tmp_path / "store")
    mended.touch()
    for partition in (3, 5, 6):
        assert corrupt_partition(Store.at(tmp_path / "store"), "numbers", partition)
    report = pipeline.run(spark, store=tmp_path / "store").report
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(1000))
    assert [stage["rerun"] for stage in report["stages"] if stage["name"] == "numbers"] == [3]


def test_a_cut_manifest_costs_its_partition(spark, tmp_path):
    pipeline = fail_once(spark, tmp_path)
    manifest = sorted((tmp_path / "store").rglob("numbers/manifests/*.json"))[0]
    manifest.write_bytes(manifest.read_bytes()[:20])
    result = pipeline.run(spark, store=tmp_path / "store")
    assert {row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()} == set(range(10))
    assert result.report["losses"][0]["stage"] == "numbers"


def test_a_manifest_that_was_damaged_before_anyone_counted_on_it_is_written_again(spark, tmp_path):
    damaged = tmp_path / "store/runs/0001/stages/result/manifests/p00001-v0001.json"

    def body(numbers):
        damaged.parent.mkdir(parents=True, exist_ok=True)
        damaged.write_bytes(b"{half")
        return numbers

    result = pipeline_of(tmp_path / "out", body).run(spark, store=tmp_path / "store")
    assert {row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()} == set(range(10))
    (loss,) = result.report["losses"]
    assert (loss["stage"], loss["partitions"]) == ("result", [1])
    assert "is damaged" in loss["reason"]


def test_executors_that_write_to_another_place_than_the_driver_reads_are_refused(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("rekindle.runtime.driving._MANIFEST_SECONDS", 2.0)
    names = PosixStorage.names

    def hide_manifests(self: PosixStorage, folder: str) -> list[str]:
        return [] if folder.endswith("manifests") else names(self, folder)

    monkeypatch.setattr(PosixStorage, "names", hide_manifests)
    with pytest.raises(StoreRefused, match=r"(?s)partitions \[0, 1\] have ended well, but .*is the volume mounted"):
        pipeline_of(tmp_path / "out", lambda numbers: numbers).run(spark, store=tmp_path / "store")


@pytest.mark.requirement("S7-30")
def test_a_store_limit_ends_the_run_and_a_higher_one_goes_on(spark, tmp_path):
    pipeline = pipeline_of(tmp_path / "out", lambda numbers: numbers)
    with pytest.raises(StoreFull, match=r"(?s)its limit is 10.*storeLimit"):
        pipeline.run(spark, store=tmp_path / "store", options={"recovery.storeLimit": "10"})
    result = pipeline.run(spark, store=tmp_path / "store", options={"recovery.storeLimit": "1g"})
    assert result.report["drivers"] == 2


def test_a_schema_that_changed_under_a_half_done_stage_is_refused(spark, tmp_path):
    width = tmp_path / "width"
    width.write_text("int")
    stop = tmp_path / "stop"
    stop.touch()
    pipeline = Pipeline("schema", default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def cast(numbers: DataFrame) -> DataFrame:
        def half(batches):
            import time

            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            deadline = time.monotonic() + 30
            while context.partitionId() == 1 and stop.exists():
                half_done = list(tmp_path.glob("store/runs/*/stages/cast/manifests/*.json"))
                assert not half_done, "stopped half-way"
                assert time.monotonic() < deadline, "partition 0 was never committed"
                time.sleep(0.1)
            yield from batches

        return numbers.mapInArrow(half, "id long").select(F.col("id").cast(width.read_text()))

    with pytest.raises(PipelineFailed, match="stopped half-way"):
        pipeline.run(spark, store=tmp_path / "store")
    stop.unlink()
    width.write_text("string")
    with pytest.raises(StoreRefused, match=r"(?s)stage cast: its schema changed since this run began"):
        pipeline.run(spark, store=tmp_path / "store")


@pytest.mark.requirement("S1-1")
def test_a_detector_that_fails_ends_the_run_with_a_last_record(spark, tmp_path, monkeypatch):
    class Broken:
        def find_slow(self, graph, now):
            raise ArithmeticError("a defect of the detector")

    monkeypatch.setattr("rekindle.runtime.job_master._detector", lambda *_: Broken())
    with pytest.raises(ArithmeticError, match="a defect of the detector"):
        pipeline_of(tmp_path / "out", lambda numbers: numbers).run(spark, store=tmp_path / "store")
    last = sorted((tmp_path / "store").rglob("journal/*.jsonl"))[-1].read_text()
    assert "RunFailed" in last
    assert "a defect of the detector" in last


def test_an_unknown_option_is_named_with_the_nearest(spark, tmp_path):
    pipeline = pipeline_of(tmp_path / "out", lambda numbers: numbers)
    with pytest.raises(PipelineMisuse, match=r"(?s)speculation\.enable.*enabled"):
        pipeline.run(spark, store=tmp_path / "store", options={"speculation.enable": "true"})
