"""Spark's own recovery of shuffle files (`spec.recovery.shuffleVolumes`), with what its defaults leave out.

Each executor gets a claim that its driver owns. When an executor is lost, the one that replaces it mounts the same
claim, finds the map outputs there as soon as a task of its own writes a shuffle, and tells the driver of them, so that
they are not made again. It is Spark's own work and ends with the driver.
"""

from rekindle.api.spark_application import SparkApplicationSpec

_CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"

_MOUNT_PATH = "/rekindle/shuffle/spark-x/executor-x"
"""What recovers looks two folders above for others of these names."""

_REUSED_AFTER = "30s"
"""Spark gives no claim to another executor that is younger than this; without a word it is ten minutes, within which
nothing would be recovered. The same time is how long a pod that was asked for may take to be known."""


def shuffle_properties(spec: SparkApplicationSpec) -> dict[str, str]:
    """Spark's properties; what `sparkConf` says of them wins."""
    wanted = spec.recovery.shuffle_volumes
    if wanted is None:
        return {}
    of_class = {f"{_CLAIM}.options.storageClass": wanted.storage_class_name} if wanted.storage_class_name else {}
    return {
        f"{_CLAIM}.options.claimName": "OnDemand",
        f"{_CLAIM}.options.sizeLimit": wanted.size,
        **of_class,
        f"{_CLAIM}.mount.path": _MOUNT_PATH,
        f"{_CLAIM}.mount.readOnly": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "true",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "true",
        "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "true",
        "spark.kubernetes.allocation.executor.timeout": _REUSED_AFTER,
        "spark.shuffle.sort.io.plugin.class": "org.apache.spark.shuffle.KubernetesLocalDiskShuffleDataIO",
    }
