"""Where sinks write to, in one spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.pipeline import FileSink, Sink


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
