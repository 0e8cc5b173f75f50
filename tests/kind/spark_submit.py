"""Spark's own submission, beside which ours is held."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rekindle.local.java import spark_home
from tests.kind.kubectl import kubeconfig, kubectl


def spark_submit(name: str, conf: Mapping[str, str], main: str, *arguments: str) -> list[str]:
    """The command that submits a program in cluster mode and does not wait for its end."""
    server = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", f"k8s://{server}", "--deploy-mode", "cluster"]
    conf = {"spark.kubernetes.submission.waitAppCompletion": "false", **conf}
    command += ["--name", name, *(part for pair in conf.items() for part in ("--conf", "=".join(pair)))]
    return [*command, main, *arguments]


def spark_submit_environment() -> dict[str, str]:
    """As in a shell where nothing of Spark is set but where it is."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**mine, "SPARK_HOME": str(spark_home()), "KUBECONFIG": str(kubeconfig())}
