"""The programs of the cluster, built from their Go modules and kept by content.

Each is built as a dependency of an empty module of its own, so no go.mod or go.sum lies in the repository:
Go writes them while it builds, and checks every module against the public checksum database.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kind import versions
from tests.kind.go import go_program
from tests.kind.processes import cache, run, run_logged, step

_BUILD_SECONDS = 2700
_AT_ONCE = 2  # one downloads while the other compiles


@dataclass(frozen=True)
class Program:
    """One module and the commands of it that are wanted, {name: package}."""

    name: str
    module: str
    version: str
    commands: Mapping[str, str]
    tags: tuple[str, ...] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Variables that the linker sets: what the command says of its version."""
    staging: str | None = None
    """The version of the modules that this one replaces by folders of its own, which a module's zip lacks."""

    @property
    def folder(self) -> Path:
        content = json.dumps([self.module, self.commands, self.tags, self.stamps, self.staging], sort_keys=True)
        return cache() / f"{self.name}-{self.version}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def path(self, command: str) -> Path:
        """Where the command is, or will be."""
        if command not in self.commands:
            raise KeyError(command)
        return self.folder / command

    def build(self) -> None:
        if self.folder.exists():
            return
        with step(f"building {self.name} {self.version}"), TemporaryDirectory(dir=cache()) as aside:
            source, out = Path(aside) / "source", Path(aside) / "out"
            source.mkdir()
            self._write_module(source)
            out.mkdir()
            stamps = " ".join(f"-X {variable}={value}" for variable, value in self.stamps.items())
            for_all = ["-trimpath", "-tags", ",".join(self.tags), "-ldflags", f"-s -w {stamps}"]
            command: list[str | Path] = [go_program(), "build", *for_all, "-o", f"{out}/", *self.commands.values()]
            run_logged(
                f"build-{self.name}",
                command,
                timeout=_BUILD_SECONDS,
                env={**ENVIRONMENT, "GOTMPDIR": aside},
                cwd=source,
            )
            for name, package in self.commands.items():
                if (built := out / _default_name(package)) != out / name:
                    built.rename(out / name)
            out.rename(self.folder)

    def _write_module(self, folder: Path) -> None:
        go = go_program()
        run([go, "mod", "init", "build"], timeout=30, env=ENVIRONMENT, cwd=folder)
        edits = [f"-require={self.module}@{self.version}", *self._replacements(folder)]
        run([go, "mod", "edit", *edits], timeout=30, env=ENVIRONMENT, cwd=folder)

    def _replacements(self, folder: Path) -> list[str]:
        if self.staging is None:
            return []
        own = _go_mod(self.module, self.version, folder)
        local = [entry["Old"]["Path"] for entry in own["Replace"] if entry["New"]["Path"].startswith(".")]
        return [f"-replace={module}={module}@{self.staging}" for module in local]


def _kubernetes(name: str, *commands: str) -> Program:
    version = versions.KUBERNETES
    major, minor, patch = version.removeprefix("v").split(".")
    stamps: dict[str, str] = {}
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        stamps |= {f"{package}.gitVersion": version, f"{package}.gitMajor": major, f"{package}.gitMinor": minor}
    packages = {command: f"k8s.io/kubernetes/cmd/{command}" for command in commands}
    return Program(name, "k8s.io/kubernetes", version, packages, stamps=stamps, staging=f"v0.{minor}.{patch}")


def _containerd() -> Program:
    module = "github.com/containerd/containerd/v2"
    commands = {name: f"{module}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    stamps = {f"{module}/version.Version": versions.CONTAINERD}
    # these need C libraries, or kernels' file systems that a node does not use
    tags = ("no_btrfs", "no_devmapper", "no_zfs", "no_aufs")
    return Program("containerd", module, versions.CONTAINERD, commands, tags, stamps)


KUBERNETES = _kubernetes(
    "kubernetes",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubeadm",
)
KUBECTL = _kubernetes("kubectl", "kubectl")  # alone where the nodes are kind's own image
CONTAINERD = _containerd()
ETCD = Program("etcd", "go.etcd.io/etcd/server/v3", versions.ETCD, {"etcd": "go.etcd.io/etcd/server/v3"})
COREDNS = Program("coredns", "github.com/coredns/coredns", versions.COREDNS, {"coredns": "github.com/coredns/coredns"})
METRICS_SERVER = Program(
    "metrics-server",
    "sigs.k8s.io/metrics-server",
    versions.METRICS_SERVER,
    {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"},
)
KIND = Program("kind", "sigs.k8s.io/kind", versions.KIND, {"kind": "sigs.k8s.io/kind"})
HELM = Program(
    "helm",
    "helm.sh/helm/v3",
    versions.HELM,
    {"helm": "helm.sh/helm/v3/cmd/helm"},
    stamps={"helm.sh/helm/v3/internal/version.version": versions.HELM},
)

NODE = (KUBERNETES, CONTAINERD, COREDNS, ETCD)
CLIENTS = (HELM, METRICS_SERVER, KIND, KUBECTL)  # kubectl last: Kubernetes has compiled its packages by then
"""What is needed with any node image."""


def build(programs: Sequence[Program]) -> None:
    """Build what is missing, in this order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(Program.build, programs))


ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "auto",
    "GOWORK": "off",
    "GOOS": "linux",
}


def _go_mod(module: str, version: str, folder: Path) -> Any:
    found = json.loads(
        run([go_program(), "mod", "download", "-json", f"{module}@{version}"], timeout=600, env=ENVIRONMENT, cwd=folder)
    )
    return json.loads(run([go_program(), "mod", "edit", "-json", found["GoMod"]], timeout=30, env=ENVIRONMENT))


def _default_name(package: str) -> str:
    """How `go build` calls a command: the last part of its path that is not a major version."""
    parts = package.split("/")
    return parts[-2] if parts[-1].startswith("v") and parts[-1][1:].isdigit() else parts[-1]
