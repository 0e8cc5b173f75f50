"""What a kubelet says of a pod, for pods that no node takes: their statuses, to be written as one would."""

from __future__ import annotations

from typing import Any

DRIVER, EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"


def running(container: str = DRIVER) -> dict[str, Any]:
    return _pod_status("Running", container, {"running": {}})


def ended(code: int) -> dict[str, Any]:
    """Of a driver."""
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    return _pod_status("Failed" if code else "Succeeded", DRIVER, state)


def _pod_status(phase: str, container: str, state: dict[str, Any]) -> dict[str, Any]:
    ready = "running" in state
    told = {"name": container, "image": "x", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
    return {"phase": phase, "containerStatuses": [told]}
