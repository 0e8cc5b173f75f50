"""The application that is submitted, as both sides take it. Its pods fit on no node."""

from __future__ import annotations

from importlib.metadata import version

from rekindle.controller.resources import Object
from tests.kind.spark_submit import spark_submit

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


def spark_submit_of(name: str, namespace: str) -> list[str]:
    """The command of Spark's that submits the same application."""
    conf = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
        "spark.kubernetes.driver.pod.name": f"{name}-driver",
        f"spark.kubernetes.driver.node.selector.{SELECTOR}": NOWHERE,
        "spark.driver.memory": MEMORY,
        "spark.executor.memory": MEMORY,
        "spark.executor.instances": str(EXECUTORS),
    }
    return spark_submit(name, conf, MAIN, ARGUMENT)
