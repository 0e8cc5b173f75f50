"""A network of operators that run a graph: FIFO channels, delivered in any order between them.

Data is a number: how many heads it may still go through. Each operator that is given some drops it or sends it on, to
one or to all of its readers. Channels are short, and an operator works only when there is room behind it, as under
backpressure; the feedback channel alone always has room, and spills.

States are values, so that an explorer can tell which it has seen. A move leads from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rekindle.core.loops.feedback import Buffered, Data, FeedbackChannel, Item, Spill
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt
from tests.unit.core.loops.graphs import Graph, Kind, Operator, head_of

ROOM = 2
"""An operator may send two attempts at once."""

Queue = tuple[Item[int], ...]


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A feedback channel with what it has spilled."""

    channel: FeedbackChannel[int]
    disk: Queue = ()

    def after(self, buffered: Buffered[int]) -> Feedback:
        disk = self.disk
        for instruction in buffered.instructions:
            disk = (*disk, instruction.item) if isinstance(instruction, Spill) else disk
        return Feedback(buffered.channel, disk)

    def read_back(self) -> Feedback:
        count = self.channel.reading
        return Feedback(self.channel, self.disk[count:]).after(self.channel.restored(*self.disk[:count]))

    @property
    def items(self) -> Queue:
        return (*self.channel.memory, *self.disk)


@dataclass(frozen=True, slots=True)
class State:
    """All in the order of the network's names: operators, queues by channel, feedback channels by loop, parked data by
    operator, and how much each source has left (-1: it has ended)."""

    operators: tuple[Operator | None, ...]
    queues: tuple[Queue, ...]
    feedback: tuple[Feedback, ...]
    parked: tuple[tuple[int, ...], ...]
    left: tuple[int, ...]


Move = tuple[str, Callable[[], State]]


def put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


