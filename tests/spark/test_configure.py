"""`rekindle.configure` in a program that spark-submit runs, as Kubernetes drivers are."""

import json
import subprocess

from rekindle.local.java import spark_home

PROGRAM = """
import json
from pyspark.sql import SparkSession
import rekindle
spark = rekindle.configure(SparkSession.builder).getOrCreate()
print("conf", json.dumps(dict(spark.sparkContext.getConf().getAll())))
"""


def test_what_was_submitted_decides_the_settings_of_the_session_and_stands(tmp_path):
    """What the operator writes of a manifest's blocks comes to the program in no other way, and is not overruled."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    submitted = {
        "spark.ui.enabled": "false",
        "spark.rekindle.speculation.enabled": "true",
        "spark.rekindle.speculation.blockSlowNodeDuration": "7min",
        "spark.rekindle.recovery.maxFailuresPerTask": "6",
        "spark.speculation.quantile": "0.5",
    }
    words = [word for key, value in submitted.items() for word in ("--conf", f"{key}={value}")]
    submit = spark_home() / "bin" / "spark-submit"
    ended = subprocess.run(
        [submit, "--master", "local[1]", *words, program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("conf ")]
    conf = json.loads(line.removeprefix("conf "))
    assert conf["spark.excludeOnFailure.application.enabled"] == "true"
    assert conf["spark.excludeOnFailure.timeout"] == "420s"
    assert conf["spark.task.maxFailures"] == "7"
    assert (conf["spark.speculation.quantile"], conf["spark.speculation.multiplier"]) == ("0.5", "1.5")
