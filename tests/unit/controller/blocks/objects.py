"""NodeBlocks and Nodes as the API stores them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rekindle.controller.clock import format_time

NOW = 1_800_000_000.0


def datetime_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def node(
    name: str,
    *,
    ready: str = "True",
    cordoned: bool = False,
    taints: list[Any] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    spec: dict[str, Any] = {"unschedulable": True} if cordoned else {}
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels or {}, "resourceVersion": "7"},
        "spec": {**spec, **({"taints": taints} if taints else {})},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def block(
    node: str,
    *,
    name: str = "",
    start: float | None = None,
    end: float = 600.0,
    active: bool = False,
    ours: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """A NodeBlock; `start` and `end` are seconds from NOW."""
    times = {"end": format_time(NOW + end)} | ({} if start is None else {"start": format_time(NOW + start)})
    return {
        "apiVersion": "rekindle.dev/v1beta2",
        "kind": "NodeBlock",
        "metadata": {
            "name": name or node,
            "uid": f"uid-of-block-{name or node}",
            "generation": 1,
            "creationTimestamp": format_time(NOW - 5),
            "labels": {"rekindle.dev/managed": "true"} if ours else {},
        },
        "spec": {"node": node, "cause": "slow", **times, **spec},
        "status": {"active": active},
    }
