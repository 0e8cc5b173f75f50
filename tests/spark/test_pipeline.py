"""Pipelines in an ordinary session: what a stage may be, and what is stored of it."""

from __future__ import annotations

import datetime
import decimal
import random
import time
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline


def rows(spark: SparkSession, path: Path) -> set[tuple]:
    return {tuple(row) for row in spark.read.parquet(str(path)).collect()}


@pytest.mark.requirement("S1-28", "S2-14")
def test_partitions_are_as_many_as_were_declared_and_other_queries_keep_adaptive_execution(spark, tmp_path):
    """Spark would make one of these eight tiny partitions; what else the session runs, it does so with."""
    pipeline = Pipeline("declared", default_partitions=8)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=8)
    def counted(numbers: DataFrame) -> DataFrame:
        return numbers.groupBy("id").count()

    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    report = pipeline.run(spark, store=tmp_path / "store").report
    assert {stage["name"]: stage["partitions"] for stage in report["stages"]} == {"numbers": 8, "counted": 8}
    files = list((tmp_path / "out").glob("*.parquet"))
    assert 4 < len(files) <= 8  # some partitions may have no rows
    assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive == "true"


def test_keyed_results_join_and_aggregate_without_another_exchange(spark, tmp_path):
    pipeline = Pipeline("keyed", default_partitions=4)
    plans: list[str] = []

    @pipeline.source(partition_by="k")
    def left(spark: SparkSession) -> DataFrame:
        return spark.range(100).withColumn("k", F.col("id") % 10)

    @pipeline.source(partition_by="k")
    def right(spark: SparkSession) -> DataFrame:
        return spark.range(10).select(F.col("id").alias("k"), (F.col("id") * 7).alias("v"))

    @pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="k")
    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        result = left.join(right.hint("merge"), "k").groupBy("k", "v").agg(F.count("*").alias("n"))
        plans.append(result._jdf.queryExecution().executedPlan().toString())
        return result

    pipeline.run(spark, store=tmp_path / "store")
    assert plans
    assert "Exchange" not in plans[0]
    assert rows(spark, tmp_path / "out") == {(k, 7 * k, 10) for k in range(10)}


