"""A cluster with Rekindle on it, for all tests of this folder; made once, and what each test makes goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.controller.submission.names import LABEL_MANAGED
from tests.cluster import api, deployment, node_blocks
from tests.cluster.api import Application, Object
from tests.cluster.deployment import JOBS, Images
from tests.kind.cluster import WORKERS, why_unhealthy
from tests.kind.kubectl import given_kubeconfig, kubectl
from tests.kind.processes import alone
from tests.kind.storage import CLASS, recycle_volumes

APPS = Path(__file__).with_name("apps")


@pytest.fixture(scope="session", autouse=True)
def a_cluster() -> None:
    """The cluster that the tier has had made, or the one of REKINDLE_TEST_KUBECONFIG."""
    if given_kubeconfig() is None and (problem := why_unhealthy()) is not None:
        pytest.skip(f"no Kubernetes: {problem}; `make cluster` makes one and says what is missing")


@pytest.fixture(scope="session")
def images() -> Images:
    with alone():  # others may run beside this
        built = deployment.build()
        deployment.load(built)
    return built


@pytest.fixture(scope="session")
def installed(images: Images) -> Images:
    """Rekindle, from its chart."""
    with alone():
        deployment.make_namespace(JOBS)
        deployment.install(images)
    return images


@pytest.fixture(scope="session")
def programs() -> str:
    """The PySpark programs of apps/, as a ConfigMap that drivers mount at /app."""
    data = {path.name: path.read_text() for path in sorted(APPS.glob("*.py"))}
    name = "programs"
    metadata = {"name": name, "namespace": JOBS}
    with alone():
        deployment.make_namespace(JOBS)
        api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return name


@pytest.fixture
def application(installed: Images, programs: str) -> Iterator[Callable[..., Application]]:
    """Makes manifests of small Python applications; what was applied is deleted afterwards."""
    made: list[Application] = []

    def make(name: str, program: str = "pi.py", *arguments: str, **spec: Any) -> Application:
        driver = {
            "cores": 1,
            "coreRequest": "100m",
            "memory": "600m",
            "serviceAccount": "spark",
            "configMaps": [{"name": programs, "path": "/app"}],
            **spec.pop("driver", {}),
        }
        executor = {"instances": 1, "cores": 1, "coreRequest": "100m", "memory": "600m", **spec.pop("executor", {})}
        manifest = {
            "apiVersion": "rekindle.dev/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": name, "namespace": JOBS},
            "spec": {
                "type": "Python",
                "sparkVersion": "4.3.0",
                "image": installed.spark,
                "imagePullPolicy": "IfNotPresent",
                "mainApplicationFile": f"local:///app/{program}",
                "arguments": list(arguments),
                "sparkConf": {"spark.ui.enabled": "true", **spec.pop("sparkConf", {})},
                "driver": driver,
                "executor": executor,
                **spec,
            },
        }
        made.append(Application(manifest))
        return made[-1]

    yield make
    for one in made:
        one.delete(wait=False)


@pytest.fixture
def claim_template() -> Object:
    """Of a volume that all pods may mount, and whose folder is here."""
    if given_kubeconfig() is not None:
        pytest.skip("a given cluster has volumes of its own")
    recycle_volumes()
    return {"storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def ghost() -> Iterator[str]:
    """The name of a Node without a machine."""
    name = "ghost"
    api.apply(node_blocks.a_node(name))
    yield name
    kubectl("delete", "node", name, "--ignore-not-found")


@pytest.fixture
def block(installed: Images) -> Iterator[Callable[..., Object]]:
    """Has NodeBlocks made, of a worker for ten minutes unless told; afterwards no block and no mark is left.

    `ours`: as the operator makes them, which removes them when they are over.
    """
    names: list[str] = []

    def make(name: str, node: str = WORKERS[0], seconds: float = 600, *, ours: bool = False, **spec: Any) -> Object:
        made = node_blocks.manifest(name, node, seconds, **spec)
        made["metadata"]["labels"] = {LABEL_MANAGED: "true"} if ours else {}
        names.append(name)
        api.apply(made)
        return made

    yield make
    for name in names:
        kubectl("delete", "nodeblock", name, "--ignore-not-found")
    nothing = "no block and no mark is left"
    api.until(nothing, lambda: not node_blocks.blocks() and not node_blocks.marks(), 30, tell=node_blocks.told)
