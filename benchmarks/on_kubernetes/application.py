"""The application that is submitted, as both sides take it. Its pods fit on no node."""

from __future__ import annotations

import os
from importlib.metadata import version

from rekindle.controller.resources import Object
from rekindle.local.java import spark_home

IMAGE, MAIN, ARGUMENT = "spark:none", "local:///opt/spark/examples/src/main/python/pi.py", "2"
SELECTOR, NOWHERE = "there-is", "no-such-node"
ACCOUNT, MEMORY, EXECUTORS = "spark", "600m", 2


def manifest(name: str) -> Object:
    driver = {"memory": MEMORY, "serviceAccount": ACCOUNT, "nodeSelector": {SELECTOR: NOWHERE}}
    spec = {
        "type": "Python",
        "sparkVersion": version("pyspark"),
        "image": IMAGE,
        "mainApplicationFile": MAIN,
        "arguments": [ARGUMENT],
        "timeouts": {"driverStart": "24h", "executorStart": "24h"},
        "driver": driver,
        "executor": {"instances": EXECUTORS, "memory": MEMORY},
    }
    return {"metadata": {"name": name}, "spec": spec}


def spark_submit(name: str, namespace: str, server: str) -> list[str]:
    """The command that submits the same application."""
    conf = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
        "spark.kubernetes.driver.pod.name": f"{name}-driver",
        f"spark.kubernetes.driver.node.selector.{SELECTOR}": NOWHERE,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.driver.memory": MEMORY,
        "spark.executor.memory": MEMORY,
        "spark.executor.instances": str(EXECUTORS),
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", f"k8s://{server}", "--deploy-mode", "cluster"]
    command += ["--name", name, *(part for pair in conf.items() for part in ("--conf", "=".join(pair)))]
    return [*command, MAIN, ARGUMENT]


def spark_submit_environment() -> dict[str, str]:
    """As in a shell where nothing of Spark is set but where it is."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**mine, "SPARK_HOME": str(spark_home())}
