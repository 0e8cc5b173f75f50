"""Rows that are drawn twice are noticed by what Spark has run, and by who holds them."""

from __future__ import annotations

import pytest

from rekindle.runtime.local_checkpoint import DrawnTwice, _check_same, _ended, check_drawn_once
from rekindle.runtime.scheduler import JobView

BROADCAST, COUNT = JobView(1, is_quiet=True, ran_again=False), JobView(2, is_quiet=True, ran_again=False)
HELD = [("1",), ("2",)]


def test_one_job_and_one_holder_of_each_partition_are_as_it_should_be():
    check_drawn_once([BROADCAST, COUNT], {1}, HELD)


@pytest.mark.requirement("S6-10")
@pytest.mark.parametrize(
    ("jobs", "holders", "why"),
    [
        ([BROADCAST, JobView(2, is_quiet=True, ran_again=True)], HELD, "map outputs were lost"),
        ([JobView(1, is_quiet=True, ran_again=True), COUNT], HELD, "map outputs were lost"),
        ([BROADCAST, COUNT, JobView(3, is_quiet=True, ran_again=False)], HELD, "an executor was lost"),
        ([BROADCAST, COUNT], [("1",), ("2", "3")], "a second attempt"),
    ],
)
def test_what_may_hold_rows_of_two_draws_is_refused(jobs, holders, why):
    with pytest.raises(DrawnTwice, match=why):
        check_drawn_once(jobs, {1}, holders)


@pytest.mark.parametrize("now", [{0: [7, 9]}, {0: [7, None]}, {}])
def test_map_outputs_that_a_broadcast_has_read_must_be_those_that_the_rows_are_made_of(now):
    _check_same({0: [7, 8]}, {0: [7, 8]})
    with pytest.raises(DrawnTwice, match="a broadcast had read"):
        _check_same({0: [7, 8]}, now)


def test_attempts_that_have_lost_are_waited_for(monkeypatch):
    monkeypatch.setattr("rekindle.runtime.local_checkpoint._LOOK_SECONDS", 0.0)
    looks = iter([[BROADCAST], [BROADCAST, JobView(2, is_quiet=False, ran_again=False)], [BROADCAST, COUNT]])
    assert _ended(lambda: next(looks), {1}) == [BROADCAST, COUNT]


def test_a_status_that_never_shows_it_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("rekindle.runtime.local_checkpoint._STATUS_SECONDS", 0.1)
    with pytest.raises(DrawnTwice, match="did not show"):
        _ended(lambda: [BROADCAST], {1})
