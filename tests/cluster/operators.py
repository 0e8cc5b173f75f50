"""The operators that the chart has had made, and their sudden end."""

from __future__ import annotations

from tests.cluster.api import Object, items
from tests.cluster.deployment import NAMESPACE, SELECTOR
from tests.kind.kubectl import kubectl


def operators() -> list[Object]:
    """The pods of those that are not on their way out, by name."""
    pods = [pod for pod in items("pods", NAMESPACE, SELECTOR) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pods, key=name_of)


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def are_ready() -> bool:
    """Whether there is one, and all are ready."""
    conditions = [
        {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}.get("Ready") for pod in operators()
    ]
    return bool(conditions) and all(status == "True" for status in conditions)


def kill(*names: str) -> None:
    """Without a word to them; all of them unless named."""
    which = names or [name_of(pod) for pod in operators()]
    kubectl("delete", "pods", *which, "-n", NAMESPACE, "--grace-period=0", "--force", "--wait=false")
