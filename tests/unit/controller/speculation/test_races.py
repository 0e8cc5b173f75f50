"""Copies that race their originals, as looks at a driver show them."""

from __future__ import annotations

import pytest

from rekindle.controller.speculation.races import RaceCounts, Races
from rekindle.controller.speculation.spark_rest import DriverUnanswered
from tests.unit.controller.speculation.scripted_driver import NEVER, Attempt, ScriptedDriver, Watched, took

pytestmark = pytest.mark.requirement("S2-41")


def race(*attempts: Attempt, ends: float = NEVER) -> Watched:
    """Three tasks took 10 s each; the fourth is raced, from 60 s on, and one more runs on."""
    driver = ScriptedDriver().stage(*took(10, 10, 10), *attempts, Attempt(4, 150.0), tasks=5, ends=ends)
    return Watched(driver, baselineRatio=0.5)


COPY_WINS = Attempt(3, 0.0, 101.0, killed=True), Attempt(3, 70.0, 100.0, "2", 1)
ORIGINAL_WINS = Attempt(3, 0.0, 100.0), Attempt(3, 70.0, 101.5, "2", 1, killed=True)


def counts(watched: Watched, *looks: float) -> list[tuple[int, float]]:
    found = []
    for now in looks:
        watched.look(now)
        found.append((watched.counts.num_effective, watched.counts.wasted_seconds))
    return found


def test_a_copy_that_finishes_first_is_effective_and_its_original_was_for_nothing():
    assert counts(race(*COPY_WINS), 80.0, 100.5, 102.0, 103.0) == [(0, 0), (0, 0), (1, 101.0), (1, 101.0)]


def test_a_copy_that_loses_was_for_nothing():
    assert counts(race(*ORIGINAL_WINS), 80.0, 102.0) == [(0, 0), (0, 31.5)]


def test_a_race_that_ends_with_its_stage_is_counted_too():
    assert counts(race(*COPY_WINS, ends=102.0), 80.0, 103.0, 104.0) == [(0, 0), (1, 101.0), (1, 101.0)]


def test_a_loser_that_is_being_killed_still_ran_until_the_winner_was_there():
    slow_to_die = Attempt(3, 0.0, 500.0, killed=True), Attempt(3, 70.0, 100.0, "2", 1)
    assert counts(race(*slow_to_die, ends=101.0), 80.0, 102.0) == [(0, 0), (1, 100.0)]


def test_a_task_of_which_no_copy_was_made_is_no_race():
    assert counts(race(Attempt(3, 0.0, 90.0)), 80.0, 102.0) == [(0, 0)] * 2


def test_a_race_that_nobody_wins_counts_nothing():
    killed = Attempt(3, 0.0, 100.0, killed=True), Attempt(3, 70.0, 100.0, "2", 1, killed=True)
    assert counts(race(*killed), 80.0, 102.0) == [(0, 0)] * 2


def test_a_driver_that_does_not_tell_who_won_tells_what_is_slow_all_the_same(monkeypatch):
    watched = race(*COPY_WINS)
    watched.look(80.0)
    answers = watched.driver.tasks

    async def busy(address, application_id, stage, status, **page):
        if status == "killed":
            raise DriverUnanswered("it is busy")
        return await answers(address, application_id, stage, status, **page)

    monkeypatch.setattr(watched.driver, "tasks", busy)
    assert watched.slow(211.0) == ["stage 1.0[4]"]
    assert watched.counts == RaceCounts()


def test_of_a_task_with_ever_new_attempts_a_few_are_kept():
    races = Races()
    for number in range(100):
        races.see([Attempt(3, 0.0, number=number).task(1.0)])
    races.see([])
    ended = [Attempt(3, 0.0, 10.0, number=number, killed=number < 99).task(20.0) for number in range(100)]
    assert races.settle(ended) == RaceCounts(1, 70.0)
