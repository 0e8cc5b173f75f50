"""Node affinity that is added to what a pod has."""

from collections.abc import Mapping
from typing import Any

from rekindle.controller.resources import Object

HOSTNAME = "kubernetes.io/hostname"
"""The label by which a pod names nodes."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requiring(affinity: Mapping[str, Any] | None, requirement: Object) -> Object:
    """`affinity` of a pod, with a requirement of its node added to each of its alternatives, for they are ORed.

    An alternative that is empty matches no node, and stays so.
    """
    affinity = affinity or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED) or {"nodeSelectorTerms": [{"matchExpressions": []}]}
    terms = [_with(term, requirement) if term else term for term in required.get("nodeSelectorTerms") or [{}]]
    return {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: {**required, "nodeSelectorTerms": terms}}}


def _with(term: Mapping[str, Any], requirement: Object) -> Object:
    return {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), requirement]}
