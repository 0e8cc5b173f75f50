"""Drivers that tell what cannot be, or not all that was: what is slow is found all the same, or nothing is."""

import pytest

from rekindle.controller.speculation import driver_questions as module
from rekindle.controller.speculation.spark_rest import StageKey
from tests.unit.controller.speculation.scripted_driver import Attempt, ScriptedDriver, Watched, straggler, took


def test_no_task_runs_by_the_count_of_a_driver_that_has_lost_an_executor():
    assert Watched(straggler(10, 10, 10, running=0)).slow(60.0) == ["stage 1.0[3]"]


@pytest.mark.requirement("S1-20")
def test_all_have_finished_by_its_count_while_one_makes_again_what_was_lost():
    again = Attempt(0, 20.0, number=1)
    watched = Watched(ScriptedDriver().stage(*took(10, 10, 10, 15), again))
    assert watched.slow(79.0) == []
    assert watched.slow(80.0) == ["stage 1.0[0]"]


def test_the_finished_tasks_that_are_told_stand_for_all_where_a_driver_keeps_only_some(monkeypatch):
    """Or where there are more than are asked for."""
    monkeypatch.setattr(module, "_PAGE", 2)
    monkeypatch.setattr(module, "MOST_ASKED_FOR", 4)
    watched = Watched(straggler(*[100.0] * 7))
    assert watched.slow(149.9) == []
    (slow,) = watched.look(150.0).slow
    assert "the first 4 to finish" in slow.evidence


def test_nothing_is_slow_where_it_keeps_none():
    assert Watched(ScriptedDriver(finished=3).stage(Attempt(3, 0.0))).slow(1e6) == []


def test_stages_of_more_tasks_than_there_is_room_for_are_passed_over_and_that_is_said_once(caplog):
    driver = straggler(10, 10, 10).stage(Attempt(0, 0.0), tasks=2**31 - 1, key=StageKey(0, 0))
    driver.stage(Attempt(0, 0.0), tasks=0, key=StageKey(3, 0))
    watched = Watched(driver, baselineRatio=0)
    assert [watched.slow(now) for now in (60.0, 61.0)] == [["stage 1.0[3]"]] * 2
    (said,) = caplog.messages
    assert said.startswith("slow tasks of stage 0.0 are not seen: more than ")


def test_so_are_those_that_have_too_many_together(monkeypatch):
    monkeypatch.setattr("rekindle.controller.speculation.watch._MOST_FOLLOWED", 9)
    driver = ScriptedDriver()
    for number in (1, 2, 3):
        driver.stage(*took(10, 10, 10), Attempt(3, 0.0), key=StageKey(number, 0))
    assert Watched(driver).slow(60.0) == ["stage 1.0[3]", "stage 2.0[3]"]
