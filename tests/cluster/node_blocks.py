"""NodeBlocks on the cluster as tests ask for them and see them, and the marks of nodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from rekindle.api.node_block import format_instant
from rekindle.controller.blocks.marks import BLOCKED
from tests.cluster.api import Object
from tests.kind.kubectl import kubectl

MARKED = ("true", ["NoSchedule"])
"""The marks of a blocked node, as `marks` tells them."""


def a_node(name: str) -> Object:
    """A Node without a machine: nothing of it is ever ready."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def manifest(name: str, node: str, seconds: float, **spec: Any) -> Object:
    """A NodeBlock that ends so many seconds from now, or ended before."""
    end = format_instant(datetime.now(UTC) + timedelta(seconds=seconds))
    return {
        "apiVersion": "rekindle.dev/v1beta2",
        "kind": "NodeBlock",
        "metadata": {"name": name},
        "spec": {"node": node, "end": end, **spec},
    }


def blocks() -> list[Object]:
    return list(json.loads(kubectl("get", "nodeblocks", "-o", "json"))["items"])


def reasons() -> dict[str, str]:
    """[name of a NodeBlock -> why it is in force, or why not], of those that the operator has looked at."""
    return {
        block["metadata"]["name"]: block["status"]["conditions"][0]["reason"]
        for block in blocks()
        if (block.get("status") or {}).get("conditions")
    }


def marks() -> dict[str, tuple[str | None, list[str]]]:
    """[node -> (value of our label, effects of our taints)], of the nodes that have any."""
    found = {}
    for node in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]:
        label = node["metadata"].get("labels", {}).get(BLOCKED)
        effects = [taint["effect"] for taint in node["spec"].get("taints", ()) if taint["key"] == BLOCKED]
        if label is not None or effects:
            found[node["metadata"]["name"]] = (label, effects)
    return found


def marked_nodes() -> set[str]:
    return set(marks())


def told() -> str:
    """What is known, for a test that failed."""
    return f"{reasons()}; {marks()}"
