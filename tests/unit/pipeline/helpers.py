"""Small pipelines, and what is wrong with them as text."""

from __future__ import annotations

import re

import pytest

from rekindle.pipeline import Pipeline, PipelineError


def complaint(pipeline: Pipeline) -> str:
    """What `build` says, without the file and line of the function."""
    with pytest.raises(PipelineError) as caught:
        pipeline.build()
    return re.sub(r" \([\w.]+ line \d+\)", "", str(caught.value))


def one_source(name: str = "flights", **options) -> Pipeline:
    """A pipeline with a source `flights` that is read by nobody yet."""
    pipeline = Pipeline("delays")

    @pipeline.source(name=name, **options)
    def source(spark): ...

    return pipeline


def three_stages(**middle) -> Pipeline:
    """flights -> delayed -> report, with options for the one in the middle."""
    pipeline = one_source()

    @pipeline.stage(**middle)
    def delayed(flights): ...

    @pipeline.sink("out/report")
    def report(delayed): ...

    return pipeline
