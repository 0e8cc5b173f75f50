"""The pods of the operators that the chart has had made, and their sudden end."""

from __future__ import annotations

from tests.cluster import api
from tests.cluster.api import Object, items
from tests.cluster.deployment import NAMESPACE, SELECTOR
from tests.kind.kubectl import kubectl


def pods() -> list[Object]:
    """Those that are not on their way out, by name."""
    found = items("pods", NAMESPACE, SELECTOR)
    return sorted((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), key=name_of)


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def metrics() -> str:
    """Of the one operator."""
    (pod,) = pods()
    return kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name_of(pod)}:8080/proxy/metrics")


def kill(*names: str) -> None:
    """Without a word to them; all of them unless named."""
    which = names or [name_of(pod) for pod in pods()]
    assert which, "there is no operator to kill"
    api.kill(NAMESPACE, *which, "--ignore-not-found")
