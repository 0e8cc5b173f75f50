"""What holds for all tests. The rules behind `@pytest.mark.requirement` are in docs/semantics.md."""

import os
import sys

from hypothesis import HealthCheck, Phase, settings

# Otherwise Spark's Python workers are the first `python3` on the PATH, without this environment's packages.
os.environ["PYSPARK_PYTHON"] = sys.executable

pytest_plugins = ["pytester", "tests.tools.rules_plugin", "tests.tools.no_skip_plugin"]

# A machine may be slow. How long things take is a matter of benchmarks/.
settings.register_profile("rekindle", deadline=None)
settings.load_profile("rekindle")

# `make mutants` runs the tests by the thousand: always the same few examples, and none made smaller.
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=10,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
