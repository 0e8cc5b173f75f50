"""Spark's classes as the JVM keeps them, in one file: with it drivers and executors start in two thirds of the time.

    python -m tests.tools.class_archive        make it now, if it is missing

A JVM that the file does not fit (another Spark, another Java) does without it, and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rekindle.local.java import QUICK_JVM, find_java, spark_home

_FOLDER = Path(__file__).resolve().parents[2] / ".build" / "classes"
_SECONDS = 600

_PROGRAM = """\
import sys
from pyspark.sql import SparkSession, functions as F

for place in ("local[2]", "local-cluster[1,1,512]"):
    builder = SparkSession.builder.master(place).config("spark.executor.memory", "512m").config("spark.ui.port", "0")
    spark = builder.getOrCreate()
    keyed = spark.range(0, 1000, 1, 2).withColumn("key", F.col("id") % 7)
    keyed.groupBy("key").agg(F.sum("id").alias("n")).write.mode("overwrite").parquet(sys.argv[1])
    stored = spark.read.parquet(sys.argv[1])
    assert stored.mapInArrow(lambda batches: batches, stored.schema).filter("key > 3").count() == 3
    spark.stop()
"""
"""What most tests do, once in one JVM and once in several."""


def archive() -> Path:
    """Where it belongs, for this Java and this PySpark."""
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark_home() / "jars").glob("*"))
    java = subprocess.run([find_java(), "-version"], capture_output=True, timeout=60, check=True).stderr
    content = repr((str(spark_home()), jars, java, QUICK_JVM, _PROGRAM))
    return _FOLDER / f"spark-{hashlib.sha256(content.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """JVM options for tests, whose JVMs live for seconds."""
    made = archive()
    return " ".join([*QUICK_JVM, *([f"-XX:SharedArchiveFile={made}"] if made.exists() else [])])


def make() -> str:
    """Make it if it is missing, instead of those of other versions; a line that says what was done."""
    wanted = archive()
    if wanted.exists():
        return f"{wanted.name} is there"
    began = time.monotonic()
    print(f"classes  gathering those of Spark (a minute): {wanted.name}", flush=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for other in _FOLDER.iterdir():
        other.unlink()
    with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as folder:
        made = Path(folder) / "made.jsa"
        dump = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, f"{folder}/out"],
            env={**environment, "SPARK_SUBMIT_OPTS": " ".join([*QUICK_JVM, *dump]), "PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode or not made.exists():
            return f"it could not be made, so tests take longer: {done.stderr[-2000:]}"
        made.rename(wanted)
    return f"{wanted.name}: done in {time.monotonic() - began:.0f} s"


if __name__ == "__main__":
    print(f"classes  {make()}")
