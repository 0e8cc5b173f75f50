"""Attempts that have made nothing are counted, whatever ended them."""

from __future__ import annotations

from rekindle.core import events as ev
from rekindle.core.aborted_attempts import AbortedAttempts
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID


def attempt(number: int, subtask: int = 0) -> ExecutionAttemptID:
    return ExecutionAttemptID(ExecutionVertexID("out", subtask), number)


def deployed(*attempts: ExecutionAttemptID) -> list[ev.Event]:
    return [ev.AttemptDeployed(one, "n1", 0.0) for one in attempts]


def finished(one: ExecutionAttemptID) -> ev.Event:
    return ev.AttemptFinished(one, 1.0, ev.PartitionOutput(1, 1, None))


def aborted(*events: ev.Event) -> int:
    found = AbortedAttempts()
    for event in events:
        found.see(event)
    assert found.of("another") == 0
    return found.of("out")


def test_the_loser_of_a_race_counts_once_though_its_end_is_seen_later():
    race = [*deployed(attempt(0), attempt(1)), finished(attempt(1))]
    assert aborted(*race) == 1
    assert aborted(*race, ev.AttemptCanceled(attempt(0))) == 1


def test_so_do_those_that_failed_or_were_ended():
    ends: list[ev.Event] = [
        ev.AttemptFailed(attempt(0), ev.FailureCause(ev.FailureKind.TASK, "x")),
        ev.AttemptCanceled(attempt(1, 1)),
    ]
    assert aborted(*deployed(attempt(0), attempt(1, 1)), *ends) == 2


def test_and_what_a_lost_driver_left_running():
    lost = [*deployed(attempt(0), attempt(0, 1)), finished(attempt(0, 1)), ev.DriverLost("gone")]
    assert aborted(*lost) == 1
    assert aborted(*lost, *deployed(attempt(1)), finished(attempt(1))) == 1


def test_winners_and_what_still_runs_do_not():
    assert aborted(*deployed(attempt(0), attempt(0, 1)), finished(attempt(0))) == 0
