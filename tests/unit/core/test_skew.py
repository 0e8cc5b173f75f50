"""Whether its node or its input makes a slow task slow."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.skew import Blame, Typical, Work, blame

NODE, SKEW, UNKNOWN = Blame.NODE, Blame.SKEW, Blame.UNKNOWN
TWICE = 2.0


def others(*finished: tuple[float, int | None, int | None]) -> list[Work]:
    return [Work(*one) for one in finished]


ALIKE = others(*[(10.0, 100, 1000)] * 4)


def blamed(slow: Work, finished: list[Work], factor: float = TWICE) -> Blame:
    return blame(slow, Typical.of(finished), factor)


@pytest.mark.parametrize(
    ("slow", "verdict"),
    [
        (Work(50.0, 100, 1000), NODE),
        (Work(50.0, 20, 200), NODE),  # it has not read all that it will
        (Work(50.0, 0, 0), NODE),
        (Work(50.0, 300, 3000), SKEW),
        (Work(50.0, 201, 1000), SKEW),  # bytes alone
        (Work(50.0, 100, 2001), SKEW),  # rows alone: they are short
        (Work(50.0, 200, 2000), NODE),  # twice as much is tolerated, and not five times the seconds
        (Work(40.0, 200, 2000), SKEW),  # but twice the time for each byte is
        (Work(20.0, 100, 1000), NODE),  # what has no more than the others is never skewed
        (Work(3000.0, 201, 1000), SKEW),  # however long it takes
        (Work(50.0, None, None), UNKNOWN),
        (Work(50.0, None, 2001), SKEW),  # one of the two is enough
        (Work(50.0, None, 1000), UNKNOWN),
    ],
)
def test_beside_tasks_that_are_alike(slow, verdict):
    assert blamed(slow, ALIKE) is verdict


@pytest.mark.parametrize(
    ("finished", "verdict"),
    [
        ([], NODE),
        (others(*[(10.0, None, None)] * 3), NODE),
        (others(*[(10.0, 0, 0)] * 3), NODE),
        (others((10.0, 100, 10), (10.0, 0, 0)), NODE),  # half of them
        (others((10.0, 100, 10), (10.0, 100, 10), (10.0, 0, 0)), SKEW),
        (others((10.0, 100, 10), (10.0, 100, 10), (10.0, 0, 0), (10.0, None, None)), NODE),
    ],
    ids=["none has finished", "nothing is known", "nothing is read", "half", "most", "half of what is known"],
)
def test_where_most_read_nothing_there_is_no_skew(finished, verdict):
    assert blamed(Work(50.0, 5000, 500), finished) is verdict


def test_nor_is_it_waited_for_what_nobody_reads():
    assert blamed(Work(50.0, None, None), others(*[(10.0, 0, 0)] * 3)) is NODE


def test_typical_is_the_median_of_those_that_have_read_something():
    """Of 1, 100 and 9000 it is 100, and an empty one moves neither that nor the seconds."""
    finished = others((1.0, 1, None), (10.0, 100, None), (900.0, 9000, None), (0.0, 0, None))
    assert blamed(Work(1e6, 200, None), finished) is NODE
    assert blamed(Work(1e6, 201, None), finished) is SKEW
    assert blamed(Work(30.0, 150, None), finished) is SKEW
    assert blamed(Work(30.5, 150, None), finished) is NODE


def test_more_is_tolerated_with_a_higher_factor():
    assert blamed(Work(1e6, 250, 1000), ALIKE, factor=2.4) is SKEW
    assert blamed(Work(1e6, 250, 1000), ALIKE, factor=2.5) is NODE


AMOUNTS = st.none() | st.integers(0, 1 << 20)
WORKS = st.builds(Work, st.integers(1, 1 << 20).map(float), AMOUNTS, AMOUNTS)
FACTORS = st.sampled_from([1.0, 1.5, 2.0, 4.0])
SCALES = st.integers(1, 10).map(lambda power: 1 << power)


def scaled(work: Work, seconds: int, size: int, records: int) -> Work:
    def times(amount: int | None, scale: int) -> int | None:
        return None if amount is None else amount * scale

    return Work(work.seconds * seconds, times(work.input_bytes, size), times(work.input_records, records))


@given(WORKS, st.lists(WORKS, max_size=6), FACTORS, SCALES, SCALES, SCALES)
def test_units_do_not_matter(slow, finished, factor, seconds, size, records):
    in_other_units = [scaled(one, seconds, size, records) for one in (slow, *finished)]
    assert blamed(in_other_units[0], in_other_units[1:], factor) is blamed(slow, finished, factor)


@given(WORKS, st.lists(WORKS, max_size=6), FACTORS, st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_more_input_never_turns_the_blame_from_the_input_to_the_node(slow, finished, factor, size, records):
    more = replace(
        slow,
        input_bytes=None if slow.input_bytes is None else slow.input_bytes + size,
        input_records=None if slow.input_records is None else slow.input_records + records,
    )
    if blamed(slow, finished, factor) is SKEW:
        assert blamed(more, finished, factor) is SKEW


@given(WORKS, st.lists(WORKS, max_size=6), FACTORS, st.permutations(range(6)))
def test_nor_does_the_order_in_which_others_finished(slow, finished, factor, order):
    shuffled = [finished[place] for place in order if place < len(finished)]
    assert blamed(slow, shuffled, factor) is blamed(slow, finished, factor)


@given(WORKS, st.lists(WORKS, max_size=6), FACTORS, st.integers(0, 1 << 20))
def test_a_longer_time_never_turns_the_blame_from_the_node_to_the_input(slow, finished, factor, seconds):
    longer = replace(slow, seconds=slow.seconds + seconds)
    if blamed(slow, finished, factor) is NODE:
        assert blamed(longer, finished, factor) is NODE
