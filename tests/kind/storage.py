"""Volumes that many pods on many nodes read and write at once, without a program that makes them.

One folder of the machine is mounted into every node, and each of its subfolders is a PersistentVolume of the storage
class `shared`. A claim takes any free one. What was claimed once is Released and keeps its files until
`recycle_volumes` empties it and offers it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kind.kubectl import kubectl
from tests.kind.processes import cache

CLASS = "shared"
COUNT = 24
IN_NODE = "/volumes"
_SIZE = "10Gi"


def host_folder() -> Path:
    return cache() / "volumes"


def prepare_folder() -> Path:
    """An empty folder for every volume; anybody may write, for pods run as many users."""
    remove_folder()
    for name in volume_names():
        _make(host_folder() / name)
    return host_folder()


def remove_folder() -> None:
    shutil.rmtree(host_folder(), ignore_errors=True)


def volume_names() -> list[str]:
    return [f"{CLASS}-{number:02}" for number in range(1, COUNT + 1)]


def storage_class() -> dict[str, Any]:
    """Also the one that kind finds in our node image, rather than a class of its own that nothing serves."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }


def apply() -> None:
    items = [storage_class(), *(_volume(name) for name in volume_names())]
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def recycle_volumes(is_used: Callable[[str], bool] = lambda claim: False) -> list[str]:
    """Empty every released volume and make it available; their names. Only where the cluster is ours.

    `is_used`: of the claim that had it, whether pods may mount it still.
    """
    listed = json.loads(kubectl("get", "persistentvolumes", "-o", "json"))["items"]
    released = [
        item["metadata"]["name"]
        for item in listed
        if item["spec"].get("storageClassName") == CLASS
        and item["status"].get("phase") in ("Released", "Failed")
        and not is_used((item["spec"].get("claimRef") or {}).get("name", ""))
    ]
    for name in released:
        _empty(host_folder() / name)
        kubectl("patch", "persistentvolume", name, "--type=json", "-p", '[{"op": "remove", "path": "/spec/claimRef"}]')
    return released


@contextmanager
def lost(name: str) -> Iterator[None]:
    """A volume taken away from under its claim, which is `Lost` then; afterwards it is made anew, empty."""
    try:
        kubectl("delete", "persistentvolume", name, "--wait=false")
        kubectl("patch", "persistentvolume", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        yield
    finally:
        _empty(host_folder() / name)
        kubectl("apply", "-f", "-", text=json.dumps(_volume(name)))


def _volume(name: str) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": _SIZE},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": CLASS,
        "hostPath": {"path": f"{IN_NODE}/{name}", "type": "Directory"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _make(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _empty(folder: Path) -> None:
    """In place: it is mounted in pods by its inode, and in nodes through its parent."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
