"""Sources that are read by splits, as they are declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.distribution import Assigned, Keyed, Rebalance
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.explain import explain
from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.translation import to_job_graph

ON = SpeculationOptions(enabled=True)


class Base(DataSource):
    def reader(self, schema: Any) -> DataSourceReader:
        raise NotImplementedError


class Events(Base):
    """Events of a shop."""

    @classmethod
    def name(cls) -> str:
        return "events"


class OnlyStreams(DataSource):
    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        raise NotImplementedError


class Broken(Base):
    @classmethod
    def name(cls) -> str:
        raise RuntimeError("no name")


def declared(source: Any = Events, **options: Any) -> Pipeline:
    pipeline = Pipeline("shop")
    pipeline.read("events", source, **options)

    @pipeline.sink(FileSink("/out"))
    def out(events: Any) -> Any:
        return events

    return pipeline


@pytest.mark.requirement("S4-2")
def test_a_source_that_is_read_by_splits_has_no_exchange_unless_it_is_partitioned():
    graphs = {
        key: declared(partitions=3, **options).build()
        for key, options in {"as it is": {}, "keyed": {"partition_by": "shop"}}.items()
    }
    graphs["inside its reader"] = declared(exchange="pipelined").build()
    layouts = {key: graph.stage("events").distribution for key, graph in graphs.items()}
    assert layouts == {"as it is": Assigned(3), "keyed": Keyed(("shop",), 3), "inside its reader": Rebalance(8)}
    vertices = {key: [vertex.name for vertex in to_job_graph(graph, ON).vertices] for key, graph in graphs.items()}
    assert vertices == {
        "as it is": ["events", "out.map", "out"],
        "keyed": ["events.map", "events", "out.map", "out"],
        "inside its reader": ["out.map", "out"],
    }


@pytest.mark.requirement("S4-1", "S4-3")
def test_it_is_copied_as_soon_as_speculation_is_on_unless_somebody_says_no():
    def copies(options: SpeculationOptions, **more: Any) -> bool:
        return to_job_graph(declared(**more).build(), options).vertex("events").speculative

    assert copies(ON)
    assert not copies(SpeculationOptions(enabled=True, source_enabled=False))
    assert not copies(ON, speculation=False)
    assert not copies(SpeculationOptions())


def test_explain_names_the_source():
    assert "events  (source)  3 × as splits are assigned  blocking  DataSource events" in explain(
        declared(partitions=3).build(), ON
    )


@pytest.mark.parametrize(
    ("source", "problem", "remedy"),
    [
        ("parquet", "reads 'parquet', which is no class", "for a built-in format declare a function"),
        (int, "reads <class 'int'>, which is no class", "give that class itself"),
        (Events({}), "which is no class of the kind", "give that class itself"),
        (DataSource, "reads DataSource, which has no batch reader", "a method reader"),
        (OnlyStreams, "reads OnlyStreams, which has no batch reader", "a method reader"),
    ],
    ids=["format", "class", "object", "base", "streams"],
)  # fmt: skip
def test_what_is_no_source_is_refused(source, problem, remedy):
    with pytest.raises(PipelineError) as refused:
        declared(source).build()
    assert problem in str(refused.value)
    assert remedy in str(refused.value)


def test_a_source_whose_name_cannot_be_had_is_told_by_its_class():
    assert "DataSource Broken" in explain(declared(Broken).build(), ON)


def test_options_are_those_that_spark_would_hand_over():
    stage = declared(options={"header": True, "size": 7, "path": "/in"}).build().stage("events")
    assert stage.source is not None
    assert stage.source.options == {"header": "true", "size": "7", "path": "/in"}


def test_a_source_is_another_when_its_class_options_or_schema_change():
    def fingerprint(source: Any = Events, **options: Any) -> str:
        return stage_fingerprint(declared(source, **options).build(), "events")

    class Edited(Events):
        __module__ = Events.__module__

        @classmethod
        def name(cls) -> str:
            return "edited"

    Edited.__qualname__ = "Events"
    known = [
        fingerprint(),
        fingerprint(Edited),
        fingerprint(options={"path": "/in"}),
        fingerprint(options={"path": "/other"}),
        fingerprint(schema="n BIGINT"),
        fingerprint(partitions=3),
    ]
    assert len(set(known)) == len(known)
    assert fingerprint(options={"path": "/in"}) == known[2]
    assert fingerprint(Events) == known[0]


def test_another_password_makes_no_other_source():
    class Keyed(Events):
        secret_options = ("password",)

    def fingerprint(source: Any, **options: str) -> str:
        return stage_fingerprint(declared(source, options=options).build(), "events")

    known = fingerprint(Keyed, path="/in", PassWord="one")
    assert fingerprint(Keyed, path="/in", password="two") == known
    assert fingerprint(Keyed, path="/in") == known
    assert fingerprint(Keyed, path="/other", password="one") != known
    assert fingerprint(Events, password="one") != fingerprint(Events, password="two")


def written(function: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("users")
    pipeline.source_function("id BIGINT", splits=4, **options)(function)

    @pipeline.sink(FileSink("/out"))
    def out(users: Any) -> Any:
        return users

    return pipeline


def users(split: int, splits: int) -> Iterator[tuple[int]]:
    yield (split,)


@pytest.mark.requirement("S4-2", "S4-35", "S5-9", "S5-11")
def test_a_function_that_reads_by_itself_is_copied_only_where_it_promises_to_change_nothing():
    def copies(**options: Any) -> bool:
        return to_job_graph(written(users, **options).build(), ON).vertex("users").speculative

    assert copies(side_effects=False)
    assert not copies()
    assert not copies(side_effects=False, speculation=False)
    assert "may have side effects: it does not say side_effects=False" in explain(written(users).build(), ON)


def of_three(split: int, splits: int, more: int) -> list[tuple[int]]:
    return []


@pytest.mark.parametrize(
    ("function", "splits", "problem"),
    [
        (lambda: iter(()), 4, "has the parameters ()"),
        (of_three, 4, "has the parameters (split, splits, more)"),
        ("users", 4, "is a str"),
        (users, 0, "has splits=0"),
        (users, "4", "has splits='4'"),
    ],
    ids=["no parameters", "three", "no function", "no splits", "a text"],
)
def test_a_function_that_cannot_be_called_for_its_splits_is_refused(function, splits, problem):
    pipeline = Pipeline("users")
    pipeline.source_function("id BIGINT", splits=splits, name="users")(function)
    with pytest.raises(PipelineError) as refused:
        pipeline.build()
    assert problem in str(refused.value)


def test_a_source_function_is_another_when_its_code_or_its_splits_change():
    def others(split: int, splits: int) -> Iterator[tuple[int]]:
        yield (splits - split,)

    def fingerprint(function: Any, **options: Any) -> str:
        return stage_fingerprint(written(function, name="users", **options).build(), "users")

    assert fingerprint(users) == fingerprint(users)
    assert fingerprint(users) != fingerprint(others)
    more = Pipeline("users")
    more.source_function("id BIGINT", splits=5)(users)
    more.sink(FileSink("/out"), name="out")(lambda users: users)
    assert stage_fingerprint(more.build(), "users") != fingerprint(users)
