"""NodeBlocks that applications ask for: made, and renewed by a merge (S3-8, S3-10)."""

import hashlib
import logging
import math
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction

from rekindle.api.node_block import format_instant
from rekindle.controller.blocks.facts import RequestedBlock, node_facts, read_block
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.settings import BlockSettings
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Gone, Kube, Taken
from rekindle.controller.resources import NODE_BLOCK, Object
from rekindle.controller.submission.names import LABEL_MANAGED
from rekindle.controller.text import shortened

log = logging.getLogger(__name__)

_PREFIX = "slow-"
_LONGEST_NAME = 253
_MOST_CAUSE = 1000
_RENEWED_AFTER = 0.1
"""A renewal is written once it adds this share of the duration: reports come every second."""


class BlockRequests:
    """Asks in the name of applications, within what they and the cluster allow."""

    def __init__(self, kube: Kube, keeper: BlockKeeper, nodes: Informer, settings: BlockSettings) -> None:
        self._kube, self._keeper, self._nodes, self._settings = kube, keeper, nodes, settings

    def refusal(self, namespace: str, node: str, most_share: Fraction) -> str | None:
        """Why an application of the namespace may not have the node blocked; None where it may."""
        if not self._settings.may_cause(namespace):
            return f"applications of namespace {namespace} may cause no blocks (nodeBlocks.namespaces)"
        if node in self._keeper.active:
            return None
        taking = {facts.name for facts in map(node_facts, self._nodes) if facts.takes_pods} | {node}
        asked_for = {block.node for block in self._stored() if block.end > time.time()} - {node}
        blocked = len(taking & (self._keeper.active.keys() | asked_for))
        most = math.ceil(most_share * len(taking))
        if blocked >= most:
            return (
                f"{blocked} of {len(taking)} nodes are blocked, and it wants at most {most} (blocklist.maxBlockedShare)"
            )
        return None

    async def ask(self, application: str, node: str, seconds: float, cause: str, *, remove_when_done: bool) -> bool:
        """Have the node blocked from now on, or its block renewed; whether it is a new block."""
        name = f"{_PREFIX}{node}"[:_LONGEST_NAME]
        there = self._named(name)
        if there is not None and not (there.is_ours and there.node == node):  # somebody else's
            name = f"{_PREFIX}{hashlib.sha256(node.encode()).hexdigest()[:16]}"
            there = self._named(name)
        if there is None:
            return await self._make(name, application, node, time.time() + seconds, cause, remove_when_done)
        await self._renew(there, application, seconds, cause, remove_when_done)
        return False

    def _named(self, name: str) -> RequestedBlock | None:
        return next((block for block in self._stored() if block.name == name), None)

    def _stored(self) -> Iterable[RequestedBlock]:
        return (block for body in self._keeper.stored() if isinstance(block := read_block(body), RequestedBlock))

    async def _make(
        self, name: str, application: str, node: str, end: float, cause: str, remove_when_done: bool
    ) -> bool:
        spec: Object = {
            "node": node,
            "action": "MarkBlocked",
            "end": _instant(end),
            "cause": shortened(cause, _MOST_CAUSE),
            "applications": [application],
        }
        if remove_when_done:
            spec["removeWhenDone"] = True
        try:
            body = {"metadata": {"name": name, "labels": {LABEL_MANAGED: "true"}}, "spec": spec}
            await self._kube.create(NODE_BLOCK, None, body)
        except Taken:  # the copy does not know it yet
            return False
        return True

    async def _renew(
        self, there: RequestedBlock, application: str, seconds: float, cause: str, remove_when_done: bool
    ) -> None:
        """The later end stays; a block that somebody else wants too stays until its end."""
        patch: Object = {}
        end = time.time() + seconds
        if end - there.end >= _RENEWED_AFTER * seconds:
            patch |= {"end": _instant(end), "cause": shortened(cause, _MOST_CAUSE)}
        if application not in there.applications:
            patch["applications"] = [*there.applications, application]
        if patch and there.remove_when_done and not remove_when_done:
            patch["removeWhenDone"] = None
        if not patch:
            return
        version = there.body["metadata"]["resourceVersion"]
        try:
            await self._kube.patch(
                NODE_BLOCK, None, there.name, {"metadata": {"resourceVersion": version}, "spec": patch}
            )
        except (Taken, Gone) as error:  # the next look finds it as it is
            log.debug("the block of %s is not renewed now: %s", there.node, error)


def _instant(seconds: float) -> str:
    return format_instant(datetime.fromtimestamp(round(seconds), UTC))
