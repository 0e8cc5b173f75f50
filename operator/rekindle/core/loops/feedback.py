"""The feedback channel of a loop, and which of its two inputs the loop's entry reads next (FLIP-15, part II).

What goes round in a cycle of bounded buffers can fill them all and stop for ever (`S9-2`). So this one buffer is not
bounded: what does not fit into memory is spilled, and who feeds back never waits (`S9-5`). Where to, and by whom, is no
matter of this module: the channel says what to spill and how much to read back.

    memory, its first items   ->  those that are being read back  ->  those that are spilled
    read next                                                          arrived last

Data and control events, such as the attempts of `termination`, are all items and keep their order (`S9-10`, `S9-11`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Data(Generic[T]):
    """A record of the loop, or a batch of them."""

    value: T


Item = Data[T] | TerminationAttempt


@dataclass(frozen=True, slots=True)
class Spill(Generic[T]):
    """Keep this item behind those that were spilled before."""

    item: Item[T]


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read as many of the items that were spilled first, and hand them to `FeedbackChannel.restored`."""

    count: int


Instruction = Spill[T] | ReadBack


@dataclass(frozen=True, slots=True)
class Buffered(Generic[T]):
    """What a channel is from now on, and what to do with what it spills."""

    channel: FeedbackChannel[T]
    instructions: tuple[Instruction[T], ...] = ()


@dataclass(frozen=True, slots=True)
class FeedbackChannel(Generic[T]):
    """A value: each change gives another one.

    Attributes:
        capacity: how many items memory holds.
        memory: those that it holds, the first to be read first.
        spilled: how many are spilled behind them, those that are being read back among them.
        spilled_data: how many of these are data.
        reading: how many are being read back.
    """

    capacity: int
    memory: tuple[Item[T], ...] = ()
    spilled: int = 0
    spilled_data: int = 0
    reading: int = 0

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity of a feedback channel must be 1 item or more, and is {self.capacity}")

    def put(self, item: Item[T]) -> Buffered[T]:
        """At the end; it always fits. Nothing overtakes what is spilled, even if memory has room again."""
        if not self.spilled and len(self.memory) < self.capacity:
            return Buffered(replace(self, memory=(*self.memory, item)))
        data = self.spilled_data + isinstance(item, Data)
        after = replace(self, spilled=self.spilled + 1, spilled_data=data)
        return Buffered(after, (Spill(item),))

    def take(self) -> tuple[Item[T], Buffered[T]]:
        """The first item. Raises IndexError where none is in memory."""
        return self.memory[0], replace(self, memory=self.memory[1:])._read_back()

    def restored(self, *items: Item[T]) -> Buffered[T]:
        """What was asked for by `ReadBack`, in the order in which it was spilled. Raises ValueError for another
        number of items."""
        if len(items) != self.reading:
            raise ValueError(f"{self.reading} spilled items were to be read back, and {len(items)} were")
        data = sum(isinstance(item, Data) for item in items)
        return replace(
            self,
            memory=(*self.memory, *items),
            spilled=self.spilled - len(items),
            spilled_data=self.spilled_data - data,
            reading=0,
        )._read_back()

    @property
    def is_readable(self) -> bool:
        return bool(self.memory)

    @property
    def is_under_pressure(self) -> bool:
        """Half of memory is in use, or something is spilled: what comes next may have to be (`S9-8`)."""
        return self.spilled > 0 or 2 * len(self.memory) >= self.capacity

    @property
    def status(self) -> OperatorStatus:
        """BUSY while it holds data, spilled or not (`S9-10`, `S10-23`)."""
        busy = self.spilled_data > 0 or any(isinstance(item, Data) for item in self.memory)
        return OperatorStatus.BUSY if busy else OperatorStatus.IDLE

    def _read_back(self) -> Buffered[T]:
        """Once half of memory is free, as much as fits: not item by item."""
        room = self.capacity - len(self.memory)
        if self.reading or not self.spilled or 2 * room < self.capacity:
            return Buffered(self)
        count = min(room, self.spilled)
        return Buffered(replace(self, reading=count), (ReadBack(count),))


class Side(StrEnum):
    """What the entry of a loop reads."""

    INPUT = "INPUT"
    FEEDBACK = "FEEDBACK"


class InputPriority(StrEnum):
    """Which side goes first where both have something (`S9-9`)."""

    FEEDBACK_FIRST = "FEEDBACK_FIRST"
    """Always feedback: the loop is drained before it takes more (`S9-7`)."""
    FEEDBACK_FIRST_UNDER_PRESSURE = "FEEDBACK_FIRST_UNDER_PRESSURE"
    """Feedback while its buffer is under pressure, else by turns, so that neither side starves (`S9-8`). The
    default."""


def next_side(
    channel: FeedbackChannel[T],
    *,
    has_input: bool,
    last: Side,
    priority: InputPriority = InputPriority.FEEDBACK_FIRST_UNDER_PRESSURE,
) -> Side | None:
    """Which side to read now, None to wait. `last`: the side that was read last.

    Feedback that goes first is waited for while it is being read back: to read input meanwhile could spill more.
    """
    if channel.spilled and not channel.is_readable:
        return None
    if not channel.is_readable:
        return Side.INPUT if has_input else None
    first = priority is InputPriority.FEEDBACK_FIRST or channel.is_under_pressure
    if has_input and not first and last is Side.FEEDBACK:
        return Side.INPUT
    return Side.FEEDBACK
