"""What a cluster promises to the tests, shown by pods: `python -m tests.kind check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.kind import bases, cluster, storage
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed, step, wait_until

_NAMESPACE = "cluster-check"
_SECONDS = 90
_SERVE = ["python3", "-m", "http.server", "8080", "--directory", "/shared"]


def check() -> None:
    """`Failed` at the first promise that is not kept."""
    image = bases.python_image()
    cluster.load(image)
    kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found", timeout=_SECONDS)
    kubectl("create", "namespace", _NAMESPACE)
    try:
        account = ("--for=create", "serviceaccount/default", f"--timeout={_SECONDS}s")
        kubectl("-n", _NAMESPACE, "wait", *account, timeout=_SECONDS + 10)
        with step("starting pods on every worker"):
            _apply(_claim(), _service(), *_pods(image))
            for number in range(len(cluster.WORKERS)):
                ready = ("--for=condition=Ready", f"pod/on-{number}", f"--timeout={_SECONDS}s")
                kubectl("-n", _NAMESPACE, "wait", *ready, timeout=_SECONDS + 10)
        for promise, kept in _PROMISES.items():
            with step(promise):
                wait_until(promise, _without_failing(kept), seconds=_SECONDS, every=1)
    finally:
        kubectl("delete", "namespace", _NAMESPACE, timeout=_SECONDS)
        storage.recycle_volumes()


def pod_network_works() -> bool:
    """From each worker to a pod of each other one, by address."""
    addresses = [_get("pod", f"on-{number}", "{.status.podIP}") for number in range(len(cluster.WORKERS))]
    return all("kept" in _fetch(number, address) for number in range(len(cluster.WORKERS)) for address in addresses)


def _reaches_the_api_server() -> bool:
    code = "import ssl, urllib.request as u; c = ssl._create_unverified_context(); "
    code += "print(u.urlopen('https://kubernetes.default.svc/version', context=c, timeout=5).read().decode())"
    return "gitVersion" in _in_pod(1, "python3", "-c", code)


def _writes_for_other_nodes() -> bool:
    _in_pod(0, "sh", "-c", "echo kept > /shared/index.html")
    return _in_pod(1, "cat", "/shared/index.html") == "kept\n"


_PROMISES: dict[str, Callable[[], bool]] = {
    "a volume written on one node is read on another": _writes_for_other_nodes,
    "DNS and the API server: kubernetes.default.svc": _reaches_the_api_server,
    "pods of all nodes reach each other": pod_network_works,
    "a service by name": lambda: all("kept" in _fetch(n, f"http-pods.{_NAMESPACE}.svc") for n in (0, 1, 2)),
    "metrics of pods": lambda: "on-0" in kubectl("-n", _NAMESPACE, "top", "pods", "--no-headers"),
}


def _without_failing(kept: Callable[[], bool]) -> Callable[[], bool]:
    def seen() -> bool:
        try:
            return kept()
        except Failed:
            return False

    return seen


def _fetch(number: int, host: str) -> str:
    code = f"import urllib.request as u; print(u.urlopen('http://{host}:8080/', timeout=5).read().decode())"
    return _in_pod(number, "python3", "-c", code)


def _in_pod(number: int, *command: str) -> str:
    return kubectl("-n", _NAMESPACE, "exec", f"on-{number}", "--", *command, timeout=20)


def _get(kind: str, name: str, path: str) -> str:
    return kubectl("-n", _NAMESPACE, "get", kind, name, "-o", f"jsonpath={path}")


def _apply(*manifests: dict[str, Any]) -> None:
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    kubectl("-n", _NAMESPACE, "apply", "-f", "-", text=items)


def _claim() -> dict[str, Any]:
    request = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": storage.CLASS}
    spec = {**request, "accessModes": ["ReadWriteMany"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "all"}, "spec": spec}


def _service() -> dict[str, Any]:
    spec = {"selector": {"app": "http"}, "ports": [{"port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "http-pods"}, "spec": spec}


def _pods(image: str) -> list[dict[str, Any]]:
    """One on each worker; all serve what the shared volume holds."""
    container = {
        "name": "main",
        "image": image,
        "command": _SERVE,
        "securityContext": {"runAsUser": 185},
        "volumeMounts": [{"name": "all", "mountPath": "/shared"}],
    }
    volumes = [{"name": "all", "persistentVolumeClaim": {"claimName": "all"}}]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"on-{number}", "labels": {"app": "http"}},
            "spec": {**spec, "nodeName": worker},
        }
        for number, worker in enumerate(cluster.WORKERS)
    ]
