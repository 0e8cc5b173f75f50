"""docs/options.md names every option, with the default it has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from rekindle.api.settings import RekindleSettings
from rekindle.pipeline import DataSourceSink, FileSink, Pipeline, SparkSink

PAGE = (Path(__file__).parents[3] / "docs" / "options.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """First cell -> the other cells, of the table under a heading."""
    section = re.split(r"^##+ ", PAGE.partition(f" {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip("`"): cells for name, *cells in lines}


SECTIONS = {
    "speculation": "Speculation",
    "blocklist": "Blocked nodes",
    "recovery": "Recovery and the store",
}
OPTIONS = [
    (block, field.alias or name, field.default)
    for block, model in RekindleSettings.model_fields.items()
    for name, field in model.annotation.model_fields.items()  # type: ignore[union-attr]
]


def test_every_block_has_a_section():
    assert set(SECTIONS) == {block for block, _, _ in OPTIONS}
    assert {(block, name) for block, title in SECTIONS.items() for name in rows(title)} == {
        (block, name) for block, name, _ in OPTIONS
    }


@pytest.mark.parametrize(("block", "name", "default"), OPTIONS)
def test_the_default_is_the_one_it_has(block, name, default):
    shown = rows(SECTIONS[block])[name][0]
    if default is None:
        assert "unset" in shown or name == "store"
        return
    key = f"spark.rekindle.{block}.{name}"
    settings = RekindleSettings.from_spark_conf({key: shown.strip("`")})
    assert settings.to_spark_conf()[key] == RekindleSettings().to_spark_conf()[key]


def defaults(function: object) -> dict[str, object]:
    return {
        parameter.name: parameter.default
        for parameter in inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY
    }


@pytest.mark.parametrize("role", ["stage", "source", "sink"])
def test_the_options_of_the_decorators(role):
    shown = {
        name: cells[1].strip("`").strip('"')
        for name, cells in rows("`@pipeline.stage`, `@pipeline.source`, `@pipeline.sink(target)`").items()
        if cells[0] == "all" or role in cells[0]
    }
    resolved = {"partition_by": "none: round robin", "partitions": "default_partitions", "name": "the function's name"}
    real = {name: resolved.get(name, str(value)) for name, value in defaults(getattr(Pipeline, role)).items()}
    assert shown == real


def test_the_options_of_a_read():
    shown = {
        name: cells[0].strip("`").strip('"') for name, cells in rows("`pipeline.read(name, source, *, …)`").items()
    }
    resolved = {
        "options": "none",
        "schema": "what the source says",
        "partition_by": "none",
        "partitions": "default_partitions",
    }
    assert shown == {name: resolved.get(name, str(value)) for name, value in defaults(Pipeline.read).items()}


def test_the_options_of_a_loop():
    heading = "`@pipeline.iterate(input, *, …)`, `@pipeline.iterate_with_feedback(input, *, …)`"
    shown = {name: cells[0].strip("`") for name, cells in rows(heading).items()}
    resolved = {
        "partition_by": "none",
        "partitions": "default_partitions",
        "tables": "none: as the parameters are called",
        "most_activations": "none",
        "name": "the function's name",
    }
    for method in (Pipeline.iterate, Pipeline.iterate_with_feedback):
        assert shown == {name: resolved.get(name, str(value)) for name, value in defaults(method).items()}


def test_the_options_of_a_pipeline_and_a_file_sink():
    assert rows("`Pipeline(name, *, default_partitions=8)`")["default_partitions"][0] == "`8`"
    assert defaults(Pipeline.__init__) == {"default_partitions": 8}
    said = 'path, format="parquet", mode="error", supports_concurrent_execution_attempts=True, hive_partitions=()'
    text, sink = f"FileSink({said})", FileSink("out")
    assert (sink.format, sink.mode, sink.supports_concurrent_execution_attempts) == ("parquet", "error", True)
    assert sink.hive_partitions == ()
    assert list(rows(f"`{text}`")) == list(inspect.signature(FileSink).parameters)


def test_the_options_of_a_spark_sink():
    text = 'SparkSink(format="", options={}, mode="append", table=None, repeatable=None, '
    text += "supports_concurrent_execution_attempts=True)"
    assert SparkSink() == SparkSink("", {}, "append", None, None, supports_concurrent_execution_attempts=True)
    assert list(rows(f"`{text}`")) == list(inspect.signature(SparkSink).parameters)


def test_the_options_of_a_data_source_sink():
    text = 'DataSourceSink(source, options={}, mode="append", repeatable=None, concurrent_attempts=None)'
    assert DataSourceSink(int) == DataSourceSink(int, {}, "append", None, None)
    assert list(rows(f"`{text}`")) == list(inspect.signature(DataSourceSink).parameters)