def test_a_pointwise_stage_makes_partition_i_from_partition_i(spark, tmp_path):
    pipeline = Pipeline("pointwise", default_partitions=5)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(1000).withColumn("made_in", F.lit(-1))

    @pipeline.stage(pointwise=True)
    def first(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("made_in", F.spark_partition_id())

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def second(first: DataFrame) -> DataFrame:
        return first.select("made_in", F.spark_partition_id().alias("read_in"))

    pipeline.run(spark, store=tmp_path / "store")
    assert rows(spark, tmp_path / "out") == {(partition, partition) for partition in range(5)}


def test_a_pointwise_stage_that_shuffles_is_refused_before_any_task(spark, tmp_path):
    pipeline = Pipeline("shuffling", default_partitions=3)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def shuffled(numbers: DataFrame) -> DataFrame:
        return numbers.groupBy("id").count()

    with pytest.raises(Exception, match=r"(?s)stage shuffled is pointwise, but its plan shuffles.*pointwise=True"):
        pipeline.run(spark, store=tmp_path / "store")


@pytest.mark.requirement("S6-12")
def test_pipelined_and_cached_results_feed_their_consumers_and_are_not_stored(spark, tmp_path):
    pipeline = Pipeline("fused", default_partitions=3)

    @pipeline.source(exchange="cached")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(50)

    @pipeline.stage(exchange="pipelined")
    def odd(numbers: DataFrame) -> DataFrame:
        return numbers.where("id % 2 = 1")

    @pipeline.sink(FileSink(str(tmp_path / "odd")), partitions=2)
    def odd_sum(odd: DataFrame) -> DataFrame:
        return odd.agg(F.sum("id").alias("s"))

    @pipeline.sink(FileSink(str(tmp_path / "all")), partitions=2)
    def all_sum(numbers: DataFrame) -> DataFrame:
        return numbers.agg(F.sum("id").alias("s"))

    result = pipeline.run(spark, store=tmp_path / "store")
    assert rows(spark, tmp_path / "odd") == {(sum(range(1, 50, 2)),)}
    assert rows(spark, tmp_path / "all") == {(sum(range(50)),)}
    assert {stage["name"] for stage in result.report["stages"]} == {"odd_sum", "all_sum"}


def test_every_common_type_survives_being_stored(spark, tmp_path):
    pipeline = Pipeline("types", default_partitions=2)
    schema = (
        "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, c decimal(10,2), w decimal(38,10), "
        "x string, y binary, dt date, ts timestamp, tn timestamp_ntz, a array<int>, m map<string,int>, "
        "st struct<p:int,q:array<string>>, iv interval day to second, `odd name, with.dots` string"
    )
    now = datetime.datetime(2024, 2, 29, 12, 30, 1, 123456)
    value = (
        *(True, 1, 2, 3, 2**60, 1.5, -0.25, decimal.Decimal("12.34"), decimal.Decimal("1234567890.0123456789")),
        *("ünï", bytearray(b"\x00\xff"), datetime.date(1970, 1, 1), now, now, [1, None, 3], {"k": 7}),
        *((5, ["a", None]), datetime.timedelta(days=2, seconds=3), "odd"),
    )
    empty = tuple(None for _ in value)

    @pipeline.source
    def typed(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([value, empty], schema)

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def copied(typed: DataFrame) -> DataFrame:
        return typed

    result = pipeline.run(spark, store=tmp_path / "store")
    expected = spark.createDataFrame([value, empty], schema)
    found = spark.read.schema(expected.schema).parquet(str(tmp_path / "out"))
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    assert result.digest("copied") is None, "a map cannot be hashed: not comparable, and said so"


EDGES = """
SELECT CAST(x AS tinyint) a, CAST(x AS smallint) b, -9223372036854775808L c, 9223372036854775807L d,
  CAST('-Infinity' AS float) e, CAST('1e-320' AS double) f, CAST('-0.0' AS double) g, CAST('NaN' AS float) h,
  CAST('99999999999999999999999999999999999999' AS decimal(38,0)) i,
  CAST('-0.00000000000000000000000000000000000001' AS decimal(38,38)) j, CAST('0.123456789' AS decimal(9,9)) k,
  '' l, chr(0) m, ' ü€😀 ' n, CAST('a' AS char(3)) o, CAST('b' AS varchar(3)) p, 'Aa' COLLATE UTF8_LCASE q,
  CAST('' AS binary) r, x'00ff' s, date'0001-01-01' t, date'1582-10-04' u, date'9999-12-31' v,
  timestamp'0001-01-01 00:00:00' w, timestamp'1582-10-04 23:59:59.999999' aa, timestamp'2024-03-10 02:30:00' ab,
  timestamp'2024-11-03 01:30:00 UTC' ac, timestamp'9999-12-31 23:59:59.999999' ad,
  timestamp_ntz'2024-03-10 02:30:00' ae, timestamp_ntz'0001-01-01 00:00:00' af,
  INTERVAL '1 02:03:04.000005' DAY TO SECOND ag, INTERVAL '-5' HOUR ah, CAST(null AS interval day) ai,
  array(1, null) aj, array(array('a'), null) ak, map('a', 1, 'b', null) al, map(1, map(2, 3)) am,
  named_struct('a', 1, 'b', named_struct('c', CAST(null AS int))) an, CAST(null AS struct<a:int>) ao, x IS NULL ap
FROM VALUES (-128), (127), (null) t(x)
"""


@pytest.mark.parametrize(("zone", "ansi"), [("America/St_Johns", "true"), ("UTC", "false")])
def test_the_edges_of_every_type_survive_in_every_time_zone(spark, tmp_path, zone, ansi):
    """As text, for Python has no year 0 and no interval of hours."""
    pipeline = Pipeline("edges", default_partitions=2)
    told: dict[str, str] = {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}

    def texts(frame: DataFrame) -> set[tuple]:
        as_text = (f"CAST({name} AS string) {name}" for name in frame.columns if name != "s")
        return {tuple(row) for row in frame.selectExpr(*as_text, "hex(s) s").collect()}

    @pipeline.source
    def edges(spark: SparkSession) -> DataFrame:
        return spark.sql(EDGES)

    @pipeline.stage
    def moved(edges: DataFrame) -> DataFrame:
        return edges

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def copied(moved: DataFrame) -> DataFrame:
        assert moved.schema == spark.sql(EDGES).schema
        return moved

    before = {key: spark.conf.get(key) for key in told}
    try:
        for key, value in told.items():
            spark.conf.set(key, value)
        pipeline.run(spark, store=tmp_path / "store")
        expected = spark.sql(EDGES)
        found = spark.read.schema(expected.schema).parquet(str(tmp_path / "out"))
        assert texts(found) == texts(expected)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_a_filter_over_a_stored_result_finds_nan_and_both_zeros(spark, tmp_path):
    """To Spark NaN is greater than all else, and -0.0 is 0.0; what skips row groups must not know it otherwise."""
    values = [(1, 3.0), (2, float("nan")), (3, -0.0), (4, 0.0)]
    filters = ["x > 5", "x = double('NaN')", "NOT x < 10", "x = 0.0", "s.y > 5", "x IN (double('NaN'), 77.0)"]
    apart = ["id IN (1, 2) AND x <> 3.0", "id = 3 AND x = 0.0"]
    pipeline = Pipeline("floats", default_partitions=4)

    def given(session: SparkSession) -> DataFrame:
        rows = session.createDataFrame(values, "id int, x double")
        return rows.withColumn("s", F.struct(F.col("x").cast("float").alias("y")))

    def found(rows: DataFrame) -> DataFrame:
        each = [rows.where(one).select(F.lit(one).alias("filter"), "id") for one in (*filters, *apart)]
        return reduce(DataFrame.unionAll, each)

    @pipeline.source(partitions=1)
    def together(spark: SparkSession) -> DataFrame:
        return given(spark)

    @pipeline.source(partition_by="id")
    def alone(spark: SparkSession) -> DataFrame:
        return given(spark)

    pipeline.sink(str(tmp_path / "one-file"), name="one")(lambda together: found(together))
    pipeline.sink(str(tmp_path / "files"), name="many")(lambda alone: found(alone))

    @pipeline.sink(str(tmp_path / "published"), partitions=1)
    def published(together: DataFrame) -> DataFrame:
        return together

    pipeline.run(spark, store=tmp_path / "store")
    expected = {tuple(row) for row in found(given(spark)).collect()}
    assert rows(spark, tmp_path / "one-file") == rows(spark, tmp_path / "files") == expected
    assert {tuple(row) for row in found(spark.read.parquet(str(tmp_path / "published"))).collect()} == expected


@pytest.mark.requirement("S5-8")
def test_digests_do_not_depend_on_order_and_do_on_values_nulls_and_doubles(spark, tmp_path):
    def digest(name: str, values: list[tuple]) -> str | None:
        pipeline = Pipeline("digest", default_partitions=3)

        @pipeline.source
        def given(spark: SparkSession) -> DataFrame:
            return spark.createDataFrame(values, "a int, b int")

        @pipeline.sink(FileSink(str(tmp_path / name)), partitions=3)
        def out(given: DataFrame) -> DataFrame:
            return given

        return pipeline.run(spark, store=tmp_path / f"store-{name}").digest("out")

    base = digest("base", [(1, 2), (3, 4), (None, 5)])
    assert base is not None
    assert base == digest("reordered", [(None, 5), (3, 4), (1, 2)])
    assert base != digest("doubled", [(1, 2), (3, 4), (None, 5), (None, 5)])
    assert base != digest("null-moved", [(1, 2), (3, 4), (5, None)])
    assert base != digest("changed", [(1, 2), (3, 5), (None, 5)])


def test_digests_know_where_nulls_are_in_nested_values_and_how_they_nest(spark, tmp_path):
    def digest(number: int, value: list | None) -> str | None:
        pipeline = Pipeline("nested")

        @pipeline.source(partitions=1)
        def given(spark: SparkSession) -> DataFrame:
            return spark.createDataFrame([(value,)], "a array<array<int>>")

        @pipeline.sink(FileSink(str(tmp_path / f"out-{number}")), partitions=1)
        def out(given: DataFrame) -> DataFrame:
            return given

        return pipeline.run(spark, store=tmp_path / f"store-{number}").digest("out")

    values: list[list | None] = [
        [[1, None]],
        [[None, 1]],
        [[1]],
        [[1], None],
        [[1], []],
        [[1, 2]],
        [[1], [2]],
        [],
        None,
    ]
    digests = [digest(number, value) for number, value in enumerate(values)]
    assert None not in digests
    assert len(set(digests)) == len(values)


@pytest.mark.requirement("S6-9")
@pytest.mark.parametrize("look", [id, DataFrame.explain, DataFrame.collect, lambda frame: frame.rdd.count()])
def test_a_cached_result_is_made_once_for_all_who_read_it(spark, tmp_path, look):
    """Both readers are planned at the same time; what they read is a draw, so two draws would show.

    Spark plans a DataFrame once: one that was looked at before it is persisted would be computed anew by each.
    """
    pipeline = Pipeline("shared", default_partitions=2)
    calls: list[str] = []

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(100)

    @pipeline.stage(exchange="cached")
    def drawn(numbers: DataFrame) -> DataFrame:
        calls.append("drawn")
        time.sleep(1.0)  # so long that the other reader asks meanwhile
        draw: Any = F.udf(lambda _: random.random(), "double")
        result = numbers.withColumn("draw", draw.asNondeterministic()("id"))
        look(result)
        return result

    @pipeline.sink(FileSink(str(tmp_path / "low")), partition_by="id")
    def low(drawn: DataFrame) -> DataFrame:
        return drawn.where("draw < 0.5")

    @pipeline.sink(FileSink(str(tmp_path / "high")), partition_by="id")
    def high(drawn: DataFrame) -> DataFrame:
        return drawn.where("draw >= 0.5")

    pipeline.run(spark, store=tmp_path / "store")
    parts = [{row["id"] for row in spark.read.parquet(str(tmp_path / name)).collect()} for name in ("low", "high")]
    assert calls == ["drawn"]
    assert parts[0] | parts[1] == set(range(100))
    assert not parts[0] & parts[1]


@pytest.mark.requirement("S6-9")
def test_a_cached_result_is_whole_before_anybody_reads_it(spark, tmp_path):
    """Else two readers that run at the same time would each make what they need of it, on executors of their own."""
    pipeline = Pipeline("whole", default_partitions=2)
    made = [str(tmp_path / f"made-{partition}") for partition in range(2)]

    def make(batches):
        import time

        from pyspark import TaskContext

        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        time.sleep(3 * partition)
        open(made[partition], "w").close()
        yield from batches

    def read(batches):
        import os

        assert all(map(os.path.exists, made)), "a partition is read while another is still to be made"
        yield from batches

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(100)

    @pipeline.stage(exchange="cached")
    def drawn(numbers: DataFrame) -> DataFrame:
        return numbers.mapInArrow(make, "id long")

    @pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="id")
    def out(drawn: DataFrame) -> DataFrame:
        return drawn.mapInArrow(read, "id long")

    pipeline.run(spark, store=tmp_path / "store")
    assert rows(spark, tmp_path / "out") == {(number,) for number in range(100)}


def test_names_of_columns_and_folders_may_be_odd(spark, tmp_path):
    names = [
        "",
        " ",
        "a.b",
        "`",
        "*",
        "ü 日本",
        "a,b;{}()\n\t=",
        "__REKINDLE_HASH",
        "__rekindle_hash2",
        "c0",
        "_metadata",
    ]
    places = tmp_path / "a b%20c+d=[e]{f}*?#é"
    pipeline = Pipeline("odd", default_partitions=2)

    @pipeline.source(partition_by="a.b")
    def given(spark: SparkSession) -> DataFrame:
        return spark.range(3).select(*((F.col("id") + place).alias(name) for place, name in enumerate(names)))

    @pipeline.sink(str(places / "out"), pointwise=True)
    def copied(given: DataFrame) -> DataFrame:
        return given

    pipeline.run(spark, store=places / "store")
    found = [pyarrow.parquet.read_table(file, partitioning=None) for file in (places / "out").glob("*.parquet")]
    assert all(table.column_names == names for table in found)
    written = {tuple(row.values()) for table in found for row in table.to_pylist()}
    assert written == {tuple(range(row, row + len(names))) for row in range(3)}


def test_a_pointwise_stage_may_mention_an_exchange(spark, tmp_path):
    pipeline = Pipeline("mention", default_partitions=2)

    @pipeline.source(partition_by="id")
    def trades(spark: SparkSession) -> DataFrame:
        return spark.range(3).withColumn("at", F.lit("New York Stock Exchange at Coalesce Street"))

    @pipeline.sink(str(tmp_path / "out"), pointwise=True)
    def there(trades: DataFrame) -> DataFrame:
        return trades.where("at = 'New York Stock Exchange at Coalesce Street'").select("id")

    pipeline.run(spark, store=tmp_path / "store")
    assert rows(spark, tmp_path / "out") == {(0,), (1,), (2,)}


def test_a_stage_made_in_another_session_is_planned_as_stages_are(spark, tmp_path):
    """That of the surrounding program: it would plan adaptively, with fewer partitions, or none for no rows."""
    pipeline = Pipeline("outer", default_partitions=2)
    outer = spark.newSession()
    outer.conf.set("spark.sql.shuffle.partitions", "2")
    active: list[str | None] = []

    @pipeline.source(partition_by="k")
    def few() -> DataFrame:
        return outer.range(50).groupBy((F.col("id") % 5).alias("k")).count()

    @pipeline.source(partition_by="id")
    def none(spark: SparkSession) -> DataFrame:
        session = SparkSession.getActiveSession()
        active.append(session.conf.get("spark.sql.adaptive.enabled") if session else None)
        return outer.range(50).limit(0)

    @pipeline.sink(str(tmp_path / "out"))
    def both(few: DataFrame, none: DataFrame) -> DataFrame:
        return outer.range(10).join(few, F.col("id") == F.col("k")).join(none, "id", "left").select("k", "count")

    report = pipeline.run(spark, store=tmp_path / "store").report
    assert [stage["partitions"] for stage in report["stages"]] == [2, 2, 2]
    assert rows(spark, tmp_path / "out") == {(k, 10) for k in range(5)}
    assert active == ["false"]


def test_settings_of_the_session_hold_in_all_tasks_of_a_stage(spark, tmp_path):
    """Spark's own queries take them to their tasks; a stage's map side is not such a query, but must read as one."""
    settings = {
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.session.timeZone": "America/St_Johns",
        "spark.sql.ansi.enabled": "false",
    }
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    pipeline = Pipeline("settings", default_partitions=2)

    def parsed(session: SparkSession) -> DataFrame:
        texts = session.range(4).select("id", F.concat(F.lit("2024-1-"), F.col("id") + 1, F.lit(" x")).alias("text"))
        day = F.to_timestamp("text", "yyyy-MM-dd").cast("long")
        return texts.repartition(2).select("id", day.alias("day"), F.col("text").cast("int").alias("number"))

    @pipeline.source(partition_by="id")
    def shuffled(spark: SparkSession) -> DataFrame:
        return parsed(spark)

    @pipeline.sink(str(tmp_path / "out"), pointwise=True)
    def out(shuffled: DataFrame) -> DataFrame:
        return shuffled

    pipeline.run(session, store=tmp_path / "store")
    expected = {tuple(row) for row in parsed(session).collect()}
    assert None not in {day for _, day, _ in expected}
    assert rows(spark, tmp_path / "out") == expected


@pytest.mark.parametrize("nothing", [lambda frame: frame.limit(0), lambda frame: frame.where(F.lit(False))])
def test_a_result_without_rows_has_its_partitions_all_the_same(spark, tmp_path, nothing):
    pipeline = Pipeline("nothing", default_partitions=3)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return nothing(spark.range(10))

    @pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="id")
    def out(numbers: DataFrame) -> DataFrame:
        return nothing(numbers)

    report = pipeline.run(spark, store=tmp_path / "store").report
    assert [(stage["rows"], stage["partitions"]) for stage in report["stages"]] == [(0, 3), (0, 3)]
    assert spark.read.parquet(str(tmp_path / "out")).schema.names == ["id"]


