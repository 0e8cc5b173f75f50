"""The cluster as the tests see it: kubectl, applications by what is said of them, and waits with a deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.deployment import SELECTOR
from tests.kind import kubelet
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

Object = dict[str, Any]

_EVERY = 0.2

SPREAD = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"spark-role": "executor"}},
                    "topologyKey": "kubernetes.io/hostname",
                },
            }
        ]
    }
}
"""Affinity of executors that keep apart where they can."""


def apply(*objects: Object) -> None:
    """As a user does."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    kubectl("apply", "-f", "-", text=text, timeout=60 + len(objects))


def get(kind: str, name: str, namespace: str) -> Object | None:
    found = kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
    return json.loads(found) if found.strip() else None


def there(kind: str, name: str, namespace: str) -> Object:
    """The object, which must be there."""
    found = get(kind, name, namespace)
    assert found is not None, f"no {kind} {name} in {namespace}"
    return found


def items(kind: str, namespace: str, selector: str = "") -> list[Object]:
    arguments = ["-l", selector] if selector else []
    return json.loads(kubectl("get", kind, "-n", namespace, "-o", "json", *arguments))["items"]


def until(what: str, seen: Callable[[], Any], seconds: float = 120.0, *, tell: Callable[[], str] = lambda: "") -> Any:
    """What `seen` returns once it is true; AssertionError, with what `tell` says, when it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := seen()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not seen within {seconds:g} s: {what}\n{tell()}")
        time.sleep(_EVERY)
    return found


def evict(pod: Object) -> None:
    """As `kubectl drain` and autoscalers do. Failed where a budget does not allow it."""
    metadata = {name: pod["metadata"][name] for name in ("name", "namespace")}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))


def kill(namespace: str, *which: str) -> None:
    """Pods, by their names or by a selector, without a word to them and without waiting."""
    kubectl("delete", "pods", *which, "-n", namespace, "--grace-period=0", "--force", "--wait=false")


class Application:
    """One SparkApplication on the cluster."""

    def __init__(self, manifest: Object) -> None:
        self.manifest = manifest
        self.name, self.namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]

    def apply(self) -> Application:
        apply(self.manifest)
        return self

    def edit(self, **spec: Any) -> None:
        """Change fields of the spec; None removes one."""
        patch = json.dumps({"spec": spec})
        kubectl("patch", "sparkapplication", self.name, "-n", self.namespace, "--type=merge", "-p", patch)

    def delete(self, *, wait: bool = True) -> None:
        arguments = ["--ignore-not-found", f"--wait={str(wait).lower()}", "--timeout=110s"]
        kubectl("delete", "sparkapplication", self.name, "-n", self.namespace, *arguments, timeout=120)

    @property
    def body(self) -> Object:
        return there("sparkapplication", self.name, self.namespace)

    @property
    def status(self) -> Object:
        return self.body.get("status") or {}

    @property
    def generation(self) -> int:
        return int(self.body["metadata"]["generation"])

    @property
    def state(self) -> str:
        return str((self.status.get("applicationState") or {}).get("state", ""))

    @property
    def reasons(self) -> list[str]:
        """Why each state was entered, in order."""
        return [entered["reason"] for entered in self.status.get("transitions", ())]

    def condition(self, kind: str) -> Object:
        return next((one for one in self.status.get("conditions", ()) if one["type"] == kind), {})

    def wait_for(self, *states: str, seconds: float = 120.0) -> str:
        return str(
            until(f"{self.name} in {states}", lambda: self.state in states and self.state, seconds, tell=self.tell)
        )

    def wait_until(self, what: str, seen: Callable[[Object], Any], seconds: float = 120.0) -> Any:
        """Until `seen(status)` is true."""
        return until(f"{self.name}: {what}", lambda: seen(self.status), seconds, tell=self.tell)

    def wait_for_executor(self) -> Any:
        """Until an executor runs."""
        return self.wait_until("an executor runs", lambda status: status.get("executors", {}).get("running"), 180)

    def driver(self, attempt: int | None = None) -> Object | None:
        """The pod of a driver, of the present attempt unless told."""
        uid = self.body["metadata"]["uid"]
        selector = f"rekindle.dev/application-uid={uid},spark-role=driver"
        number = attempt or self.status.get("attempt")
        pods = items("pods", self.namespace, f"{selector},rekindle.dev/attempt={number}")
        return pods[0] if pods else None

    def drivers(self) -> list[Object]:
        uid = self.body["metadata"]["uid"]
        return items("pods", self.namespace, f"rekindle.dev/application-uid={uid},spark-role=driver")

    def kill_driver(self) -> None:
        """SIGKILL for the driver's JVM, as the kernel does it."""
        driver = self.driver()
        assert driver is not None
        container = ("-c", kubelet.DRIVER)
        kubectl("exec", driver["metadata"]["name"], "-n", self.namespace, *container, "--", "pkill", "-KILL", "java")

    def claims(self) -> list[Object]:
        """Those that were made for it."""
        selector = f"rekindle.dev/application-uid={self.body['metadata']['uid']}"
        return items("persistentvolumeclaims", self.namespace, selector)

    def executors(self) -> list[Object]:
        uid = self.body["metadata"]["uid"]
        return items("pods", self.namespace, f"rekindle.dev/application-uid={uid},spark-role=executor")

    def log(self, attempt: int | None = None) -> str:
        pod = self.driver(attempt)
        assert pod is not None
        return kubectl("logs", pod["metadata"]["name"], "-n", self.namespace, "-c", kubelet.DRIVER)

    def said(self, what: str) -> list[Any]:
        """What its program has printed as JSON after that word."""
        words = (line.partition(" ") for line in self.log().splitlines())
        return [json.loads(text) for word, _, text in words if word == what]

    def events(self) -> list[Object]:
        field = f"regarding.uid={self.body['metadata']['uid']}"
        found = kubectl("get", "events.v1.events.k8s.io", "-n", self.namespace, "--field-selector", field, "-o", "json")
        return list(json.loads(found)["items"])

    def tell(self) -> str:
        """What is known, for a test that failed."""
        try:
            pods = kubectl("get", "pods", "-n", self.namespace, "-o", "wide")
            operators = kubectl("get", "pods", "-A", "-l", SELECTOR, "-o", "wide")
            notes = [f"{one.get('reason')}: {one.get('note')}" for one in self.events()]
            return "\n".join([json.dumps(self.status, indent=1), pods, operators, *notes])
        except (Failed, AssertionError) as error:
            return str(error)
