"""Spark's connector for buckets, of the Hadoop that this PySpark has: as a manifest's `deps`, and as files.

python -m tests.tools.connector        fetch the files now, if they are not there
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from tests.kind.processes import cache

_SDK = "2.35.4"
"""The AWS SDK that it is built with."""


_FETCH_SECONDS = 600
_FETCH = """
import sys
from pyspark.sql import SparkSession
packages, left_out, folder = sys.argv[1:]
settings = {"spark.jars.packages": packages, "spark.jars.excludes": left_out, "spark.jars.ivy": folder}
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key, value in settings.items():
    builder = builder.config(key, value)
builder.getOrCreate().stop()
"""


def _hadoop() -> str:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-(.*)\.jar", jar.name)
    assert found is not None
    return found[1]


CONNECTOR = {
    "packages": [
        f"org.apache.hadoop:hadoop-aws:{_hadoop()}",
        *(f"software.amazon.awssdk:{part}:{_SDK}" for part in ("s3", "s3-transfer-manager", "sts")),
    ],
    # All services of AWS in one archive of 600 MB; the parts above are enough.
    "excludePackages": ["software.amazon.awssdk:bundle"],
}


def connector_jars() -> list[Path]:
    """The same as files, which Spark fetches once and which are kept outside the checkout."""
    packages, left_out = ",".join(CONNECTOR["packages"]), ",".join(CONNECTOR["excludePackages"])
    folder = _folder()
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
            command = [sys.executable, "-c", _FETCH, packages, left_out, aside]
            subprocess.run(command, check=True, timeout=_FETCH_SECONDS, stdout=subprocess.DEVNULL)
            (Path(aside) / "jars").rename(folder)
    return sorted(folder.glob("*.jar"))


def _folder() -> Path:
    """Where they are, or will be."""
    return cache().parent / f"connector-{hashlib.sha256(json.dumps(CONNECTOR).encode()).hexdigest()[:12]}"


def main() -> int:
    """Fetch them, and say so, for it takes a minute."""
    if _folder().exists():
        return 0
    print("fetching Spark's connector for buckets once (a minute)", flush=True)
    try:
        connector_jars()
    except (OSError, subprocess.SubprocessError) as problem:
        print(problem, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