class Network:
    """`tokens`: how much data each source sends; `fuel`: through how many heads each may go; `capacity`: of the
    feedback channels; `to_all`: whether operators may send data to all of their readers too."""

    def __init__(self, graph: Graph, *, tokens: int, fuel: int, capacity: int = 1, to_all: bool = False) -> None:
        self.graph, self.tokens, self.fuel, self.capacity, self.to_all = graph, tokens, fuel, capacity, to_all
        self.nodes = list(graph.nodes.values())
        self.place = {node.name: place for place, node in enumerate(self.nodes)}
        self.loops = [node.name for node in self.nodes if node.kind is Kind.ENTRY]
        heads = {head_of(entry) for entry in self.loops}
        self.channels = [pair for pair in graph.channels() if pair[0] not in heads]
        self.outputs = {
            node.name: [place for place, (tail, _) in enumerate(self.channels) if tail == node.name]
            for node in self.nodes
        }
        self.loop_of = {head_of(entry): place for place, entry in enumerate(self.loops)}
        upstream = {head: graph.upstream(head) for head in heads}
        self.before = {head: [self.place[name] for name in names] for head, names in upstream.items()}
        self.into = {
            head: [place for place, (_, to) in enumerate(self.channels) if to in names]
            for head, names in upstream.items()
        }
        self.loops_before = {
            head: [place for place, entry in enumerate(self.loops) if entry in names]
            for head, names in upstream.items()
        }

    def start(self) -> State:
        return State(
            tuple(self.graph.make(node) for node in self.nodes),
            ((),) * len(self.channels),
            (Feedback(FeedbackChannel(self.capacity)),) * len(self.loops),
            ((),) * len(self.nodes),
            tuple(self.tokens if node.kind is Kind.SOURCE else -1 for node in self.nodes),
        )

    # -- moves -------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        """All that can happen next."""
        yield from self._source_moves(state)
        for place, queue in enumerate(state.queues):
            tail, to = self.channels[place]
            if queue and self._has_room(state, to):
                taken = replace(state, queues=put(state.queues, place, queue[1:]))
                yield from self._deliver(taken, f"{tail}>{to}", to, queue[0])
        for place, feedback in enumerate(state.feedback):
            entry = self.loops[place]
            if feedback.channel.reading:
                yield f"read back {entry}", lambda p=place, f=feedback: self._with(state, p, f.read_back())  # type: ignore[misc]
            if feedback.channel.is_readable and self._has_room(state, entry):
                item, buffered = feedback.channel.take()
                taken = self._with(state, place, feedback.after(buffered))
                yield from self._deliver(taken, f"{head_of(entry)}>{entry}", entry, item)
        for place, parked in enumerate(state.parked):
            if parked and self._has_room(state, self.nodes[place].name):
                yield from self._unpark(state, place, parked)

    def _source_moves(self, state: State) -> Iterator[Move]:
        for place, left in enumerate(state.left):
            name = self.nodes[place].name
            if left >= 0 and self._has_room(state, name):
                fewer = replace(state, left=put(state.left, place, left - 1))
                if left == 0:
                    attempt = TerminationAttempt.of_source()
                    yield f"{name} ends", lambda f=fewer, n=name, a=attempt: self._broadcast(f, n, a)  # type: ignore[misc]
                else:
                    yield from self._send(fewer, name, self.fuel, name)

    def _deliver(self, state: State, channel: str, to: str, item: Item[int]) -> Iterator[Move]:
        label = f"{channel} {text(item)}"
        if isinstance(item, TerminationAttempt):
            yield label, lambda: self._give_attempt(state, channel, to, item)
            return
        after = self._given_data(state, channel, to)
        if to in self.loop_of:
            place = self.loop_of[to]
            if item.value:
                full = state.feedback[place].after(state.feedback[place].channel.put(Data(item.value - 1)))
                after = replace(after, feedback=put(after.feedback, place, full))
            yield label, lambda: after
            return
        yield from self._send(after, to, item.value, label)
        if to in self.graph.parks:
            place = self.place[to]
            parked = (*after.parked[place], item.value)
            yield f"{label} parks", lambda: replace(after, parked=put(after.parked, place, parked))

    def _send(self, state: State, name: str, fuel: int, label: str) -> Iterator[Move]:
        """To each of its readers, to all of them, or to none."""
        outputs = self.outputs[name]
        yield f"{label} drops", lambda: state
        for output in outputs:
            to = self.channels[output][1]
            yield f"{label} to {to}", lambda o=output: self._append(state, o, Data(fuel))  # type: ignore[misc]
        if self.to_all and len(outputs) > 1:
            yield f"{label} to all", lambda: self._broadcast(state, name, Data(fuel))

    def _unpark(self, state: State, place: int, parked: tuple[int, ...]) -> Iterator[Move]:
        name = self.nodes[place].name
        rest = replace(state, parked=put(state.parked, place, parked[1:]))
        for label, sent in self._send(rest, name, parked[0], f"{name} unparks"):
            yield label, lambda s=sent: self._idle(s(), place) if len(parked) == 1 else s()  # type: ignore[misc]

    # -- what they do ------------------------------------------------------------------------------------

    def _given_data(self, state: State, channel: str, to: str) -> State:
        place = self.place[to]
        operator = state.operators[place]
        assert operator is not None
        if operator.terminated:
            raise Broken(f"{to} has ended, and {channel} brings data")
        return self._stepped(state, place, operator.on_data(channel))

    def _give_attempt(self, state: State, channel: str, to: str, attempt: TerminationAttempt) -> State:
        place = self.place[to]
        operator = state.operators[place]
        assert operator is not None
        return self._stepped(state, place, operator.on_attempt(channel, attempt, self._status(state, place)))

    def _idle(self, state: State, place: int) -> State:
        operator = state.operators[place]
        return self._stepped(state, place, operator.on_idle()) if isinstance(operator, RegularOperator) else state

    def _status(self, state: State, place: int) -> OperatorStatus:
        name = self.nodes[place].name
        if name in self.loop_of:
            return state.feedback[self.loop_of[name]].channel.status
        return OperatorStatus.BUSY if state.parked[place] else OperatorStatus.IDLE

    def _stepped(self, state: State, place: int, step: Step[Operator]) -> State:
        before = state.operators[place]
        after = replace(state, operators=put(state.operators, place, step.operator))
        for attempt in step.emit:
            after = self._broadcast(after, self.nodes[place].name, attempt)
        assert before is not None
        if step.operator.terminated and not before.terminated:
            self._check_end(after, place)
        return after

    def _broadcast(self, state: State, name: str, item: Item[int]) -> State:
        if name in self.loop_of:
            place = self.loop_of[name]
            feedback = state.feedback[place]
            return self._with(state, place, feedback.after(feedback.channel.put(item)))
        for output in self.outputs[name]:
            state = self._append(state, output, item)
        return state

    def _append(self, state: State, output: int, item: Item[int]) -> State:
        return replace(state, queues=put(state.queues, output, (*state.queues[output], item)))

    def _with(self, state: State, place: int, feedback: Feedback) -> State:
        return replace(state, feedback=put(state.feedback, place, feedback))

    def _has_room(self, state: State, name: str) -> bool:
        return all(len(state.queues[output]) <= ROOM for output in self.outputs[name])

    # -- what must hold ----------------------------------------------------------------------------------

    def _check_end(self, state: State, place: int) -> None:
        """Nothing is pending in an operator that ends, nor where something could come to it from."""
        name = self.nodes[place].name
        if state.parked[place]:
            raise Broken(f"{name} ends, and holds data")
        if name in self.loop_of:
            pending = [self.nodes[one].name for one in self.before[name] if state.parked[one]]
            pending += ["{}>{}".format(*self.channels[one]) for one in self.into[name] if has_data(state.queues[one])]
            pending += [self.loops[one] for one in self.loops_before[name] if has_data(state.feedback[one].items)]
            if pending:
                raise Broken(f"{name} says that its loop is complete, and there is data at {', '.join(pending)}")

    def check_over(self, state: State) -> None:
        """Nothing can happen any more: all have ended, and no data is left."""
        alive = [
            node.name
            for node, one in zip(self.nodes, state.operators, strict=True)
            if one is not None and not one.terminated
        ]
        if alive or any(left >= 0 for left in state.left):
            raise Broken(f"nothing can happen any more, and these have not ended: {', '.join(alive)}")
        if any(map(has_data, state.queues)) or any(has_data(one.items) for one in state.feedback) or any(state.parked):
            raise Broken("all have ended, and data is left")

    def is_over(self, state: State) -> bool:
        """All have ended. Attempts may still be on their way to operators that have."""
        return all(one is None or one.terminated for one in state.operators)


def has_data(queue: Queue) -> bool:
    return any(isinstance(item, Data) for item in queue)


def text(item: Item[int]) -> str:
    """For the way to a state: the fuel of data, and of an attempt (scope, id, completed level, status)."""
    if isinstance(item, Data):
        return str(item.value)
    return f"({item.scope}, {item.attempt_id}, {item.completed_level}, {item.status})"
