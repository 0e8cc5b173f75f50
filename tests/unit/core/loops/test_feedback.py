"""The feedback channel: what it spills, that it keeps the order, and which side is read next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.loops.feedback import (
    Buffered,
    Data,
    FeedbackChannel,
    InputPriority,
    Item,
    ReadBack,
    Side,
    Spill,
    next_side,
)
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt

EVENT = TerminationAttempt.of_source()
FIRST, UNDER_PRESSURE = InputPriority.FEEDBACK_FIRST, InputPriority.FEEDBACK_FIRST_UNDER_PRESSURE


class Store:
    """A channel, and the disk that does what it says."""

    def __init__(self, capacity: int) -> None:
        self.channel: FeedbackChannel[Any] = FeedbackChannel(capacity)
        self.disk: list[Item[Any]] = []
        self.told: list[object] = []

    def put(self, *items: Item[Any]) -> Store:
        for item in items:
            self._do(self.channel.put(item))
        return self

    def take(self) -> Item[Any]:
        item, buffered = self.channel.take()
        self._do(buffered)
        return item

    def read_back(self) -> None:
        count = self.channel.reading
        items, self.disk = self.disk[:count], self.disk[count:]
        self._do(self.channel.restored(*items))

    def said(self) -> object:
        """The last instruction."""
        return self.told[-1]

    def status(self) -> OperatorStatus:
        return self.channel.status

    def _do(self, buffered: Buffered[Any]) -> None:
        self.channel = buffered.channel
        self.told += buffered.instructions
        self.disk += [one.item for one in buffered.instructions if isinstance(one, Spill)]


def data(*values: Any) -> list[Data[Any]]:
    return [Data(value) for value in values]


@pytest.mark.requirement("S9-5")
def test_what_fits_stays_in_memory_and_the_rest_is_spilled():
    store = Store(2).put(*data(1, 2, 3, 4))
    assert store.channel.memory == tuple(data(1, 2))
    assert store.told == [Spill(Data(3)), Spill(Data(4))]
    assert store.channel.spilled == 2


@pytest.mark.requirement("S9-10")
def test_nothing_overtakes_what_is_spilled_though_memory_has_room():
    store = Store(2).put(*data(1, 2, 3))
    assert store.take() == Data(1)
    assert store.said() == ReadBack(1)
    store.put(Data(4))
    assert store.said() == Spill(Data(4))
    store.read_back()
    assert [store.take(), store.take()] == data(2, 3)


def test_it_reads_back_once_half_of_memory_is_free():
    store = Store(4).put(*data(1, 2, 3, 4, 5, 6, 7))
    store.take()
    assert not store.channel.reading
    store.take()
    assert store.said() == ReadBack(2)


def test_it_asks_for_nothing_twice():
    store = Store(2).put(*data(1, 2, 3, 4, 5))
    store.take()
    store.take()
    assert store.told.count(ReadBack(1)) == 1
    store.read_back()
    assert store.said() == ReadBack(1)


@pytest.mark.requirement("S9-5", "S9-10", "S9-11")
@given(st.integers(1, 5), st.lists(st.sampled_from(["put", "event", "take", "read back"]), max_size=60))
def test_whatever_happens_all_that_was_put_is_taken_in_order(capacity, steps):
    store, put, taken = Store(capacity), list[Item[Any]](), list[Item[Any]]()
    for number, step in enumerate(steps):
        if step == "put":
            put.append(Data(number))
            store.put(put[-1])
        elif step == "event":
            put.append(TerminationAttempt(None, number, 0, 0, OperatorStatus.IDLE))
            store.put(put[-1])
        elif step == "take" and store.channel.is_readable:
            taken.append(store.take())
        elif step == "read back" and store.channel.reading:
            store.read_back()
        assert len(store.channel.memory) + store.channel.reading <= capacity
        assert store.channel.is_readable or store.channel.reading or not store.channel.spilled
        pending = any(isinstance(one, Data) for one in put[len(taken) :])
        assert (store.status() is OperatorStatus.BUSY) is pending
    while store.channel.is_readable or store.channel.reading:
        if store.channel.reading:
            store.read_back()
        if store.channel.is_readable:
            taken.append(store.take())
    assert taken == put


@pytest.mark.requirement("S9-10", "S10-23")
def test_spilled_data_is_pending_and_events_are_not():
    store = Store(1).put(EVENT, Data(1))
    assert store.status() is OperatorStatus.BUSY
    store.take()
    store.read_back()
    assert store.status() is OperatorStatus.BUSY
    store.take()
    assert store.status() is OperatorStatus.IDLE
    assert Store(1).put(EVENT, EVENT).status() is OperatorStatus.IDLE


def test_a_channel_without_memory_is_refused():
    with pytest.raises(ValueError, match="capacity of a feedback channel must be 1 item or more, and is 0"):
        FeedbackChannel(0)


def test_as_much_is_read_back_as_was_asked_for():
    with pytest.raises(ValueError, match="0 spilled items were to be read back, and 1 were"):
        Store(1).channel.restored(Data(1))


def test_nothing_is_taken_from_an_empty_channel():
    with pytest.raises(IndexError):
        FeedbackChannel(1).take()


# -- which side next -------------------------------------------------------------------------------------


@pytest.mark.requirement("S9-3", "S9-6", "S9-7")
def test_feedback_first_reads_feedback_while_there_is_some():
    channel = Store(8).put(*data(1)).channel
    assert next_side(channel, has_input=True, last=Side.FEEDBACK, priority=FIRST) is Side.FEEDBACK
    assert next_side(FeedbackChannel(8), has_input=True, last=Side.FEEDBACK, priority=FIRST) is Side.INPUT


@pytest.mark.requirement("S9-6", "S9-8", "S9-9")
def test_without_pressure_the_default_reads_both_sides_by_turns():
    channel = Store(8).put(*data(1, 2, 3)).channel
    assert next_side(channel, has_input=True, last=Side.FEEDBACK) is Side.INPUT
    assert next_side(channel, has_input=True, last=Side.INPUT) is Side.FEEDBACK
    assert next_side(channel, has_input=False, last=Side.FEEDBACK) is Side.FEEDBACK


@pytest.mark.requirement("S9-8")
def test_under_pressure_the_default_reads_feedback_first():
    assert next_side(Store(8).put(*data(*range(4))).channel, has_input=True, last=Side.FEEDBACK) is Side.FEEDBACK
    assert next_side(Store(8).put(*data(*range(9))).channel, has_input=True, last=Side.FEEDBACK) is Side.FEEDBACK


@pytest.mark.requirement("S9-9")
@pytest.mark.parametrize("priority", InputPriority)
def test_feedback_that_is_being_read_back_is_waited_for(priority):
    store = Store(1).put(*data(1, 2))
    store.take()
    assert next_side(store.channel, has_input=True, last=Side.FEEDBACK, priority=priority) is None
    store.read_back()
    assert next_side(store.channel, has_input=True, last=Side.FEEDBACK, priority=priority) is Side.FEEDBACK


@pytest.mark.parametrize("priority", InputPriority)
def test_with_nothing_on_either_side_it_waits(priority):
    assert next_side(FeedbackChannel(1), has_input=False, last=Side.INPUT, priority=priority) is None


@pytest.mark.requirement("S9-2", "S9-5", "S9-7", "S9-8", "S9-11")
@pytest.mark.parametrize("priority", InputPriority)
def test_a_body_that_makes_more_than_it_takes_goes_on_with_the_smallest_memory(priority):
    """E-18: a record of n makes two of n-1, until 0. The event on the feedback side comes in its turn."""
    store, inputs, order, last, steps = Store(1), [3, 3], list[Any](), Side.INPUT, 0
    store.put(EVENT)
    while side := next_side(store.channel, has_input=bool(inputs), last=last, priority=priority):
        last, steps = side, steps + 1
        item = store.take() if side is Side.FEEDBACK else Data(inputs.pop(0))
        order.append(item)
        if isinstance(item, Data) and item.value:
            store.put(*data(item.value - 1, item.value - 1))
        if store.channel.reading:
            store.read_back()
    assert sum(isinstance(item, Data) for item in order) == 2 * (2**4 - 1)
    assert any(isinstance(one, Spill) for one in store.told)
    assert order.index(EVENT) == 0
