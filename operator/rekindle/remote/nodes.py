"""Nodes of a cluster, and the NodeBlocks that keep new tasks off them: listed, asked for, taken back."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from rekindle.api.node_block import format_instant
from rekindle.controller.kube import Gone, Kube, Taken
from rekindle.controller.resources import NODE, NODE_BLOCK, Object, uid_of
from rekindle.remote.applications import RemoteError
from rekindle.remote.node_tables import EVACUATE, AskedBlock, asked_block

BY_HAND = "by hand"
"""The cause of a block for which nobody has said one."""

_TRIES = 5
_SEE = "`rekindle nodes` shows whether it is active"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A block as a person asks for it: of `node`, at once, until `end`. `cause` is None where none was said."""

    node: str
    end: datetime
    cause: str | None = None
    evacuate: bool = False


async def list_nodes(kube: Kube) -> tuple[list[Object], list[Object]]:
    """All Nodes, and all NodeBlocks."""
    nodes, _ = await kube.list_all(NODE, None)
    blocks, _ = await kube.list_all(NODE_BLOCK, None)
    return nodes, blocks


async def block(kube: Kube, wanted: Wanted, now: datetime) -> str:
    """Make the NodeBlock that is named as the node, or merge with it (S3-8); what was done, in a sentence.

    RemoteError where there is no such node, or the NodeBlock of that name is none that could be renewed.
    """
    if await kube.find(NODE, None, wanted.node) is None:
        raise RemoteError(f"there is no node {wanted.node}; `rekindle nodes` lists them")
    for _ in range(_TRIES):
        there = await kube.find(NODE_BLOCK, None, wanted.node)
        try:
            return await (_make(kube, wanted) if there is None else _merge(kube, wanted, there, now))
        except Taken:
            continue
        except Gone:  # a cluster that does not know the kind; or it was deleted since it was read
            if there is None:
                raise
    raise RemoteError(f"the NodeBlock {wanted.node} is changed by others all the time; try again")


async def unblock(kube: Kube, node: str) -> AsyncIterator[AskedBlock]:
    """Delete all NodeBlocks of the node; each is told once that is done. One that has gone by itself is not told."""
    bodies, _ = await kube.list_all(NODE_BLOCK, None)
    for body in bodies:
        asked = asked_block(body)
        if asked.node == node and await kube.delete(NODE_BLOCK, None, asked.name, uid=uid_of(body)):
            yield asked


async def _make(kube: Kube, wanted: Wanted) -> str:
    spec = {
        "node": wanted.node,
        "action": EVACUATE if wanted.evacuate else "MarkBlocked",
        "end": format_instant(wanted.end),
        "cause": BY_HAND if wanted.cause is None else wanted.cause,
    }
    await kube.create(NODE_BLOCK, None, {"metadata": {"name": wanted.node}, "spec": spec})
    return f"{wanted.node} is to be blocked until {spec['end']}; {_SEE}"


async def _merge(kube: Kube, wanted: Wanted, stored: Object, now: datetime) -> str:
    """Change what is stored only as it was read. Raises Taken, Gone, RemoteError."""
    there = asked_block(stored)
    if problem := _why_not_merged(there, stored, wanted, now):
        raise RemoteError(problem)
    if changes := merged_fields(there, wanted, now):
        version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        await kube.patch(NODE_BLOCK, None, wanted.node, {"metadata": version, "spec": changes})
    evacuated = f"; its action is {EVACUATE} now" if "action" in changes else ""
    if "end" in changes:
        return f"{wanted.node} is to be blocked until {changes['end']}, longer than before{evacuated}; {_SEE}"
    return f"{wanted.node} is already blocked until {there.stored_end}: that is later{_but(there)}{evacuated}"


def merged_fields(there: AskedBlock, wanted: Wanted, now: datetime) -> Object:
    """Fields of the spec that change: the later end wins, with its cause if one was said, and the stronger action."""
    changes: Object = {"action": EVACUATE} if wanted.evacuate and there.action != EVACUATE else {}
    if _is_later(there, wanted):
        return changes
    changes["end"] = format_instant(wanted.end)
    if wanted.cause is not None:
        changes["cause"] = wanted.cause
    if there.remove_when_done:
        changes["removeWhenDone"] = False
    if there.start is not None and there.start > now:
        changes["start"] = None
    return changes


def _why_not_merged(there: AskedBlock, stored: Object, wanted: Wanted, now: datetime) -> str:
    """Empty where nothing is in the way."""
    remedy = f"kubectl delete nodeblock {there.name}, then block {wanted.node} again"
    if there.node != wanted.node:
        of = "names no node" if there.node.startswith("nodeblock/") else f"is of another node, {there.node}"
        return f"the NodeBlock {there.name} {of}: {remedy}"
    if "deletionTimestamp" in stored["metadata"]:
        return f"the NodeBlock {there.name} is being deleted; try again when it is gone"
    if there.start is not None and there.start > now and _is_later(there, wanted):
        return f"the NodeBlock {there.name} begins only at {format_instant(there.start)}: {remedy}"
    return ""


def _is_later(there: AskedBlock, wanted: Wanted) -> bool:
    return there.end is not None and there.end > wanted.end


def _but(there: AskedBlock) -> str:
    """What makes a block that stays less than it seems."""
    sooner = f"; it ends sooner where {there.by} has ended" if there.remove_when_done and there.applications else ""
    return sooner if there.active else f"; not active: {there.reason or 'no operator has acted on it yet'}{sooner}"
