"""`rekindle.configure` in a program that spark-submit runs, as Kubernetes drivers are."""

import json
import subprocess

from rekindle.api.settings import RekindleSettings
from rekindle.local.java import spark_home
from rekindle.runtime.configure import missing_levers

CONFIGURED = """
import json
from pyspark.sql import SparkSession
import rekindle
spark = rekindle.configure(SparkSession.builder).getOrCreate()
print("conf", json.dumps(dict(spark.sparkContext.getConf().getAll())))
"""

NOT_CONFIGURED = """
import sys
from rekindle.pipeline import Pipeline
pipeline = Pipeline("ids")
pipeline.source(name="ids")(lambda spark: spark.range(3))
pipeline.sink(sys.argv[1] + "/out", name="kept")(lambda ids: ids)
pipeline.run(store=sys.argv[1] + "/store")
"""


def submitted(tmp_path, text, conf):
    """The program, after spark-submit has run it with that."""
    program = tmp_path / "program.py"
    program.write_text(text)
    conf = {"spark.ui.enabled": "false", **conf}
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    ended = subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--master", "local[1]", *words, program, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended


def test_what_was_submitted_decides_the_settings_of_the_session_and_stands(tmp_path):
    """What the operator writes of a manifest's blocks comes to the program in no other way, and is not overruled."""
    given = {
        "spark.rekindle.speculation.enabled": "true",
        "spark.rekindle.speculation.blockSlowNodeDuration": "7min",
        "spark.rekindle.recovery.maxFailuresPerTask": "6",
        "spark.speculation.quantile": "0.5",
    }
    ended = submitted(tmp_path, CONFIGURED, given)
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("conf ")]
    conf = json.loads(line.removeprefix("conf "))
    assert missing_levers(conf, RekindleSettings.from_spark_conf(conf)) == []
    assert conf["spark.excludeOnFailure.application.enabled"] == "true"
    assert conf["spark.excludeOnFailure.timeout"] == "420s"
    assert conf["spark.task.maxFailures"] == "7"
    assert (conf["spark.speculation.quantile"], conf["spark.speculation.multiplier"]) == ("0.5", "1.5")


def test_a_run_in_a_session_without_them_says_what_it_does_without(tmp_path):
    """It has none of them but a quantile of its own choice."""
    given = {"spark.rekindle.speculation.enabled": "true", "spark.speculation.quantile": "0.5"}
    said = [line for line in submitted(tmp_path, NOT_CONFIGURED, given).stdout.splitlines() if "lacks" in line]
    assert said[0].startswith("rekindle: Spark gives a task up after its own number of failures")
    assert (
        "rekindle: copies may be placed on the slow node: this session lacks spark.excludeOnFailure.application"
        ".enabled=true, spark.excludeOnFailure.application.fetchFailure.enabled=true"
    ) in said
    assert not [line for line in said if "spark.speculation.quantile" in line]
