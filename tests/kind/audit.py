"""The API server's audit log: what pods asked of it with their service accounts, so that a test can compare rights.

The control plane has a folder of the machine mounted, with the policy in it and, as soon as it runs, the log.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kind.processes import cache

IN_NODE = "/audit"
_LOG, _POLICY = "audit.log", "policy.json"
_MOST_MEGABYTES = 200
_SYSTEM = "system:serviceaccounts:kube-system"


@dataclass(frozen=True)
class Call:
    """One request of a service account, as RBAC looks at it."""

    account: str
    """`namespace:name`."""

    verb: str
    group: str
    resource: str
    """With its subresource: `pods/log`."""

    namespace: str
    name: str
    code: int
    """HTTP status of the answer."""


def prepare_folder() -> Path:
    """A folder with the policy and no log."""
    remove_folder()
    _folder().mkdir(parents=True)
    (_folder() / _POLICY).write_text(json.dumps(_policy()))
    return _folder()


def remove_folder() -> None:
    shutil.rmtree(_folder(), ignore_errors=True)


def cluster_configuration() -> dict[str, Any]:
    """What kubeadm is told of it."""
    arguments = {
        "audit-policy-file": f"{IN_NODE}/{_POLICY}",
        "audit-log-path": f"{IN_NODE}/{_LOG}",
        "audit-log-maxsize": str(_MOST_MEGABYTES),
        "audit-log-maxbackup": "1",
    }
    volume = {"name": "audit", "hostPath": IN_NODE, "mountPath": IN_NODE, "pathType": "Directory"}
    server = {
        "extraArgs": [{"name": name, "value": value} for name, value in arguments.items()],
        "extraVolumes": [volume],
    }
    return {"kind": "ClusterConfiguration", "apiServer": server}


def calls(account: str) -> Iterator[Call]:
    """What the service account `namespace:name` has asked for since the cluster was made."""
    user = f"system:serviceaccount:{account}"
    with open(_folder() / _LOG, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["user"]["username"] == user and "objectRef" in event:
                yield _call(account, event)


def _call(account: str, event: dict[str, Any]) -> Call:
    asked = event["objectRef"]
    resource = "/".join(part for part in (asked["resource"], asked.get("subresource")) if part)
    return Call(
        account,
        event["verb"],
        asked.get("apiGroup", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
        event.get("responseStatus", {}).get("code", 0),
    )


def _policy() -> dict[str, Any]:
    """Service accounts but the system's own; each request once, when it has been answered."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "userGroups": [_SYSTEM]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    }


def _folder() -> Path:
    return cache() / "audit"
