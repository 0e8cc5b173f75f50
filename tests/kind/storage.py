"""Volumes that many pods on many nodes read and write at once, without a program that makes them.

One folder of the machine is mounted into every node, and each of its subfolders is a PersistentVolume of the storage
class `shared`. A claim takes any free one. What was claimed once is Released and keeps its files until
`recycle_volumes` empties it and offers it again. The folder is a file system of its own, in memory, so that it can be
filled to the last byte without harm to the machine.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed, alone, cache, run

CLASS = "shared"
COUNT = 24
IN_NODE = "/volumes"
_SIZE = "10Gi"
_ROOM = "4g"
"""For all of them together."""

_MOUNT_SECONDS = 30
_STEPS = (1 << 26, 1 << 20, 1 << 12)
"""Bytes that are taken at a time of what room is left."""


def host_folder() -> Path:
    return cache() / "volumes"


def prepare_folder() -> Path:
    """An empty folder for every volume; anybody may write, for pods run as many users."""
    remove_folder()
    host_folder().mkdir(parents=True)
    options = ["-o", f"size={_ROOM},mode=755"]
    run(["mount", "-t", "tmpfs", *options, "rekindle-volumes", host_folder()], timeout=_MOUNT_SECONDS)
    for name in volume_names():
        _make(host_folder() / name)
    return host_folder()


def remove_folder() -> None:
    while host_folder().is_mount():
        run(["umount", host_folder()], timeout=_MOUNT_SECONDS)
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
    with alone():
        return _recycle(is_used)


def _recycle(is_used: Callable[[str], bool]) -> list[str]:
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


@contextmanager
def full() -> Iterator[None]:
    """None of the volumes has room for a byte more; what is removed meanwhile makes some. What fills them has no name,
    so that it goes with this process, whatever becomes of that."""
    if not host_folder().is_mount():
        raise Failed(f"{host_folder()} is no file system of its own: make cluster-down, then make cluster")
    with tempfile.TemporaryFile(dir=host_folder()) as file:
        size = 0
        for step in _STEPS:
            while _take(file.fileno(), size, step):
                size += step
        yield


def _take(file: int, start: int, count: int) -> bool:
    """Whether there was room for so many bytes of a file."""
    try:
        os.posix_fallocate(file, start, count)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


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
