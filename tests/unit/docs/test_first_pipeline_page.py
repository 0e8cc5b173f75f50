"""The pipeline of docs/first-pipeline.md, and the one in examples/flights, as far as they go without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from rekindle.api.spark_application import SparkApplication
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import Keyed, PipelineError, PipelineGraph, Pointwise, explain

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "first-pipeline.md").read_text(encoding="utf-8")
FLIGHTS = ROOT / "examples" / "flights"


def block(language: str, number: int = 0) -> str:
    """The page's code block of a language, by number."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    texts: list[str] = [text for name, text in blocks if name == language]
    return texts[number]


def build(source: str, path: Path) -> PipelineGraph:
    module = ModuleType("main")
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), module.__dict__)
    graph: PipelineGraph = module.pipeline.build()
    return graph


def test_the_pages_explanation_is_what_explain_says():
    graph = build(block("python"), Path("main.py"))
    said = explain(graph, SpeculationOptions(enabled=True))
    for part in block("", 2).split("…\n"):
        assert part.strip() in said


def test_the_pages_error_is_what_build_says():
    with pytest.raises(PipelineError) as caught:
        build(block("python").replace("spending(orders:", "spending(order:"), Path("main.py"))
    assert str(caught.value) in PAGE


def test_the_pages_manifest_can_be_read():
    application = SparkApplication.model_validate(yaml.safe_load(block("yaml")))
    assert application.spec.main_application_file == "main.py"
    assert application.spec.speculation.enabled


def test_the_flights_pipeline_fits_together():
    graph = build((FLIGHTS / "pipeline.py").read_text(encoding="utf-8"), FLIGHTS / "pipeline.py")
    assert len(graph.stages) == 11
    assert [stage.name for stage in graph.stages if stage.sink] == ["carriers", "routes"]
    assert graph.stage("described").distribution == Pointwise("legs")
    assert graph.stage("legs").distribution == graph.stage("flights").distribution
    assert graph.stage("exposed").distribution == Keyed(("origin",), 12)


def test_the_flights_manifest_can_be_read():
    application = SparkApplication.model_validate(yaml.safe_load((FLIGHTS / "app.yaml").read_text()))
    assert (FLIGHTS / application.spec.main_application_file).exists()
