"""Decorators note and give back what the user wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.pipeline import ExchangeMode, FileSink, Keyed, Pipeline, Pointwise, Rebalance
from tests.unit.pipeline.helpers import three_stages


def test_functions_come_back_unchanged_with_and_without_parentheses():
    pipeline = Pipeline("p")

    def flights(spark):
        return spark

    def delayed(flights):
        return ("delayed", flights)

    def report(delayed):
        return ("report", delayed)

    assert pipeline.source(flights) is flights
    assert pipeline.stage()(delayed) is delayed
    assert pipeline.sink("out")(report) is report
    assert report(delayed(flights(7))) == ("report", ("delayed", 7))
    assert [stage.fn for stage in pipeline.build().stages] == [flights, delayed, report]


def test_both_ways_of_decorating_declare_the_same():
    bare, called = Pipeline("p"), Pipeline("p")

    def flights(spark): ...

    def delayed(flights): ...

    bare.source(flights)
    bare.stage(delayed)
    called.source()(flights)
    called.stage()(delayed)
    for pipeline in (bare, called):
        pipeline.sink("out", name="report")(lambda delayed: delayed)
    assert [(s.name, s.fn) for s in bare.build().stages[:2]] == [(s.name, s.fn) for s in called.build().stages[:2]]


def test_a_stage_has_the_name_of_its_function_unless_another_is_given():
    pipeline = Pipeline("p")

    @pipeline.source(name="renamed")
    def flights(spark): ...

    @pipeline.sink("out")
    def report(renamed): ...

    assert [stage.name for stage in pipeline.build().stages] == ["renamed", "report"]


def test_the_first_line_of_the_docstring_is_the_description():
    pipeline = Pipeline("p")

    @pipeline.source
    def flights(spark):
        """
        All flights of a year.

        More that nobody needs in a table.
        """

    @pipeline.sink("out")
    def report(flights): ...

    assert [stage.description for stage in pipeline.build().stages] == ["All flights of a year.", ""]


def test_parameters_are_inputs_but_for_spark():
    pipeline = Pipeline("p")

    @pipeline.source
    def flights(): ...

    @pipeline.source
    def planes(spark): ...

    @pipeline.sink("out")
    def report(planes, spark, *, flights): ...

    flights_, planes_, report_ = pipeline.build().stages
    assert (flights_.inputs, flights_.takes_spark, flights_.is_source) == ((), False, True)
    assert (planes_.inputs, planes_.takes_spark, planes_.is_source) == ((), True, True)
    assert (report_.inputs, report_.takes_spark, report_.is_source) == (("planes", "flights"), True, False)


@pytest.mark.parametrize("keys", ["carrier", ["carrier"], ("carrier",)])
def test_keys_are_one_column_or_several(keys):
    stage = three_stages(partition_by=keys, partitions=3).build().stage("delayed")
    assert stage.distribution == Keyed(("carrier",), 3)
    assert stage.partitions == 3


def test_rows_are_rebalanced_over_the_default_number_of_partitions():
    pipeline = Pipeline("p", default_partitions=5)

    @pipeline.source
    def flights(spark): ...

    @pipeline.sink("out", partitions=2)
    def report(flights): ...

    assert [stage.distribution for stage in pipeline.build().stages] == [Rebalance(5), Rebalance(2)]
    assert [stage.partitions for stage in pipeline.build().stages] == [5, 2]


def test_pointwise_stages_have_as_many_partitions_as_what_they_are_made_from():
    pipeline = Pipeline("p")

    @pipeline.source(partitions=1)
    def airlines(spark): ...

    @pipeline.source(partitions=6)
    def flights(spark): ...

    @pipeline.stage(pointwise=True, broadcast="airlines")
    def named(airlines, flights): ...

    @pipeline.sink("out", pointwise=True)
    def report(named): ...

    graph = pipeline.build()
    assert graph.stage("named").distribution == Pointwise("flights")
    assert graph.stage("named").broadcast == frozenset({"airlines"})
    assert graph.stage("report").distribution == Pointwise("named")
    assert graph.stage("report").partitions == 6


def test_switches_are_kept():
    stage = three_stages(exchange="cached", deterministic=False, speculation=False).build().stage("delayed")
    assert stage.exchange is ExchangeMode.CACHED
    assert stage.deterministic is False
    assert stage.speculation is False
    plain = three_stages().build().stage("delayed")
    assert (plain.exchange, plain.deterministic, plain.speculation) == (ExchangeMode.BLOCKING, None, True)


@pytest.mark.parametrize(
    ("target", "sink"),
    [
        ("out/a", FileSink("out/a", "parquet", "error", True)),
        (Path("out/a"), FileSink("out/a")),
        (FileSink("out/a", "csv", mode="overwrite"), FileSink("out/a", "csv", "overwrite")),
    ],
)
def test_a_sink_is_a_path_or_an_object(target, sink):
    pipeline = Pipeline("p")
    pipeline.source(name="flights")(lambda spark: spark)
    pipeline.sink(target, name="report")(lambda flights: flights)
    assert pipeline.build().stage("report").sink == sink


def test_a_sink_may_be_of_a_class_of_the_users():
    class Queue:
        supports_concurrent_execution_attempts = False
        target = "queue:delays"

    pipeline, queue = Pipeline("p"), Queue()
    pipeline.source(name="flights")(lambda spark: spark)
    pipeline.sink(queue, name="report")(lambda flights: flights)
    assert pipeline.build().stage("report").sink is queue


def test_an_option_that_does_not_exist_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match=r"stage\(\) got an unexpected keyword argument 'partition_bye'"):
        Pipeline("p").stage(partition_bye="carrier")  # type: ignore[call-overload]


def test_stages_are_ordered_by_what_they_read_and_else_as_declared():
    pipeline = Pipeline("p")
    pipeline.sink("out", name="report")(lambda joined: joined)
    pipeline.stage(name="joined")(lambda flights, airlines: flights)
    pipeline.source(name="flights")(lambda spark: spark)
    pipeline.source(name="airlines")(lambda spark: spark)
    graph = pipeline.build()
    assert [stage.name for stage in graph.stages] == ["flights", "airlines", "joined", "report"]
    assert [stage.name for stage in graph.consumers("flights")] == ["joined"]
    assert graph.consumers("report") == ()


def test_a_graph_knows_no_stage_by_another_name():
    with pytest.raises(KeyError, match="pipeline 'delays' has no stage 'missing'"):
        three_stages().build().stage("missing")


def test_what_is_declared_after_a_build_is_in_the_next_one():
    pipeline = three_stages()
    before = pipeline.build()
    pipeline.sink("out/more", name="more")(lambda delayed: delayed)
    assert len(before.stages) == 3
    assert len(pipeline.build().stages) == 4
