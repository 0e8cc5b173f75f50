"""Keeps nodes marked as NodeBlocks say: one look at all of them together, for the guard is about all nodes.

Nothing is remembered but in the API: marks that no NodeBlock in force asks for are taken off at every look, and so at
the first one of a new operator.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from rekindle.controller.blocks.facts import NodeFacts, RequestedBlock, node_facts
from rekindle.controller.blocks.marks import mark_patch, unmark_patch
from rekindle.controller.blocks.plan import ActiveBlock, BlockDecision, Outcome, Verdict, decide, verdict
from rekindle.controller.blocks.settings import BlockMode, BlockSettings
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Gone, Kube, KubeError, Refused, Taken
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import NODE, NODE_BLOCK, Key, Object, uid_of
from rekindle.controller.status import merge_patch
from rekindle.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

_ALL = "NodeBlocks"
_TRIES = 5
"""Of a patch on a node that somebody changes at the same time."""

Listener = Callable[[Mapping[str, ActiveBlock]], None]


class BlockKeeper:
    """`nodes` is the copy of all Node objects, which its owner runs; the copy of NodeBlocks is the keeper's own."""

    def __init__(
        self,
        kube: Kube,
        nodes: Informer,
        settings: BlockSettings,
        events: EventRecorder,
        metrics: Metrics,
        has_ended: Callable[[str], bool],
    ) -> None:
        """`has_ended` is asked of applications by namespace/name."""
        self._kube, self._nodes, self._settings = kube, nodes, settings
        self._events, self._metrics, self._has_ended = events, metrics, has_ended
        self._blocks = Informer(kube, NODE_BLOCK)
        self._queue: WorkQueue[str] = WorkQueue(self._look, workers=1)
        self._listeners: list[Listener] = []
        self._told: dict[str, Outcome] = {}  # [uid of a NodeBlock -> what was last written of it]
        self.active: Mapping[str, ActiveBlock] = {}
        """Blocks in force by node, whose nodes are marked."""

        self.is_known = False
        """Whether `active` is what there is: an operator that begins has not looked yet."""

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of the blocks in force each time that they change."""
        self._listeners.append(listener)

    def look(self) -> None:
        """Look at all blocks soon: something that they depend on has changed."""
        if self._blocks.is_listed:
            self._queue.add(_ALL)

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be done but said."""
        return self._settings.mode is BlockMode.DRY_RUN

    def stored(self) -> list[Object]:
        """All NodeBlocks."""
        return list(self._blocks)

    async def run(self) -> None:
        """Until cancelled."""
        self._blocks.listen(lambda before, after: self.look())
        self._nodes.listen(self._node_changed)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._blocks.run())
                await self._nodes.wait_until_listed()
                await self._blocks.wait_until_listed()
                tasks.create_task(self._queue.run())
                self.look()
        finally:  # another operator counts now
            self._metrics.blocked_nodes.set(0)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        """A kubelet tells of its node every few minutes or more often: only what matters here is looked at."""
        if before is None or after is None or _compared(before) != _compared(after):
            self.look()

    async def _look(self, _: str) -> float:
        nodes, now = [node_facts(node) for node in self._nodes], time.time()
        decision = decide(self._blocks, nodes, self._settings, now, self._has_ended)
        refusals = await self._mark(decision)
        await self._unmark(decision)
        self._publish({name: block for name, block in decision.active.items() if name not in refusals})
        there = {uid_of(each.block.body) for each in decision.verdicts}
        self._told = {uid: outcome for uid, outcome in self._told.items() if uid in there}
        for each in decision.verdicts:
            refused = refusals.get(each.block.node) if isinstance(each.block, RequestedBlock) else None
            is_refused = refused is not None and each.status.active
            await self._tell(verdict(each.block, False, "Refused", refused or "", now) if is_refused else each)
        for block in decision.delete:
            log.info("NodeBlock %s is removed: it is over", block.name)
            try:
                await self._kube.delete(NODE_BLOCK, None, block.name, uid=uid_of(block.body))
            except KubeError as error:
                log.warning("NodeBlock %s cannot be removed: %s", block.name, error)
        return decision.delay

    async def _mark(self, decision: BlockDecision) -> dict[str, str]:
        """[node -> why it may not be marked]"""
        refusals: dict[str, str] = {}
        for node in decision.mark:
            try:
                await self._change(node, lambda body: mark_patch(body, self._settings.taint_effect))
            except Refused as error:
                refusals[node.name] = f"the API server refused to mark node {node.name}: {error}"
                continue
            if not node.is_marked:
                cause = decision.active[node.name].cause
                self._say(node, "Warning", "NodeBlocked", f"the node gets no new tasks for now: {cause or 'no cause'}")
        return refusals

    async def _unmark(self, decision: BlockDecision) -> None:
        for node in decision.unmark:
            try:
                await self._change(node, unmark_patch)
            except Refused as error:
                log.warning("node %s stays marked: %s", node.name, error)
                continue
            self._say(node, "Normal", "NodeUnblocked", "the node gets new tasks again: no block is in force")

    def _say(self, node: NodeFacts, type_: str, reason: str, message: str) -> None:
        log.info("node %s: %s", node.name, message)
        self._events.record(node.body, Said(type_, reason, message), NODE)

    async def _change(self, node: NodeFacts, patch_of: Callable[[Object], Object | None]) -> None:
        """Patch a node as it is now, if it is there. Raises Taken where others change it all the time."""
        body = self._nodes.get(Key("", node.name)) or node.body
        for left in reversed(range(_TRIES)):
            patch = patch_of(body)
            if patch is None:
                return
            try:
                await self._kube.patch(NODE, None, node.name, patch)
                return
            except Gone:
                return
            except Taken:
                if not left:
                    raise
            fresh = await self._kube.find(NODE, None, node.name)
            if fresh is None:
                return
            body = fresh

    async def _tell(self, each: Verdict) -> None:
        """Write the status where it has changed, and say what is new."""
        body, name = each.block.body, each.block.body["metadata"]["name"]
        if self._told.get(uid_of(body)) == each.outcome:
            return  # and the copy does not know it yet
        before = body.get("status")
        wanted = each.status.model_dump(mode="json", by_alias=True)
        if patch := merge_patch(before if isinstance(before, dict) else {}, wanted):
            try:
                await self._kube.patch(NODE_BLOCK, None, name, {"status": patch}, subresource="status")
            except Gone:
                return
            except KubeError as error:
                log.warning("the status of NodeBlock %s cannot be written: %s", name, error)
                return
        self._told[uid_of(body)] = each.outcome
        if each.said is not None:
            self._metrics.node_block_changes.labels(each.said.reason).inc()
            self._events.record(body, each.said, NODE_BLOCK)
            level = logging.WARNING if each.said.type == "Warning" else logging.INFO
            log.log(level, "NodeBlock %s: %s: %s", name, each.said.reason, each.said.message)

    def _publish(self, active: Mapping[str, ActiveBlock]) -> None:
        before, self.active, self.is_known = self.active, active, True
        self._metrics.blocked_nodes.set(len(active))
        if before != active:
            for listener in self._listeners:
                listener(active)


def _compared(node: Object) -> tuple[object, ...]:
    facts = node_facts(node)
    return facts.takes_pods, facts.is_marked, node["metadata"].get("labels")
