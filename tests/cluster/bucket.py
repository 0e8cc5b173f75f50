"""An S3 server in the cluster, and what Spark needs to reach it: a pod and a service; nothing of either is in an image.

The server's program and Spark's connector lie beside the volumes of the tests, whose folder every node mounts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster import api
from tests.cluster.deployment import JOBS
from tests.kind.kubectl import kubectl
from tests.kind.storage import IN_NODE, host_folder
from tests.tools import bucket
from tests.tools.connector import connector_jars

_NAME, _PORT, _FOLDER = "bucket", 7070, "s3"
_MOUNT = {"name": _FOLDER, "mountPath": f"/{_FOLDER}", "readOnly": True}
_VOLUME = {"name": _FOLDER, "hostPath": {"path": f"{IN_NODE}/{_FOLDER}", "type": "Directory"}}
_READY_SECONDS = 60


MOUNTS = [_MOUNT]
"""Of driver and executor, for the connector."""


def application(prefix: str) -> dict[str, Any]:
    """Of the spec of an application whose store is in the bucket."""
    return {
        "recovery": {"store": f"s3://{bucket.BUCKET}/{prefix}"},
        "hadoopConf": bucket.hadoop_conf(f"http://{_NAME}:{_PORT}"),
        "deps": {"jars": [f"local:///{_FOLDER}/jars/{jar.name}" for jar in connector_jars()]},
        "volumes": [_VOLUME],
    }


def names(folder: str) -> list[str]:
    """What lies below a prefix of the bucket, as its files are."""
    path = f"/data/{bucket.BUCKET}/{folder}"
    return kubectl("exec", _NAME, "-n", JOBS, "--", "sh", "-c", f"ls {path} 2>/dev/null || :").split()


@contextmanager
def server(image: str) -> Iterator[None]:
    """`image`: any that has a shell. The server is gone with the block, and so is what it held."""
    _lay_out()
    labels = {"app": _NAME}
    command = f"mkdir -p /data/{bucket.BUCKET} && exec /{_FOLDER}/{bucket.server_binary().name} --port :{_PORT} "
    command += f"--access {bucket.KEY} --secret {bucket.SECRET} posix /data"
    container = {
        "name": _NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
        "volumeMounts": [_MOUNT, {"name": "data", "mountPath": "/data"}],
    }
    pod = {"containers": [container], "volumes": [_VOLUME, {"name": "data", "emptyDir": {}}]}
    service = {"selector": labels, "ports": [{"port": _PORT}]}
    metadata = {"name": _NAME, "namespace": JOBS, "labels": labels}
    _remove()  # what a test that was killed has left holds other objects
    try:
        api.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        )
        ready = ("wait", "--for=condition=Ready", f"pod/{_NAME}", "-n", JOBS, f"--timeout={_READY_SECONDS}s")
        kubectl(*ready, timeout=_READY_SECONDS + 10)
        yield
    finally:
        _remove()


def _remove() -> None:
    kubectl("delete", "pod,service", _NAME, "-n", JOBS, "--ignore-not-found", "--grace-period=1")


def _lay_out() -> None:
    folder = host_folder() / _FOLDER
    (folder / "jars").mkdir(parents=True, exist_ok=True)
    for source, target in [(bucket.build(), folder), *((jar, folder / "jars") for jar in connector_jars())]:
        if not (target / source.name).exists():
            shutil.copy(source, target / f".{source.name}")
            (target / f".{source.name}").rename(target / source.name)
