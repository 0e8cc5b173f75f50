"""Which NodeBlocks are in force, and which nodes are marked for it. Pure: objects and a time in, a decision out.

Of the blocks of a node the latest end counts (S3-8). Those in force stay so before others come to be; the guard is
`core.blocklist`'s: at most a share of the nodes that take pods, and never the last of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rekindle.api.node_block import BlockCondition, NodeBlockStatus
from rekindle.controller.blocks.facts import NodeFacts, RequestedBlock, UnreadableBlock, read_block
from rekindle.controller.blocks.settings import BlockMode, BlockSettings
from rekindle.controller.clock import format_time
from rekindle.controller.decision import Said
from rekindle.controller.resources import Object, labels_of
from rekindle.controller.text import shortened
from rekindle.core.actions import BlockRefused
from rekindle.core.blocklist import BlockedNode, Blocklist
from rekindle.core.options import BlocklistOptions

_MOST_MESSAGE = 2000
_LONGEST_WAIT = 30.0
"""Seconds: a clock that is set while a block is waited for is noticed after so long."""


Outcome: TypeAlias = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class ActiveBlock:
    """A node that gets no new tasks until `end` (epoch seconds); `evacuate`: those that run are moved too."""

    node: str
    end: float
    cause: str
    evacuate: bool = False

    def merged(self, later: "ActiveBlock") -> "ActiveBlock":
        """Two blocks of a node: the later end counts, with its cause, and the stronger action."""
        longest = later if later.end > self.end else self
        return replace(longest, evacuate=self.evacuate or later.evacuate)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one NodeBlock: its next status, and what is said of it if that is news."""

    block: RequestedBlock | UnreadableBlock
    status: NodeBlockStatus
    said: Said | None

    @property
    def outcome(self) -> Outcome:
        """Generation, reason and message."""
        (condition,) = self.status.conditions
        return self.status.observed_generation, condition.reason, condition.message


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """Blocks in force by node, what is to be done, and when to look again (seconds)."""

    active: Mapping[str, ActiveBlock]
    mark: tuple[NodeFacts, ...]
    unmark: tuple[NodeFacts, ...]
    delete: tuple[RequestedBlock, ...]
    verdicts: tuple[Verdict, ...]
    delay: float


def decide(
    stored: Iterable[Object],
    nodes: Sequence[NodeFacts],
    settings: BlockSettings,
    now: float,
    has_ended: Callable[[str], bool] = lambda application: False,
) -> BlockDecision:
    """`has_ended` is asked of applications by namespace/name: whether it is known that they have, or are gone."""
    read = [read_block(body) for body in stored]
    requested = [block for block in read if isinstance(block, RequestedBlock)]
    unreadable = [block for block in read if isinstance(block, UnreadableBlock)]
    over = {block.name: why for block in requested if (why := _why_over(block, now, has_ended))}
    reasons = _Reasons.of([block for block in requested if block.name not in over], nodes, settings, now)
    found = reasons.of_block | {name: (False, *why) for name, why in over.items()}
    verdicts = [verdict(block, *found[block.name], now) for block in requested]
    verdicts += [verdict(block, False, "SpecInvalid", block.problem, now) for block in unreadable]
    return BlockDecision(
        active=reasons.active,
        mark=tuple(node for node in nodes if node.name in reasons.active),
        unmark=tuple(node for node in nodes if node.is_marked and node.name not in reasons.active),
        delete=tuple(block for block in requested if block.name in over and block.is_ours),
        verdicts=tuple(verdicts),
        delay=_delay(requested, now),
    )


def _why_over(block: RequestedBlock, now: float, has_ended: Callable[[str], bool]) -> tuple[str, str] | None:
    if now >= block.end:
        return "Over", f"it ended at {format_time(block.end)}"
    if block.remove_when_done and block.applications and all(map(has_ended, block.applications)):
        return "ApplicationsEnded", f"who asked for it has ended: {', '.join(block.applications)}"
    return None


