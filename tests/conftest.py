"""What holds for all tests. The rules behind `@pytest.mark.requirement` are in docs/semantics.md."""

import os
import sys

# Otherwise Spark's Python workers are the first `python3` on the PATH, without this environment's packages.
os.environ["PYSPARK_PYTHON"] = sys.executable

pytest_plugins = ["pytester", "tests.tools.rules_plugin", "tests.tools.no_skip_plugin"]
