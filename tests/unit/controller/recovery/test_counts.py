"""What the metrics count of recoveries."""

from __future__ import annotations

from rekindle.api.application_status import RecoverySummary
from rekindle.controller.metrics import Metrics

PLANNED = RecoverySummary(attempt=2, restarted_vertices=9, reused_partitions=3)
DONE = PLANNED.model_copy(update={"as_planned": True, "restarted_vertices": 5, "saved_task_seconds": 70})
TIMED = DONE.model_copy(update={"noticed_after_seconds": 3, "driver_after_seconds": 8, "first_task_after_seconds": 25})


def counted(*changes: tuple[RecoverySummary | None, RecoverySummary | None]) -> set[str]:
    metrics = Metrics()
    for before, after in changes:
        metrics.count_recovery("team", before, after)
    lines = metrics.text().decode().splitlines()
    names = ("_total{", "_sum{", "_count{")
    return {
        line
        for line in lines
        if line.startswith(("rekindle_recover", "rekindle_saved")) and any(name in line for name in names)
    }


def test_a_recovery_counts_once_with_what_its_driver_did():
    assert counted((None, PLANNED), (PLANNED, DONE), (DONE, DONE)) == {
        'rekindle_recoveries_total{as_planned="true",namespace="team"} 1.0',
        'rekindle_recovered_partitions_total{namespace="team",what="reused"} 3.0',
        'rekindle_recovered_partitions_total{namespace="team",what="rerun"} 5.0',
        'rekindle_saved_task_seconds_total{namespace="team"} 70.0',
    }


def test_how_long_each_phase_took_counts_once_the_first_task_has_begun():
    counts = counted((PLANNED, DONE), (DONE, TIMED), (TIMED, TIMED))
    for phase, seconds in (("noticed", 3), ("driver", 8), ("first_task", 25)):
        assert f'rekindle_recovery_seconds_sum{{namespace="team",phase="{phase}"}} {seconds:.1f}' in counts
        assert f'rekindle_recovery_seconds_count{{namespace="team",phase="{phase}"}} 1.0' in counts


def test_the_next_one_counts_too():
    other = DONE.model_copy(update={"attempt": 3, "as_planned": False})
    again = PLANNED.model_copy(update={"attempt": 3})
    counts = counted((PLANNED, DONE), (DONE, again), (again, other))
    assert 'rekindle_recoveries_total{as_planned="false",namespace="team"} 1.0' in counts


def test_what_is_no_pipeline_counts_nothing():
    assert counted((None, None)) == set()
