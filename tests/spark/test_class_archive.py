"""The archive of Spark's classes that this tier's JVMs are given."""

import os
import subprocess

from rekindle.local.java import find_java
from tests.tools.class_archive import archive, make, options


def test_a_jvm_that_the_archive_does_not_fit_says_nothing(tmp_path):
    """Its output would be the first line of whatever a driver prints."""
    assert make() is None
    assert str(archive()) in options()
    done = subprocess.run(
        [find_java(), "-cp", str(tmp_path), "-version"],
        env={**os.environ, "JAVA_TOOL_OPTIONS": options()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
