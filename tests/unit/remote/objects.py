"""Nodes and NodeBlocks as the API has them, and a time at which all is looked at."""

from datetime import UTC, datetime, timedelta

from rekindle.api.node_block import format_instant
from rekindle.controller.resources import Object

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def at(minutes: float) -> str:
    """So many minutes from NOW, as it is stored."""
    return format_instant(NOW + timedelta(minutes=minutes))


def node(name: str, ready: str = "True", *, cordoned: bool = False) -> Object:
    spec = {"unschedulable": True} if cordoned else {}
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}}


def node_block(name: str, end: str = "", *, active: bool = True, reason: str = "NodeBlocked", **spec: object) -> Object:
    """Of the node that is called as the block, where `spec` says no other."""
    condition = {"type": "Active", "status": str(active), "reason": reason}
    return {
        "metadata": {"name": name},
        "spec": {"node": name, "action": "MarkBlocked", "end": end or at(4), "cause": "slow disk", **spec},
        "status": {"active": active, "conditions": [condition]},
    }
