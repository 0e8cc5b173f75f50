"""Blocked nodes (FLIP-224): a map, a merge and an expiry. Time is passed in, and nothing happens by itself.

`BlocklistTracker` knows which nodes are blocked and until when. `Blocklist` guards it: at most a share of
the nodes, and never the last one, for a cluster of which every node is blocked finishes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from rekindle.core.actions import Action, Block, BlockRefused, Unblock
from rekindle.core.ids import NO_NODE
from rekindle.core.options import BlocklistOptions


@dataclass(frozen=True, slots=True)
class BlockedNode:
    """`node` gets no new tasks from `start` until `end` (seconds since the epoch; MARK_BLOCKED, S3-3).

    `start` stays that of the first block when it is renewed.
    """

    node: str
    start: float
    end: float
    cause: str


class AddStatus(Enum):
    """What adding a blocked node did."""

    ADDED = "ADDED"
    MERGED = "MERGED"
    NONE = "NONE"


class BlocklistTracker:
    """[node -> its block]. A node has one block; the later end wins (S3-8, S3-10)."""

    def __init__(self) -> None:
        self._blocked: dict[str, BlockedNode] = {}

    def add(self, new: BlockedNode) -> AddStatus:
        """Block a node. The later end stays; of two that are equal, the later cause."""
        existing = self._blocked.get(new.node)
        if existing is None:
            self._blocked[new.node] = new
            return AddStatus.ADDED
        merged = BlockedNode(new.node, existing.start, new.end, new.cause)
        if new.end < existing.end or merged == existing:
            return AddStatus.NONE
        self._blocked[new.node] = merged
        return AddStatus.MERGED

    def remove_expired(self, now: float) -> tuple[BlockedNode, ...]:
        """Blocks that have come to their end: `now` is at it or past it."""
        if not self._blocked:
            return ()
        expired = tuple(block for block in self._blocked.values() if now >= block.end)
        for block in expired:
            del self._blocked[block.node]
        return expired

    def remove(self, node: str) -> bool:
        """Whether the node had a block; it has none any more."""
        return self._blocked.pop(node, None) is not None

    def remove_first_of(self, nodes: Iterable[str]) -> str:
        """Remove the block of these nodes that ends first; returns its node."""
        _, node = min((self._blocked[node].end, node) for node in nodes)
        del self._blocked[node]
        return node

    def at(self, now: float) -> dict[str, BlockedNode]:
        """The blocks in force at `now`."""
        return {node: block for node, block in self._blocked.items() if now < block.end}

    def __contains__(self, node: object) -> bool:
        return node in self._blocked

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._blocked)


class Blocklist:
    """The tracker, within `max_blocked_share` of the nodes that exist."""

    def __init__(self, options: BlocklistOptions) -> None:
        self._options = options
        self._tracker = BlocklistTracker()
        self._nodes: frozenset[str] = frozenset()
        self._seen: set[str] = set()

    def set_options(self, options: BlocklistOptions) -> None:
        """The bound from now on; blocks in force stay."""
        self._options = options

    @property
    def nodes(self) -> frozenset[str]:
        """The blocked ones."""
        return self._tracker.nodes

    def at(self, now: float) -> dict[str, BlockedNode]:
        return self._tracker.at(now)

    def nodes_changed(self, nodes: Iterable[str]) -> list[Action]:
        """The nodes that exist from now on."""
        self._nodes = frozenset(nodes)
        return self._free_the_last()

    def node_seen(self, node: str) -> None:
        """A node that a task was deployed on: it counts while nobody says which nodes there are. What runs everywhere,
        or nobody knows where, is on none."""
        if node not in NO_NODE:
            self._seen.add(node)

    def node_lost(self, node: str) -> list[Action]:
        self._nodes -= {node}
        self._seen.discard(node)
        return self._free_the_last()

    def block(self, block: BlockedNode, now: float) -> list[Action]:
        """Block, renew (nothing to tell), or refuse with the reason."""
        if block.end <= now:
            return []
        if block.node not in self._tracker:
            refusal = self._refusal(block.node)
            if refusal is not None:
                return [BlockRefused(block.node, refusal)]
        status = self._tracker.add(block)
        return [Block(block.node, block.end, block.cause)] if status is AddStatus.ADDED else []

    def unblock(self, node: str, reason: str) -> list[Action]:
        """End the block of a node, if it has one, before its time."""
        return [Unblock(node, reason)] if self._tracker.remove(node) else []

    def expire(self, now: float) -> list[Action]:
        return [
            Unblock(block.node, f"its block has ended: {block.cause}") for block in self._tracker.remove_expired(now)
        ]

    def _free_the_last(self) -> list[Action]:
        """When all nodes that are left are blocked, the one whose block ends first is not any more."""
        existing = self._nodes or self._seen
        if not existing or not existing <= self._tracker.nodes:
            return []
        node = self._tracker.remove_first_of(existing)
        return [Unblock(node, f"the other nodes are gone, and all that is left ({len(existing)}) is blocked")]

    def _refusal(self, node: str) -> str | None:
        existing = (self._nodes or self._seen) | {node}
        blocked = len(existing & self._tracker.nodes)
        share = math.ceil(self._options.max_blocked_share * len(existing))
        if len(existing) - blocked <= 1:
            return f"it is the last of {len(existing)} nodes that is not blocked"
        if blocked >= share:
            return f"{blocked} of {len(existing)} nodes are blocked, and the most is {share} (maxBlockedShare)"
        return None
