"""`spec.recovery.shuffleVolumes`: what Spark is told."""

from __future__ import annotations

from tests.unit.controller.test_submission import properties

CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
TIMEOUT = "spark.kubernetes.allocation.executor.timeout"


def test_each_executor_gets_a_claim_that_its_successor_takes_over():
    told = properties(recovery={"shuffleVolumes": {"size": "50Gi", "storageClassName": "gp3"}})
    assert told[f"{CLAIM}.options.sizeLimit"] == "50Gi"
    assert told[f"{CLAIM}.options.storageClass"] == "gp3"
    assert told[f"{CLAIM}.mount.path"].split("/")[-2:] == ["spark-x", "executor-x"]
    assert told["spark.kubernetes.driver.reusePersistentVolumeClaim"] == "true"
    assert told[TIMEOUT] == "30s"
    assert not [key for key in told if key.startswith("spark.rekindle.") and "shuffleVolumes" in key]


def test_the_clusters_default_class_needs_no_word():
    told = properties(recovery={"shuffleVolumes": {"size": "50Gi"}})
    assert f"{CLAIM}.options.storageClass" not in told


def test_what_spark_conf_says_wins():
    told = properties(recovery={"shuffleVolumes": {"size": "50Gi"}}, sparkConf={TIMEOUT: "90s"})
    assert told[TIMEOUT] == "90s"


def test_without_it_spark_is_told_nothing():
    assert not [key for key in properties() if "persistentVolumeClaim" in key]
