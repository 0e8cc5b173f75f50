"""Spark's connector for buckets, as a manifest's `deps`: of the Hadoop that this PySpark has."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

_SDK = "2.35.4"
"""The AWS SDK that it is built with."""


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
