"""Spark's classes as the JVM keeps them, in one file: with it drivers and executors start in two thirds of the time.

    python -m tests.tools.class_archive        make it now, if it is missing

A JVM that the file does not fit (another class path, another Java; Spark's launcher is one) does without it, silently.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rekindle.local.java import QUICK_JVM, class_path, find_java, spark_home
from rekindle.runtime.errors import EnvironmentProblem

_FOLDER = Path(__file__).resolve().parents[2] / ".build" / "classes"
_SECONDS = 600
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Else a JVM that it does not fit warns on standard output."""

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
    """Where it belongs, for this Java and this PySpark. Raises EnvironmentProblem."""
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark_home() / "jars").glob("*"))
    plain = {name: text for name, text in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}  # which Java would repeat
    java = subprocess.run([find_java(), "-version"], env=plain, capture_output=True, timeout=60, check=True).stderr
    content = repr((str(spark_home()), jars, java, QUICK_JVM, _PROGRAM))
    return _FOLDER / f"spark-{hashlib.sha256(content.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """JVM options for tests, whose JVMs live for seconds."""
    try:
        made = archive()
    except EnvironmentProblem:  # the tests say so
        return " ".join(QUICK_JVM)
    sharing = [f"-XX:SharedArchiveFile='{made}'", *_SILENT] if made.exists() else []  # quoted: it may have spaces
    return " ".join([*QUICK_JVM, *sharing])


def make() -> str | None:
    """Make it if it is missing, instead of those of other versions. Why it could not be made."""
    wanted = archive()
    if wanted.exists():
        return None
    print(f"classes  gathering those of Spark (a minute): {wanted.name}", flush=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as folder:
        made = Path(folder) / "made.jsa"
        problem = _dumped(made) or _unusable(made)
        if problem is None:
            made.rename(wanted)
            for other in _FOLDER.iterdir():
                if other != wanted:
                    other.unlink(missing_ok=True)
    return problem


def _dumped(made: Path) -> str | None:
    """Have a Spark write its classes there when it ends; why it did not."""
    java = [*QUICK_JVM, f"-XX:ArchiveClassesAtExit={made}", *_SILENT, f"-Djava.io.tmpdir={made.parent}"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
    spark = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, f"{made.parent}/out"],
        env={**environment, "SPARK_SUBMIT_OPTS": " ".join(java), "PYSPARK_PYTHON": sys.executable},
        cwd=made.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # its end is that of the JVM, which writes after the program has ended
        text=True,
        start_new_session=True,
    )
    try:
        _, said = spark.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(spark.pid, signal.SIGKILL)
        spark.communicate()
        return f"Spark did not end within {_SECONDS} s"
    return None if spark.returncode == 0 and made.exists() else said[-2000:]


def _unusable(made: Path) -> str | None:
    """What a JVM that it fits says of it."""
    java: list[str | Path] = [find_java(), *QUICK_JVM, f"-XX:SharedArchiveFile={made}"]
    command = [*java, "-cp", class_path(spark_home()), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return f"{made.name} is not used: {done.stdout}" if done.returncode or "warning" in done.stdout else None


def main() -> int:
    began = time.monotonic()
    try:
        problem = make()
    except EnvironmentProblem as missing:
        problem = str(missing)
    if problem is not None:
        print(f"classes  no archive, so tests take longer: {problem}", file=sys.stderr)
        return 1
    print(f"classes  there after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
