"""What is remembered of jobs, and how often it is told."""

from __future__ import annotations

import time

from rekindle.api.job_report import JobReport, job_report
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.recovery.known_jobs import KnownJobs
from rekindle.controller.resources import Key
from tests.unit.core.dsl import Run, job

KEY = Key("team", "pi")


def report(finished: int = 0) -> JobReport:
    run = Run(job("A*3 => B")).submit()
    for subtask in range(finished):
        run.finish(f"A[{subtask}]")
    told = job_report(run.job_graph, run.graph.inventory(), {})
    assert told is not None
    return told


def finished(facts: JobFacts | None) -> int | None:
    """How many partitions of A there are, as far as it is told."""
    return facts.stages[0].finished if facts is not None else None


def test_what_a_driver_told_is_not_what_the_next_one_told():
    known = KnownJobs()
    known.hear(KEY, "first", report(2))
    assert finished(known.of(KEY, "first")) == 2
    assert known.of(KEY, "second") is None
    known.hear(KEY, "second", report(1))
    assert (known.of(KEY, "first"), finished(known.of(KEY, "second"))) == (None, 1)
    known.forget(KEY)
    assert known.of(KEY, "second") is None


def test_changes_are_told_now_and_then_and_the_last_one_in_the_end(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    known, told = KnownJobs(), list[int | None]()
    known.listen(lambda key: told.append(finished(known.of(key, "first"))))

    def hear(count: int) -> list[int | None]:
        now[0] += 3.0
        known.hear(KEY, "first", report(count))
        return told

    assert [list(hear(count)) for count in (0, 1, 2, 2)] == [[0]] * 4
    assert finished(known.of(KEY, "first")) == 0
    assert finished(known.of(KEY, "first", newest=True)) == 2
    assert hear(2) == [0, 2]
    now[0] += 60.0
    assert hear(2) == [0, 2]


def test_a_new_driver_is_told_of_at_once():
    known, told = KnownJobs(), list[Key]()
    known.listen(told.append)
    known.hear(KEY, "first", report())
    known.hear(KEY, "second", report())
    assert told == [KEY, KEY]


def test_a_job_that_has_become_too_large_is_known_no_more():
    known = KnownJobs()
    known.hear(KEY, "first", None)
    assert known.of(KEY, "first") is None  # it has not begun
    known.hear(KEY, "first", report(2))
    known.hear(KEY, "first", None)
    assert known.of(KEY, "first", newest=True) == JobFacts(is_told=False)
