"""A job as a picture: what a person sees of each stage."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from rekindle.api.job_report import job_report
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.remote.job_picture import show_job
from tests.unit.core.dsl import Run, job


def shown(run: Run | None, state: str = "RUNNING", **recovery: Any) -> list[str]:
    """The lines."""
    told = facts_of(job_report(run.job_graph, run.graph.inventory(), {})).job if run is not None else {}
    status = {
        "applicationState": {"state": state},
        "attempt": 2,
        "recovery": {"job": told, **recovery},
    }
    text = io.StringIO()
    body = {"metadata": {"namespace": "team", "name": "shop"}, "status": status}
    show_job(Console(file=text, width=200), body)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def rows(lines: list[str]) -> dict[str, str]:
    """[stage -> the rest of its line], with single blanks."""
    head = next(place for place, line in enumerate(lines) if line.startswith("STAGE"))
    end = lines.index("", head)
    split = (" ".join(line.split()).partition(" ") for line in lines[head + 1 : end])
    return {name: rest for name, _, rest in split}


def half_done() -> Run:
    """A is stored, and the shuffle of B; of B one is stored."""
    run = Run(job("A*3 => m", "m ~> B*4", "B => C*100")).submit()
    for name in ("A", "m", "B[1]"):
        run.finish(name)
    return run


def test_each_stage_is_shown_with_what_it_reads_and_what_there_is_of_it():
    lines = shown(half_done())
    assert lines[0] == "team/shop: RUNNING, attempt 2"
    found = rows(lines)
    assert found["A"] == "(source) ███ all 3 stored"
    assert found["m"] == "A ▓ held by executors"
    assert found["B"] == "m ▒█▒▒ 1 stored, 3 in progress"
    assert found["C"] == f"B {'░' * 40} all 100 waiting"
    assert lines[-1] == "▒ in progress   ░ waiting   █ stored   ▓ held by executors"


def test_what_was_lost_is_shown_until_it_runs_again():
    run = Run(job("A*4 => B*4")).submit()
    for name in ("A", "B[0]"):
        run.finish(name)
    run.loses("A/2")
    found = rows(shown(run))
    assert found["A"] == "(source) ██×█ 3 stored, 1 run again (2)"
    run.finish("A[2]")
    assert rows(shown(run))["A"] == "(source) ████ all 4 stored"


def test_a_cell_of_many_partitions_shows_the_most_urgent_one():
    run = Run(job("A*400")).submit()
    run.finish("A")
    run.loses("A/25")
    [found] = rows(shown(run)).values()
    assert found == f"(source) ██×{'█' * 37} 399 stored, 1 run again (25)"


def test_what_nobody_needs_any_more_is_shown_as_released():
    run = Run(job("A*3 => B*2", "B => C*2")).submit()
    for name in ("A", "B", "C"):
        run.finish(name)
    assert rows(shown(run))["A"] == "(source) ··· all 3 released"


def test_of_an_application_without_a_driver_is_shown_what_is_left():
    lines = shown(half_done(), "PENDING_RERUN")
    assert lines[1] == "no driver runs; this is left of what the last one told:"
    found = rows(lines)
    assert found["m"] == "A ░ waiting"
    assert found["B"] == "m ░█░░ 1 stored, 3 waiting"


def test_a_job_that_is_too_large_is_called_so():
    lines = shown(None, stages=[{"name": "A", "partitions": 100_000}])
    assert lines[1].startswith("its job is too large for a picture; `rekindle status`")


def test_where_nobody_has_told_of_a_job_that_is_said():
    lines = shown(None, last={"attempt": 2, "restarted": {"B": "0"}, "asPlanned": True})
    assert lines[1] == "recovery of attempt 2: B[0] again, 0 result partitions stay (as planned)"
    assert lines[2].startswith("nobody has told of its job: it is no pipeline")
