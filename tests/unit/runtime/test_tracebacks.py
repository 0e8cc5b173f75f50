"""Whose frame it is: a word in a path must not hide a user's own line."""

from __future__ import annotations

from pathlib import Path

import py4j
import pyspark
import pytest

import rekindle
from rekindle.runtime.tracebacks import is_users_file, users_lines


@pytest.mark.parametrize(
    "filename",
    [
        "/home/me/rekindle/app.py",
        "/home/me/rekindle/pipelines/daily.py",
        "/home/me/pyspark/job.py",
        "/srv/python/pyspark/job.py",
        "/v/site-packages/pysparkling/job.py",
        "/v/site-packages/pandas/core/frame.py",
        "relative/job.py",
        "<stdin>",
    ],
)
def test_a_project_may_be_called_as_a_library_is(filename: str):
    assert is_users_file(filename)


@pytest.mark.parametrize(
    "filename",
    [
        str(Path(rekindle.__file__).parent / "runtime" / "task.py"),
        str(Path(pyspark.__file__).parent / "worker.py"),
        str(Path(py4j.__file__).parent / "java_gateway.py"),
        "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py",
        "/opt/spark/python/lib/py4j-0.10.9.9-src.zip/py4j/protocol.py",
        "/usr/lib/python3/dist-packages/pyspark/sql/session.py",
        "/v/site-packages/rekindle/runtime/task.py",
    ],
)
def test_a_library_s_frame_is_known_by_the_folder_it_lies_in(filename: str):
    assert not is_users_file(filename)


def test_a_frame_goes_with_its_source_lines_and_the_error_stays():
    traceback = [
        "Traceback (most recent call last):",
        '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in invoke',
        "    function()",
        "    ~~~~~~~~^^",
        '  File "/home/me/rekindle/app.py", line 7, in parse',
        "    int(row)",
        "ValueError: bad",
    ]
    assert users_lines(traceback) == [traceback[0], *traceback[4:]]