def _delay(requested: Iterable[RequestedBlock], now: float) -> float:
    """Until the next block begins or ends."""
    moments = [
        moment - now
        for block in requested
        for moment in (block.begins, block.end)
        if moment is not None and moment > now
    ]
    return min([*moments, _LONGEST_WAIT])


@dataclass(frozen=True, slots=True)
class _Reasons:
    """[name of a block -> (whether it is in force, reason, message)], and the blocks in force by node."""

    of_block: dict[str, tuple[bool, str, str]]
    active: dict[str, ActiveBlock]

    @classmethod
    def of(
        cls, requested: Sequence[RequestedBlock], nodes: Sequence[NodeFacts], settings: BlockSettings, now: float
    ) -> "_Reasons":
        reasons = cls({}, {})
        by_name = {node.name: node for node in nodes}
        blocklist = Blocklist(BlocklistOptions(max_blocked_share=settings.max_blocked_share))
        in_force = {block.node for block in requested if block.status.active}
        # One that is blocked and takes no pods now still counts: for another it would have to give way.
        blocklist.nodes_changed(node.name for node in nodes if node.takes_pods or node.name in in_force)
        for block in sorted(requested, key=lambda one: (not one.status.active, one.start, one.name)):
            refusal = _refusal(block, by_name.get(block.node), settings, now) or _guarded(blocklist, block, now)
            if refusal:
                reasons.of_block[block.name] = (False, *refusal)
            else:
                reasons._activate(block, settings)
        return reasons

    def _activate(self, block: RequestedBlock, settings: BlockSettings) -> None:
        until = f"{block.node} gets no new tasks until {format_time(block.end)}"
        if settings.mode is BlockMode.DRY_RUN:
            self.of_block[block.name] = (False, "DryRun", f"dry run: otherwise {until}")
            return
        self.of_block[block.name] = (True, "NodeBlocked", until)
        mine = ActiveBlock(block.node, block.end, block.cause, block.evacuate)
        there = self.active.get(block.node)
        self.active[block.node] = mine if there is None else there.merged(mine)


def _refusal(
    block: RequestedBlock, node: NodeFacts | None, settings: BlockSettings, now: float
) -> tuple[str, str] | None:
    if block.begins is not None and block.begins > now:
        return "NotBegun", f"it begins at {format_time(block.begins)}"
    if node is None:
        return "NoSuchNode", f"there is no node {block.node}"
    if not settings.may_be_blocked(labels_of(node.body)):
        wanted = ",".join(f"{name}={value}" for name, value in settings.node_selector.items())
        return "NodeNotSelected", f"only nodes with the labels {wanted} may be blocked (nodeBlocks.nodeSelector)"
    return None


def _guarded(blocklist: Blocklist, block: RequestedBlock, now: float) -> tuple[str, str] | None:
    asked = BlockedNode(block.node, block.start, block.end, block.cause)
    refused = next((one for one in blocklist.block(asked, now) if isinstance(one, BlockRefused)), None)
    return None if refused is None else ("TooManyBlocked", f"{block.node} is not blocked: {refused.reason}")


_WARNED = ("SpecInvalid", "NoSuchNode", "TooManyBlocked", "NodeNotSelected", "Refused")


def verdict(block: RequestedBlock | UnreadableBlock, active: bool, reason: str, message: str, now: float) -> Verdict:
    """The block is in force or not, with the reason."""
    before = next((one for one in block.status.conditions if one.type == "Active"), None)
    generation = int(block.body["metadata"].get("generation") or 0)
    condition = BlockCondition(
        type="Active",
        status="True" if active else "False",
        reason=reason,
        message=shortened(message, _MOST_MESSAGE),
        last_transition_time=format_time(now),
        observed_generation=generation,
    )
    if before is not None and before.status == condition.status:
        condition = condition.model_copy(update={"last_transition_time": before.last_transition_time})
    is_news = before is None or (before.status, before.reason) != (condition.status, reason)
    said = Said("Warning" if reason in _WARNED else "Normal", reason, condition.message) if is_news else None
    return Verdict(block, NodeBlockStatus(observed_generation=generation, active=active, conditions=[condition]), said)
