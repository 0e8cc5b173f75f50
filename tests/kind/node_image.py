"""The image of a node, for machines that reach no image registry: Debian, the built programs, and the cluster's own
images already in containerd's store, for kubeadm finds them there before it would ask a registry."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kind import binaries, storage, versions
from tests.kind.bases import debian_image, debian_tag
from tests.kind.engine import docker
from tests.kind.go import go_program
from tests.kind.images import build_image, content_tag, image_exists, import_tree, save_images
from tests.kind.processes import Failed, cache, run, step

_FILES = Path(__file__).parent / "node"
_ON_NODE = (
    (binaries.KUBERNETES, ("kubelet", "kubeadm", "kube-proxy")),
    (binaries.KUBECTL, ("kubectl",)),
    (binaries.CONTAINERD, ("containerd", "containerd-shim-runc-v2", "ctr")),
)


_PROGRAMS = (*binaries.NODE, binaries.KUBECTL)


def node_image_tag() -> str:
    programs = [program.folder.name for program in _PROGRAMS]
    return content_tag("rekindle-test/node", debian_tag(), _FILES, Path(__file__), storage.storage_class(), *programs)


def node_image() -> str:
    """Its tag; built when it is not there, from programs that are built when they are not there."""
    tag = node_image_tag()
    if image_exists(tag):
        return tag
    with ThreadPoolExecutor(2) as pool:  # the one compiles, the other waits for mirrors
        building, debian = pool.submit(binaries.build, (*binaries.NODE, *binaries.CLIENTS)), pool.submit(debian_image)
        building.result()
        base = debian.result()
    with step(f"building the node image {tag}"), TemporaryDirectory(dir=cache()) as folder:
        _build(tag, base, Path(folder))
    return tag


def _build(tag: str, base: str, context: Path) -> None:
    shutil.copytree(_FILES, context, dirs_exist_ok=True)
    (context / "bin").mkdir()
    for program, commands in _ON_NODE:
        for command in commands:
            os.link(program.path(command), context / "bin" / command)
    wanted = _wanted_images()
    for name, image in wanted.items():
        _make_image(name, image, base, context)
    save_images(list(wanted.values()), context / "images.tar")
    config = context / "rootfs/etc/containerd/config.toml"
    config.write_text(config.read_text().replace("@PAUSE@", wanted["pause"]))
    manifests = context / "rootfs/kind/manifests"
    manifests.mkdir(parents=True, exist_ok=True)
    (manifests / "default-storage.yaml").write_text(json.dumps(storage.storage_class()))
    (manifests.parent / "version").write_text(versions.KUBERNETES)
    build_image(context / "Dockerfile", "node", tag, {"BASE": base}, context)
    docker("image", "rm", *wanted.values())  # the node image has them


def _wanted_images() -> dict[str, str]:
    """What this kubeadm asks for: {"etcd": "REGISTRY/etcd:3.6.8-0"}. Ours must be of those versions."""
    kubeadm = binaries.KUBERNETES.path("kubeadm")
    listed = run([kubeadm, "config", "images", "list", "--kubernetes-version", versions.KUBERNETES], timeout=60).split()
    wanted = {image.rpartition("/")[2].partition(":")[0]: image for image in listed}
    for name, ours in (("etcd", versions.ETCD), ("coredns", versions.COREDNS)):
        asked = wanted[name].rpartition(":")[2]
        if asked.removeprefix("v").partition("-")[0] != ours.removeprefix("v"):
            raise Failed(f"versions.py has {name} {ours}, but kubeadm {versions.KUBERNETES} asks for {asked}")
    return wanted


def _make_image(name: str, image: str, base: str, context: Path) -> None:
    if name == "kube-proxy":
        build_image(context / "Dockerfile", "kube-proxy", image, {"BASE": base}, context)
        return
    with TemporaryDirectory(dir=context) as folder:
        program = Path(folder) / "usr/local/bin" / name
        program.parent.mkdir(parents=True)
        os.link(_program(name), program)
        entrypoint = [f"/usr/local/bin/{name}"] if name in ("coredns", "pause") else []
        import_tree(image, ["-C", folder, "-c", "usr"], entrypoint)


def _program(name: str) -> Path:
    apart: Mapping[str, binaries.Program] = {"etcd": binaries.ETCD, "coredns": binaries.COREDNS}
    return _pause() if name == "pause" else apart.get(name, binaries.KUBERNETES).path(name)


def _pause() -> Path:
    source = _FILES / "pause.go"
    built = cache() / content_tag("pause", source).replace(":", "-")
    if not built.exists():
        with TemporaryDirectory(dir=cache()) as aside:
            made = Path(aside) / "pause"
            flags: list[str | Path] = ["-trimpath", "-ldflags", "-s -w", "-o", made]
            run([go_program(), "build", *flags, source], timeout=300, env=binaries.ENVIRONMENT)
            made.rename(built)
    return built