@pytest.mark.requirement("S7-23", "S7-25")
def test_a_finished_run_is_followed_by_a_new_one_and_leaves_no_data(spark, tmp_path):
    pipeline = Pipeline("again", default_partitions=2)

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.sink(FileSink(str(tmp_path / "out"), format="csv", mode="overwrite"), partitions=1)
    def total(numbers: DataFrame) -> DataFrame:
        return numbers.agg(F.sum("id").alias("s"))

    first = pipeline.run(spark, store=tmp_path / "store")
    second = pipeline.run(spark, store=tmp_path / "store")
    assert (first.report["run"], second.report["run"]) == (1, 2)
    assert second.report["tasks"]["run"] == first.report["tasks"]["run"]
    assert spark.read.csv(str(tmp_path / "out"), header=True).collect()[0]["s"] == "45"
    assert not list((tmp_path / "store").rglob("*.parquet"))
    assert not list((tmp_path / "store").rglob("*.csv"))


def test_stages_without_a_common_input_run_at_the_same_time(spark, tmp_path):
    pipeline = Pipeline("parallel", default_partitions=1)

    def waits(name: str, other: str):
        def wait(batches):
            import time

            (tmp_path / name).touch()
            deadline = time.monotonic() + 30
            while not (tmp_path / other).exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert (tmp_path / other).exists(), f"{other} did not start beside {name}"
            yield from batches

        return wait

    @pipeline.source
    def one(spark: SparkSession) -> DataFrame:
        return spark.range(0, 1, 1, 1).mapInArrow(waits("one", "two"), "id long")

    @pipeline.source
    def two(spark: SparkSession) -> DataFrame:
        return spark.range(0, 1, 1, 1).mapInArrow(waits("two", "one"), "id long")

    @pipeline.sink(FileSink(str(tmp_path / "out")))
    def both(one: DataFrame, two: DataFrame) -> DataFrame:
        return one.unionByName(two)

    pipeline.run(spark, store=tmp_path / "store")
    assert rows(spark, tmp_path / "out") == {(0,)}
