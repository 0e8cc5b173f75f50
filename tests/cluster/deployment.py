"""Rekindle on the cluster as a user installs it: two images built from the Dockerfile, and the chart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.kind import bases, binaries, cluster
from tests.kind.images import build_image, content_tag, image_exists
from tests.kind.kubectl import given_kubeconfig, kubeconfig, kubectl
from tests.kind.processes import Failed, run

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "rekindle"
RELEASE, NAMESPACE, JOBS = "rekindle", "rekindle-system", "jobs"
SELECTOR = f"app.kubernetes.io/instance={RELEASE}"
"""Of all that the chart makes."""

_HELM_SECONDS = 75
_PACKAGE = ROOT / "operator" / "rekindle"
_SOURCES = {
    "operator": [_PACKAGE],
    "spark": [_PACKAGE / room for room in ("api", "core", "pipeline", "runtime")],  # a driver reads nothing else
}


@dataclass(frozen=True)
class Images:
    """The tags of what was built."""

    operator: str
    spark: str


def build() -> Images:
    """Both images, under tags of their content; on a given cluster those that REKINDLE_TEST_IMAGES names."""
    if given_kubeconfig() is not None:
        return _given()
    made = {}
    for target, argument, base in (
        ("operator", "PYTHON_BASE", bases.python_image()),
        ("spark", "SPARK_BASE", bases.spark_image()),
    ):
        made[target] = content_tag(
            f"rekindle-{target}", ROOT / "Dockerfile", ROOT / "pyproject.toml", *_SOURCES[target], base
        )
        arguments = {argument: base, "PYTHON_BASE": bases.python_image()}
        if not image_exists(made[target]):
            build_image(ROOT / "Dockerfile", target, made[target], arguments, ROOT)
    return Images(**made)


def _given() -> Images:
    operator, _, spark = os.environ.get("REKINDLE_TEST_IMAGES", "").partition(",")
    if not (operator and spark):
        raise Failed(
            "REKINDLE_TEST_KUBECONFIG names a cluster that gets no images from here; push both, and name them: "
            "REKINDLE_TEST_IMAGES=REGISTRY/rekindle-operator:TAG,REGISTRY/rekindle-spark:TAG"
        )
    return Images(operator, spark)


def install(images: Images, *values: str, wait: bool = True) -> None:
    """`helm upgrade --install` with the images; `values` as `--set` takes them."""
    repository, tag = images.operator.rsplit(":", 1)
    sets = [
        f"image.repository={repository}",
        f"image.tag={tag}",
        "image.pullPolicy=IfNotPresent",
        f"spark.namespaces={{{JOBS}}}",
        *values,
    ]
    arguments = [part for value in sets for part in ("--set", value)]
    waiting = ["--wait", "--timeout", f"{_HELM_SECONDS}s"] if wait else []
    helm(
        "upgrade",
        "--install",
        RELEASE,
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--create-namespace",
        *waiting,
        *arguments,
    )


def uninstall() -> None:
    helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")


def helm(*arguments: str) -> str:
    program = binaries.HELM.path("helm")
    return run([program, "--kubeconfig", str(kubeconfig()), *arguments], timeout=_HELM_SECONDS + 20)


def make_namespace(name: str) -> None:
    """With the service account that pods have unless told otherwise: before it is there, no pod can be made."""
    if not kubectl("get", "namespace", name, "--ignore-not-found").strip():
        kubectl("create", "namespace", name)
        kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s", timeout=70)


def load(images: Images) -> None:
    """Into the nodes, where they are ours."""
    if given_kubeconfig() is None:
        cluster.load(images.operator, images.spark)
