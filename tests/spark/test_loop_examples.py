"""The loops of examples/loops, beside what networkx and arithmetic say."""

from __future__ import annotations

import importlib.util
import inspect
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from rekindle.pipeline import FileSink, Pipeline

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "loops" / "graphs.py"


@pytest.fixture(scope="module")
def graphs() -> Any:
    spec = importlib.util.spec_from_file_location("graphs", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(
    spark: SparkSession, folder: Path, loop: Callable[[Pipeline], None], result: str, **tables: tuple[str, list[Any]]
) -> list[Row]:
    """The rows of a loop over tables, each with its schema."""
    pipeline = Pipeline("example", default_partitions=2)
    for name, (schema, rows) in tables.items():
        pipeline.source(name=name)(table_of(schema, rows))
    loop(pipeline)

    pipeline.sink(FileSink(str(folder / "out")), name="out")(as_it_is(result))
    pipeline.run(spark, store=folder / "store")
    return spark.read.parquet(str(folder / "out")).collect()


def table_of(schema: str, rows: list[Any]) -> Callable[[SparkSession], DataFrame]:
    def source(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(rows, schema)

    return source


def as_it_is(name: str) -> Callable[..., DataFrame]:
    """A stage that reads the one of that name."""

    def same(**results: DataFrame) -> DataFrame:
        return results[name]

    parameter = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    same.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return same


def edges(graph: networkx.DiGraph) -> list[tuple[int, int]]:
    return sorted(graph.edges())


@pytest.fixture
def graph() -> networkx.DiGraph:
    """Of 30 vertices in several pieces, with cycles; each has an edge."""
    dice, made = random.Random(4), networkx.DiGraph()
    for n in range(30):
        piece = range(n // 10 * 10, n // 10 * 10 + 10)
        made.add_edge(n, dice.choice(piece))
        if dice.random() < 0.3:
            made.add_edge(n, dice.choice(piece))
    return made


def test_connected_components(spark, tmp_path, graphs, graph):
    both = sorted({*edges(graph), *((dst, src) for src, dst in edges(graph))})
    rows = found(
        spark,
        tmp_path,
        lambda pipeline: graphs.connected_components(pipeline, "vertices", "edges"),
        "components",
        vertices=("vertex LONG", [(n,) for n in graph]),
        edges=("src LONG, dst LONG", both),
    )
    right = {n: min(part) for part in networkx.weakly_connected_components(graph) for n in part}
    assert {row.vertex: row.component for row in rows} == right


def test_transitive_closure(spark, tmp_path, graphs, graph):
    rows = found(
        spark,
        tmp_path,
        lambda pipeline: graphs.transitive_closure(pipeline, "edges"),
        "reachable",
        edges=("src LONG, dst LONG", edges(graph)),
    )
    right = set(networkx.transitive_closure(graph, reflexive=False).edges())
    assert len(rows) == len(right)
    assert {(row.src, row.dst) for row in rows} == right


def test_pagerank(spark, tmp_path, graphs, graph):
    shares = [(src, dst, 1 / graph.out_degree(src)) for src, dst in edges(graph)]
    rows = found(
        spark,
        tmp_path,
        lambda pipeline: graphs.pagerank(pipeline, "vertices", "edges", damping=0.5, tolerance=1e-3),
        "ranks",
        vertices=("vertex LONG, n LONG", [(n, len(graph)) for n in graph]),
        edges=("src LONG, dst LONG, share DOUBLE", shares),
    )
    steps = networkx.google_matrix(graph, alpha=0.5)  # networkx.pagerank itself needs SciPy
    right = numpy.linalg.matrix_power(steps, 100)[0]
    assert {row.vertex: row.rank for row in rows} == pytest.approx(dict(zip(graph, right, strict=True)), rel=0.01)


def test_shortest_paths(spark, tmp_path, graphs, graph):
    weighted = [(src, dst, float(1 + (7 * src + dst) % 5)) for src, dst in edges(graph)]
    rows = found(
        spark,
        tmp_path,
        lambda pipeline: graphs.shortest_paths(pipeline, "start", "edges"),
        "distances",
        start=("vertex LONG, distance DOUBLE", [(0, 0.0), (20, 1.5)]),
        edges=("src LONG, dst LONG, weight DOUBLE", weighted),
    )
    graph.add_weighted_edges_from([*weighted, (-1, 0, 0.0), (-1, 20, 1.5)])
    right = networkx.single_source_dijkstra_path_length(graph, -1)
    assert {row.vertex: row.distance for row in rows} == {n: far for n, far in right.items() if n >= 0}


def test_k_means(spark, tmp_path, graphs):
    """Three heaps of points, from centers that are wrong."""
    dice = random.Random(2)
    heaps = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0)]
    points = [(x + dice.uniform(-1, 1), y + dice.uniform(-1, 1)) for x, y in heaps for _ in range(12)]
    rows = found(
        spark,
        tmp_path,
        lambda pipeline: graphs.k_means(pipeline, "centers", "points"),
        "clusters",
        centers=("center LONG, x DOUBLE, y DOUBLE", [(0, 1.0, 1.0), (1, 2.0, 1.0), (2, 1.0, 3.0)]),
        points=("x DOUBLE, y DOUBLE", points),
    )
    means = [tuple(sum(axis) / 12 for axis in zip(*points[at : at + 12], strict=True)) for at in (0, 12, 24)]
    assert sorted((row.x, row.y) for row in rows) == [pytest.approx(mean) for mean in sorted(means)]
