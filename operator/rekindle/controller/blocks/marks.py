"""How a blocked node is marked: a taint, for pods of everybody, and a label, which pods of ours are made to avoid.

The label is what keeps executors away: the affinity in their template is the same for the life of a driver, however
often nodes are blocked and freed, and it names no host, so that autoscalers still make nodes for such pods. Both marks
have one key, and nothing else of a node is touched.
"""

from collections.abc import Mapping
from typing import Any

from rekindle.controller.blocks.settings import TaintEffect
from rekindle.controller.resources import Object, labels_of

BLOCKED = "rekindle.dev/blocked"
"""The key of the taint and of the label."""

_VALUE = "true"

AVOIDS_BLOCKED: Object = {"key": BLOCKED, "operator": "NotIn", "values": [_VALUE]}
"""A requirement of node affinity; a node without the label meets it."""


def is_marked(node: Mapping[str, Any]) -> bool:
    """Whether the node has a mark of ours, of whatever effect."""
    return BLOCKED in labels_of(node) or any(taint.get("key") == BLOCKED for taint in taints_of(node))


def taints_of(node: Mapping[str, Any]) -> list[Object]:
    """The taints of a node."""
    return list(node["spec"].get("taints") or ())


def mark_patch(node: Mapping[str, Any], effect: TaintEffect) -> Object | None:
    """The merge patch that marks the node as it is; None where it is marked so."""
    others = [taint for taint in taints_of(node) if taint.get("key") != BLOCKED]
    ours = [] if effect is TaintEffect.NONE else [{"key": BLOCKED, "value": _VALUE, "effect": effect.value}]
    return _patch(node, _VALUE, [*others, *ours])


def unmark_patch(node: Mapping[str, Any]) -> Object | None:
    """The merge patch that takes our marks off the node; None where it has none."""
    return _patch(node, None, [taint for taint in taints_of(node) if taint.get("key") != BLOCKED])


def _patch(node: Mapping[str, Any], label: str | None, taints: list[Object]) -> Object | None:
    """Only on the version that was looked at: taints are a list that others change too."""
    if labels_of(node).get(BLOCKED) == label and taints_of(node) == taints:
        return None
    metadata: Object = {"resourceVersion": node["metadata"]["resourceVersion"]}
    if labels_of(node).get(BLOCKED) != label:
        metadata["labels"] = {BLOCKED: label}
    return {"metadata": metadata, "spec": {"taints": taints or None}}
