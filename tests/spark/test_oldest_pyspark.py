"""A smoke run on the oldest PySpark that pyproject.toml allows, in an environment of its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import dataclasses, json, os, sys
import pyspark, rekindle
from pyspark.sql.types import LongType
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage
from rekindle.connectors.files import Files
from rekindle.pipeline import DataSourceSink, FileSink, Pipeline, SparkSink

pipeline = Pipeline("oldest", default_partitions=3)

class Letters(DataSource):
    @classmethod
    def name(cls):
        return "letters"

    def schema(self):
        return "letter STRING"

    def reader(self, schema):
        return LettersReader()

class LettersReader(DataSourceReader):
    def partitions(self):
        return [InputPartition(letter) for letter in "abc"]

    def read(self, partition):
        yield (partition.value,)

pipeline.read("letters", Letters, partitions=2)

@pipeline.sink(SparkSink("parquet", {"path": sys.argv[1] + "/letters"}))
def spelled(letters: DataFrame) -> DataFrame:
    return letters

class Post(DataSource):
    def writer(self, schema, overwrite):
        return PostWriter(self.options["path"])

class PostWriter(DataSourceWriter):
    def __init__(self, path):
        self.path = path

    def write(self, rows):
        return Sent([[row.n, str(row.day)] for row in rows])

    def commit(self, messages):
        with open(self.path, "x") as file:
            json.dump(sorted(row for one in messages for row in one.rows), file)

@dataclasses.dataclass
class Sent(WriterCommitMessage):
    rows: list

with open(sys.argv[1] + "/days.csv", "w") as file:
    file.write("n,day\\n1,2013-01-01\\n2,2013-01-02\\n")
said = {"path": sys.argv[1] + "/days.csv", "format": "csv", "splitBytes": 20}
pipeline.read("days", Files, options=said, partitions=2)

@pipeline.sink(DataSourceSink(Post, {"path": sys.argv[1] + "/post"}))
def posted(days: DataFrame) -> DataFrame:
    return days

tried = sys.argv[1] + "/tried"

@F.udf(LongType())
def once_broken(number):
    if number == 299_990 and not os.path.exists(tried):
        open(tried, "w").close()
        raise OSError("a service did not answer")
    return number

@pipeline.source(partition_by="k")
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(300_000).withColumn("k", F.col("id") % 10)

@pipeline.stage(pointwise=True)
def same(numbers: DataFrame) -> DataFrame:
    return numbers.select(once_broken("id").alias("id"), "k")

@pipeline.sink(FileSink(sys.argv[1] + "/out"), partition_by="k")
def totals(same: DataFrame) -> DataFrame:
    return same.groupBy("k").agg(F.sum("id").alias("total"))

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = rekindle.configure(builder, store=sys.argv[1] + "/store").getOrCreate()
try:
    pipeline.run(spark)
except rekindle.runtime.errors.PipelineFailed as error:
    print(error)
report = pipeline.run(spark).report
rows = sorted(map(tuple, spark.read.parquet(sys.argv[1] + "/out").collect()))
letters = sorted(row.letter for row in spark.read.parquet(sys.argv[1] + "/letters").collect())
with open(sys.argv[1] + "/post") as file:
    post = json.load(file)
print("RESULT", json.dumps([pyspark.__version__, report["state"], rows, letters, post]))
"""


def oldest() -> tuple[str, list[str]]:
    """The lowest PySpark of pyproject.toml, and the project's other requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    (spark,) = [one for one in requirements if one.startswith("pyspark")]
    found = re.search(r">=(\d+\.\d+)", spark)
    assert found is not None
    return found[1], [one for one in requirements if not one.startswith("pyspark")]


@pytest.fixture(scope="module")
def python() -> Path:
    """An environment, kept outside the checkout under a name made of what is in it."""
    version, others = oldest()
    wanted = [f"pyspark=={version}.*", *others]
    digest = hashlib.sha256(json.dumps([sys.version, wanted]).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rekindle" / f"pyspark-{version}-{digest}"
    python = cache / "bin" / "python"
    if not (cache / "complete").exists():
        venv.create(cache, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted], check=True, timeout=280)
        (cache / "complete").touch()
    return python


@pytest.mark.timeout(600)
def test_a_pipeline_runs_on_the_oldest_pyspark(python, tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    done = subprocess.run(
        [str(python), str(tmp_path / "main.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "operator"), "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert results, done.stderr[-3000:]
    version, state, rows, letters, post = json.loads(results[0].removeprefix("RESULT "))
    assert version.startswith(oldest()[0])
    assert "a service did not answer" in done.stdout
    assert state == "finished"
    assert rows == [[key, sum(range(key, 300_000, 10))] for key in range(10)]
    assert letters == ["a", "b", "c"]
    assert post == [[1, "2013-01-01"], [2, "2013-01-02"]]
