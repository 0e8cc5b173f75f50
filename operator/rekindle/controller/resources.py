"""The kinds of the API that the operator touches, and the facts of an object that everybody asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rekindle.api.names import API_VERSION

Object: TypeAlias = dict[str, Any]
"""An object of the API as JSON has it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its API version, its plural name and whether it lies in a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a list, of an object or of its subresource; no namespace means all of them."""
        root = "/api" if "/" not in self.api_version else "/apis"
        parts = [f"{root}/{self.api_version}"]
        if self.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        return "/".join([*parts, self.plural, *(part for part in (name, subresource) if part)])


POD = Resource("v1", "Pod", "pods")
NODE = Resource("v1", "Node", "nodes", namespaced=False)
SERVICE = Resource("v1", "Service", "services")
PERSISTENT_VOLUME_CLAIM = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CONFIG_MAP = Resource("v1", "ConfigMap", "configmaps")
SECRET = Resource("v1", "Secret", "secrets")
LEASE = Resource("coordination.k8s.io/v1", "Lease", "leases")
EVENT = Resource("events.k8s.io/v1", "Event", "events")
SPARK_APPLICATION = Resource(API_VERSION, "SparkApplication", "sparkapplications")
POD_METRICS = Resource("metrics.k8s.io/v1beta1", "PodMetrics", "pods")
NODE_BLOCK = Resource(API_VERSION, "NodeBlock", "nodeblocks", namespaced=False)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Namespace and name of an object; the namespace is empty for what lies in none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(body: Mapping[str, Any]) -> Key:
    """Namespace and name of `body`."""
    metadata = body["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def uid_of(body: Mapping[str, Any]) -> str:
    """The uid of `body`."""
    return str(body["metadata"]["uid"])


def version_of(body: Mapping[str, Any]) -> int:
    """The version of `body`, 0 of one that is not stored yet.

    Kubernetes guarantees since 1.35, and has always kept to it, that these are ordered whole numbers.
    """
    return int(body["metadata"].get("resourceVersion", 0))


def labels_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The labels of `body`; none is empty."""
    return body["metadata"].get("labels") or {}


def condition_of(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type in the status of `body`; empty where there is none."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def is_owned_by(body: Mapping[str, Any], uid: str) -> bool:
    """Whether the object with `uid` is an owner of `body`."""
    return any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())


def owner_reference(body: Mapping[str, Any], resource: Resource) -> Object:
    """What makes `body` the owner of an object: the garbage collector removes that one after it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": body["metadata"]["name"],
        "uid": uid_of(body),
        "controller": True,
    }
