"""Where sinks write to, in one spelling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource

from rekindle.pipeline import FileSink, Pipeline, PipelineError, Sink, SparkSink
from rekindle.pipeline.fingerprint import stage_fingerprint


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/out/report", "/out/report"),
        ("/out//x/../report/", "/out/report"),
        ("file:///out/report/", "/out/report"),
        ("s3a://bucket/x/../report/", "s3a://bucket/report"),
    ],
)
def test_one_place_has_one_spelling(path, target):
    assert FileSink(path).target == target


def test_a_relative_path_is_below_the_working_directory():
    assert FileSink("out/./report").target == os.path.join(os.getcwd(), "out", "report")
    assert FileSink("out/report").path == "out/report"


def test_a_path_may_be_an_object():
    sink = FileSink(Path("out") / "report")  # type: ignore[arg-type]
    assert sink == FileSink("out/report")
    assert str(sink) == "parquet files in out/report"


@pytest.mark.requirement("S5-6", "S5-7")
def test_the_file_sink_takes_concurrent_attempts_and_others_must_say_so():
    class Queue(Sink):
        target = "queue:delays"

    assert FileSink("out").supports_concurrent_execution_attempts is True
    assert FileSink("out", supports_concurrent_execution_attempts=False).supports_concurrent_execution_attempts is False
    assert Queue().supports_concurrent_execution_attempts is False
    assert isinstance(FileSink("out"), Sink)
    assert not isinstance("out", Sink)


class Letters(DataSource):
    @classmethod
    def name(cls) -> str:
        return "letters"


@pytest.mark.parametrize(
    ("sink", "target"),
    [
        (
            SparkSink("jdbc", {"url": "jdbc:postgresql://db/x", "DbTable": "totals", "password": "secret"}),
            "jdbc totals",
        ),
        (SparkSink("parquet", {"path": "s3a://bucket/out"}, "overwrite"), "parquet s3a://bucket/out"),
        (SparkSink(table="shop.totals"), "shop.totals"),
        (SparkSink(Letters, {"path": "/out"}), "letters /out"),
        (SparkSink("noop"), "noop"),
    ],
    ids=str,
)
def test_a_sink_that_spark_writes_to_is_told_by_format_and_place(sink, target):
    assert sink.target == target
    assert "secret" not in str(sink)


@pytest.mark.requirement("S5-6", "S5-7")
def test_a_sink_that_spark_writes_to_takes_concurrent_attempts_for_they_write_to_the_store():
    assert SparkSink("jdbc").supports_concurrent_execution_attempts


def test_only_what_replaces_may_be_written_again_unless_somebody_says_so():
    told = [SparkSink("jdbc", mode=mode, repeatable=says).may_repeat for mode in MODES for says in (None, True, False)]
    assert told == [False, True, False, True, True, False]


MODES: tuple[Any, ...] = ("append", "overwrite")


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        (SparkSink(), "without a format and a table"),
        (SparkSink("jdbc", mode="error"), "mode='error'"),  # type: ignore[arg-type]
        (SparkSink(int), "format=<class 'int'>"),
        (SparkSink("jdbc", options=[("password", "secret")]), "whose options are a list"),  # type: ignore[arg-type]
        (SparkSink("jdbc", repeatable="no"), "repeatable='no'"),  # type: ignore[arg-type]
        (SparkSink(Letters), "Letters, which has no batch writer"),
    ],
    ids=["nowhere", "mode", "class", "options", "repeatable", "no writer"],
)
def test_a_sink_that_spark_cannot_write_to_is_refused(sink, problem):
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(sink, name="b")(lambda a: a)
    with pytest.raises(PipelineError) as refused:
        pipeline.build()
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)


def places(*sinks: Sink) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    for number, sink in enumerate(sinks):
        pipeline.sink(sink, name=f"s{number}")(lambda a: a)
    return pipeline


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FileSink("out/a"), SparkSink("parquet", {"path": "./out/a/"}, "overwrite")),
        (SparkSink("csv", {"path": "out/a"}), SparkSink("parquet", {"Path": "out/a/b"})),
        (
            SparkSink("jdbc", {"url": "x", "dbtable": "t"}),
            SparkSink("jdbc", {"dbtable": "t", "url": "x", "password": "y"}),
        ),
        (SparkSink(table="t"), SparkSink(table="t", mode="overwrite")),
    ],
    ids=str,
)
def test_two_sinks_of_one_place_are_refused(one, other):
    with pytest.raises(PipelineError, match="sink 's0'"):
        places(one, other).build()


def test_sinks_of_places_that_only_look_alike_are_not():
    places(
        SparkSink("jdbc", {"url": "one", "dbtable": "t"}),
        SparkSink("jdbc", {"url": "other", "dbtable": "t"}),
        SparkSink("mongodb", {"collection": "t"}),
        SparkSink(table="t"),
    ).build()


def test_where_spark_writes_is_no_part_of_what_is_stored():
    known = {
        stage_fingerprint(places(sink).build(), "s0")
        for sink in (SparkSink("jdbc", {"password": "a"}), SparkSink("jdbc", {"password": "b"}, "overwrite"))
    }
    assert len(known) == 1
