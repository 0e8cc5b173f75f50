"""What importing the library costs."""

from __future__ import annotations

import subprocess
import sys


def test_importing_and_building_needs_no_pyspark():
    program = """
import sys
from rekindle.pipeline import Pipeline, explain
from rekindle.core.options import SpeculationOptions
pipeline = Pipeline("p")
pipeline.source(name="a")(lambda spark: spark)
pipeline.sink("out", name="b")(lambda a: a)
explain(pipeline.build(), SpeculationOptions(enabled=True))
print(sorted({"pyspark", "py4j", "pandas", "pyarrow", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
