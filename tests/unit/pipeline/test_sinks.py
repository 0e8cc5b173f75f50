"""Where sinks write to, in one spelling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource

from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import DataSourceSink, FileSink, Pipeline, PipelineError, Sink, SparkSink
from rekindle.pipeline.eligibility import why_not_speculated
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
    assert str(FileSink("out", "csv", hive_partitions=["a", "b"])) == "csv files in out by a, b"


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


class Postbox(Letters):
    def writer(self, schema: Any, overwrite: bool) -> Any:
        return overwrite


class Registered(Postbox):
    supports_concurrent_execution_attempts = True
    idempotent_commit = True


@pytest.mark.requirement("S5-6", "S5-7")
def test_the_class_of_a_data_source_says_what_its_writer_bears_or_else_the_sink():
    assert not DataSourceSink(Postbox).supports_concurrent_execution_attempts
    assert DataSourceSink(Registered).supports_concurrent_execution_attempts
    assert DataSourceSink(Postbox, concurrent_attempts=True).supports_concurrent_execution_attempts
    assert not DataSourceSink(Registered, concurrent_attempts=False).supports_concurrent_execution_attempts
    assert [DataSourceSink(one).may_repeat for one in (Postbox, Registered)] == [False, True]
    assert DataSourceSink(Postbox, mode="overwrite").may_repeat
    assert not DataSourceSink(Registered, repeatable=False).may_repeat


@pytest.mark.requirement("S5-5")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (Postbox, "its sink does not support concurrent execution attempts: its class does not say "
         "supports_concurrent_execution_attempts = True"),
        (Registered, None),
    ],
    ids=["postbox", "registered"],
)  # fmt: skip
def test_a_data_source_that_does_not_say_that_it_bears_copies_gets_none(source, reason):
    graph = writing(DataSourceSink(source)).build()
    options = SpeculationOptions(enabled=True, sink_enabled=True)
    assert why_not_speculated(graph, graph.stage("out"), options) == reason


def test_other_code_or_another_place_has_it_written_again_and_another_password_has_not():
    def fingerprint(sink: Sink) -> str:
        return stage_fingerprint(writing(sink).build(), "out")

    first = fingerprint(DataSourceSink(Postbox, {"dbtable": "a", "password": "x"}))
    assert fingerprint(DataSourceSink(Postbox, {"dbtable": "a", "password": "y"})) == first
    assert fingerprint(DataSourceSink(Postbox, {"dbtable": "b", "password": "x"})) != first
    assert fingerprint(DataSourceSink(Registered, {"dbtable": "a", "password": "x"})) != first
    assert fingerprint(DataSourceSink(Postbox, {"dbtable": "a", "password": "x"}, "overwrite")) != first


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{password}@db:5432/shop?user=a@b",
        "jdbc:postgresql://db/shop?user=me&password={password}&ssl=true",
        "host=db password='{password}' dbname=shop",
    ],
    ids=["of a user", "of a query", "of a connection string"],
)
def test_a_place_says_nothing_of_a_password_within_its_url(url):
    def place(password: str, table: str = "a") -> str:
        return DataSourceSink(Postbox, {"url": url.format(password=password), "table": table}).place

    assert place("x") == place("another%20one")
    assert place("x", "b") != place("x")
    others = [url.replace("shop", "bank"), url.replace("me", "you"), url.replace("db", "db2")]
    places = {DataSourceSink(Postbox, {"url": one.format(password="x"), "table": "a"}).place for one in [url, *others]}
    assert len(places) == len({url, *others})


def writing(sink: Sink) -> Pipeline:
    pipeline = Pipeline("writing")

    @pipeline.source
    def some(spark: Any) -> Any:
        return spark

    pipeline.sink(sink, name="out")(lambda some: some)
    return pipeline


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
        (DataSourceSink(Letters, {"Path": "/out"}), "letters /out"),
        (DataSourceSink(Letters, {"token": "secret"}), "letters"),
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
        (DataSourceSink("jdbc"), "for a format of Spark's use SparkSink"),
        (DataSourceSink(Letters), "Letters, which has no batch writer"),
        (DataSourceSink(Postbox, mode="error"), "DataSourceSink with mode='error'"),  # type: ignore[arg-type]
        (DataSourceSink(Postbox, concurrent_attempts=2), "concurrent_attempts=2"),  # type: ignore[arg-type]
    ],
    ids=[
        "nowhere",
        "mode",
        "class",
        "options",
        "repeatable",
        "no writer",
        "format",
        "unwritable",
        "its mode",
        "attempts",
    ],
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
        (FileSink("out/a"), DataSourceSink(Postbox, {"path": "out/a/b"})),
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
