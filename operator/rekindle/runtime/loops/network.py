"""The operators of a loop, the channels between them, and what each of them says in the termination protocol.

Items go in order on each channel. The entry of a loop reads what comes from outside by channels, and what its head
feeds back by a feedback channel, which spills.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import Buffered, Data, FeedbackChannel, Item, Side, Spill
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.scopes import DEFAULT_SCOPE
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import Entry, InnerLoop, Operator

Protocol = RegularOperator | EntryOperator | HeadOperator

SOURCE, OUT = "(source)", "(output)"
INPUT, FEEDBACK = "input", "feedback"
"""The queues of an entry."""


@dataclass
class Channel:
    """From one node to another.

    Attributes:
        sides: of a channel from an entry, which of its queues the reader reads.
        items: what has been sent and not read.
    """

    name: str
    to: Node
    sides: set[str] = field(default_factory=set)
    items: deque[Item[Any]] = field(default_factory=deque)

    def first(self) -> Item[Any] | None:
        """What is read next."""
        return self.items[0] if self.items else None

    def take(self) -> Item[Any]:
        return self.items.popleft()


@dataclass
class Node:
    """An operator, the entry of a loop or its head.

    Attributes:
        name: path of the loop, and the operator's.
        operator: what it does with rows; None for entries, heads and the output.
        protocol: what it says in the termination protocol.
        loop: whose entry or head it is.
        inputs, outputs: its channels; of a head none goes out but the feedback channel.
    """

    name: str
    protocol: Protocol
    operator: Operator | None = None
    loop: Loop | None = None
    inputs: list[Channel] = field(default_factory=list)
    outputs: list[Channel] = field(default_factory=list)


@dataclass
class Loop:
    """A loop that runs.

    Attributes:
        channel: what was fed back, in memory; `disk`: what is spilled, by reference.
        last: the side that was read last.
        spilled: how many batches were spilled so far.
    """

    body: LoopBody
    channel: FeedbackChannel[Any]
    disk: deque[Item[Any]] = field(default_factory=deque)
    last: Side = Side.FEEDBACK
    spilled: int = 0

    def put(self, item: Item[Any]) -> None:
        """Feed it back. Never waits."""
        self._follow(self.channel.put(item))

    def first(self) -> Item[Any] | None:
        """What is read next, if it is in memory."""
        return self.channel.memory[0] if self.channel.memory else None

    def take(self) -> Item[Any]:
        item, buffered = self.channel.take()
        self._follow(buffered)
        return item

    def _follow(self, buffered: Buffered[Any]) -> None:
        """Rows are stored before they are fed back, so to spill them is to keep their name elsewhere."""
        self.channel = buffered.channel
        for instruction in buffered.instructions:
            if isinstance(instruction, Spill):
                self.disk.append(instruction.item)
                self.spilled += isinstance(instruction.item, Data)
            else:
                back = [self.disk.popleft() for _ in range(instruction.count)]
                self._follow(self.channel.restored(*back))


class Network:
    """Of a loop and all within it.

    Args:
        capacity: how many batches a feedback channel keeps in memory.
    """

    def __init__(self, body: LoopBody, capacity: int) -> None:
        self.loops = {one.name: Loop(one, FeedbackChannel(capacity)) for one in body.loops()}
        self.entries: dict[str, Node] = {}
        self.heads: dict[str, Node] = {}
        self._nodes: dict[Operator, Node] = {}
        for one in body.loops():
            self._add(one)
        self.out = Node(OUT, RegularOperator.of(DEFAULT_SCOPE, frozenset()))
        self.source: list[Channel] = [_connected(SOURCE, self.entries[body.name])]
        for one in body.loops():
            self._connect(one)
        self._channel(body.output, self.out)
        for node in self.nodes():
            node.protocol = _wired(node)

    def nodes(self) -> Iterator[Node]:
        yield from self.entries.values()
        yield from self._nodes.values()
        yield from self.heads.values()
        yield self.out

    def _add(self, body: LoopBody) -> None:
        loop = self.loops[body.name]
        self.entries[body.name] = Node(f"{body.name}/entry", EntryOperator.of(body.scope, frozenset(), ""), loop=loop)
        self.heads[body.name] = Node(f"{body.name}/head", HeadOperator.of(body.scope, frozenset()), loop=loop)
        for operator in body.operators:
            if not isinstance(operator, Entry | InnerLoop):
                protocol = RegularOperator.of(operator.scope, frozenset())
                self._nodes[operator] = Node(f"{body.name}/{operator.name}", protocol, operator)

    def _connect(self, body: LoopBody) -> None:
        for operator in body.operators:
            for one in operator.inputs:
                if isinstance(operator, InnerLoop):
                    self._channel(one, self.entries[operator.body.name])
                else:
                    self._channel(one, self._nodes[operator])
        self._channel(body.feedback, self.heads[body.name])

    def _maker(self, operator: Operator) -> Node:
        """The node that makes what an operator's readers read."""
        if isinstance(operator, Entry):
            return next(self.entries[name] for name, one in self.loops.items() if operator in one.body.operators)
        return self._nodes[operator]

    def _channel(self, operator: Operator, to: Node) -> None:
        """One, however often one reads what the other makes."""
        if isinstance(operator, InnerLoop):
            self._channel(operator.body.output, to)
            return
        node = self._maker(operator)
        found = next((channel for channel in node.outputs if channel.to is to), None)
        if found is None:
            found = _connected(node.name, to)
            node.outputs.append(found)
        if isinstance(operator, Entry):
            found.sides |= {INPUT} if operator.gives_input else set()
            found.sides |= {FEEDBACK} if operator.gives_feedback else set()


def _connected(name: str, to: Node) -> Channel:
    channel = Channel(f"{name}>{to.name}", to)
    to.inputs.append(channel)
    return channel


def taken(source: Channel | Loop, most: int) -> list[Item[Any]]:
    """The first item, and those behind it where all are data. There must be one."""
    items = [source.take()]
    while isinstance(items[-1], Data) and len(items) < most and isinstance(source.first(), Data):
        items.append(source.take())
    return items


def feedback_name(loop: Loop) -> str:
    """Of its feedback channel, in the protocol."""
    return f"{loop.body.name}/feedback"


def _wired(node: Node) -> Protocol:
    names = frozenset(channel.name for channel in node.inputs)
    match node.protocol:
        case EntryOperator(scope=scope):
            assert node.loop is not None
            return EntryOperator.of(scope, names, feedback_name(node.loop))
        case HeadOperator(scope=scope):
            return HeadOperator.of(scope, names)
        case RegularOperator(scope=scope):
            return RegularOperator.of(scope, names)
