"""How long readers take for their splits, by the clock that the caller has."""

from __future__ import annotations

import pytest

from rekindle.core.slow_readers import SplitsRead
from rekindle.runtime.split_endpoint import Reader
from rekindle.runtime.split_reader import FINISHED
from rekindle.runtime.split_times import SplitTimes


def reader(subtask: int = 0, task: int = 40, name: str = "") -> Reader:
    return Reader(name or f"reader of {subtask}", "letters", subtask, 1, task, "host")


@pytest.fixture
def times() -> SplitTimes:
    """A reader has read one split in 2 s, and reads another since 3 s."""
    times = SplitTimes()
    times.asks(reader(), 0, 1.0)
    times.handed(reader(), 0, 1.0)
    times.asks(reader(), 1, 3.0)
    times.handed(reader(), 1, 3.0)
    return times


def test_a_split_takes_from_when_it_is_handed_out_until_the_next_is_asked_for(times):
    assert times.running(7.5) == {40: SplitsRead((2.0,), 4.5)}


def test_who_waits_for_a_split_reads_none(times):
    times.asks(reader(), 2, 6.0)
    assert times.running(9.0) == {40: SplitsRead((2.0, 3.0), None)}


def test_a_reader_that_was_cut_off_and_asks_again_has_not_read_the_split(times):
    times.asks(reader(), 1, 4.0)
    times.handed(reader(), 1, 4.0)
    assert times.running(7.5) == {40: SplitsRead((2.0,), 4.5)}


def test_only_who_has_read_all_is_a_measure_for_others(times):
    times.asks(reader(), 2, 6.0)
    times.ended(reader(), FINISHED)
    other = reader(1, 41)
    times.asks(other, 0, 1.0)
    times.handed(other, 0, 1.0)
    times.ended(other, "ValueError: broken")
    assert (times.finished(), times.running(9.0)) == ({0: SplitsRead((2.0, 3.0), None)}, {})


def test_of_many_splits_the_last_are_kept():
    times = SplitTimes()
    for number in range(1000):
        times.asks(reader(), number, float(number * number))
        times.handed(reader(), number, float(number * number))
    ((taken),) = (one.taken for one in times.running(0.0).values())
    assert len(taken) == 101
    assert taken[-1] == 999.0**2 - 998.0**2


def test_a_reader_that_never_asked_may_end():
    times = SplitTimes()
    times.ended(reader(), FINISHED)
    assert times.finished() == {}
