"""Attempts, copies and waste from a handmade event log; late starts and false blocks from events; the table."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from benchmarks.on_kubernetes.apps.figures import attempts_of, events_of, executors_of, figures, has_ended
from benchmarks.on_kubernetes.apps.work import burn
from benchmarks.on_kubernetes.contenders import APPS, CONTENDERS, SCENARIOS, arguments, manifest, programs
from benchmarks.on_kubernetes.outcome import HEAD, Note, Told, notes_of, run_of, table, with_answer
from benchmarks.results import Run
from benchmarks.slow_node_on_kubernetes import chosen, make_parser
from rekindle.api.spark_application import SparkApplication

SICK, WELL = "worker3", "worker2"


def added(executor: str, node: str, at: float) -> dict[str, Any]:
    info = {"Host": "10.0.0.1", "Total Cores": 1, "Attributes": {"NODE": node}}
    return {
        "Event": "SparkListenerExecutorAdded",
        "Timestamp": at * 1000,
        "Executor ID": executor,
        "Executor Info": info,
    }


def removed(executor: str, at: float) -> dict[str, Any]:
    return {"Event": "SparkListenerExecutorRemoved", "Timestamp": at * 1000, "Executor ID": executor}


def task(
    number: int,
    partition: int,
    executor: str,
    launched: float,
    ended: float | None = None,
    reason: str = "Success",
    *,
    speculative: bool = False,
) -> list[dict[str, Any]]:
    """Its start, and its end where it has one."""
    info = {
        "Task ID": number,
        "Partition ID": partition,
        "Executor ID": executor,
        "Launch Time": launched * 1000,
        "Finish Time": 0,
        "Speculative": speculative,
    }
    found: list[dict[str, Any]] = [{"Event": "SparkListenerTaskStart", "Stage ID": 0, "Task Info": info}]
    if ended is not None:
        over = {**info, "Finish Time": ended * 1000}
        how = {"Task End Reason": {"Reason": reason}, "Stage ID": 0, "Task Info": over}
        found.append({"Event": "SparkListenerTaskEnd", **how})
    return found


EVENTS = [
    added("1", WELL, 90),
    added("2", SICK, 91),
    {"Event": "SparkListenerJobStart"},
    *task(0, 0, "1", 100, 102),
    *task(1, 1, "2", 100, 111, "TaskKilled"),
    *task(2, 2, "1", 102, 104),
    *task(3, 1, "1", 104, 106, speculative=True),
    *task(4, 3, "1", 106, 108),
    *task(5, 4, "2", 101),
    *task(6, 4, "1", 108, 110, speculative=True),
    {"Event": "SparkListenerJobEnd"},
    removed("2", 112),
]


def test_what_did_not_win_is_wasted_and_an_attempt_that_nobody_saw_end_is_so_until_the_answer():
    found = figures(EVENTS, until=110)
    assert (found["attempts"], found["speculative"]) == (7, 2)
    assert found["wasted"] == (110 - 100) + (110 - 101)
    assert found["starts"] == {
        WELL: [(100, False), (102, False), (104, True), (106, False), (108, True)],
        SICK: [(100, False), (101, False)],
    }
    assert found["executors"] == [(WELL, 90, None), (SICK, 91, 112)]


def test_of_two_that_succeed_and_of_work_that_was_lost_and_done_again_the_first_has_won():
    events = [added("1", WELL, 0), *task(0, 0, "1", 1, 3), *task(1, 0, "1", 1, 4), *task(2, 0, "1", 10, 15)]
    assert figures(events, until=20)["wasted"] == 3 + 5


def test_what_began_after_the_answer_is_none_of_its_attempts():
    assert figures([*EVENTS, *task(7, 5, "1", 111)], until=110)["attempts"] == 7


def test_a_log_that_is_being_written_is_read_as_far_as_it_goes():
    lines = [json.dumps(event) for event in EVENTS]
    events = list(events_of("\n".join([*lines[:5], lines[5][:30]])))
    assert events == EVENTS[:5]
    assert [one.ended for one in attempts_of(events)] == [102]
    assert [one.node for one in executors_of(events)] == [WELL, SICK]
    assert not has_ended(events)
    assert has_ended(EVENTS)
    assert not has_ended(EVENTS[:2])


def result(**other: Any) -> dict[str, Any]:
    return {"answer": 7, "seconds": 10.0, "began": 100.0, "ended": 110.0, "busy": 1.5, **figures(EVENTS, 110), **other}


def note(at: float, reason: str, about: str = "SparkApplication", name: str = "app") -> Note:
    return Note(at, reason, about, name, "why")


def test_a_start_is_late_between_the_block_and_the_end_of_the_last_drain():
    blocked = [
        note(100.4, "SlowNode"),
        note(100.5, "NodeBlocked", "NodeBlock"),
        note(100.5, "NodeBlocked", "Node", SICK),
    ]
    run = run_of(CONTENDERS["rekindle"], 1, Told(result(), blocked, SICK))
    assert (run.details["blocked after s"], run.details["late starts"]) == (0.5, 1)
    drained = result(executors=[(SICK, 91, 100.9), (SICK, 105, None)])
    assert run_of(CONTENDERS["rekindle"], 1, Told(drained, blocked, SICK)).details["late starts"] == 0


def test_of_who_blocks_nothing_a_late_start_is_a_copy_on_the_sick_node():
    copied = result(starts={SICK: [(100, False), (104, True), (105, True)], WELL: [(103, True)]})
    run = run_of(CONTENDERS["spark-speculation"], 1, Told(copied, [], SICK))
    assert (run.details["late starts"], run.details["blocked after s"]) == (2, None)
    assert run_of(CONTENDERS["rekindle"], 1, Told(copied, [], SICK)).details["late starts"] is None
    assert run_of(CONTENDERS["healthy"], 1, Told(copied, [], None)).details["late starts"] is None


def test_a_block_of_a_node_that_is_not_sick_is_false():
    notes = [
        note(101, "NodeBlocked", "Node", WELL),
        note(102, "NodeBlocked", "Node", SICK),
        note(103, "NodeBlockRefused"),
    ]
    run = run_of(CONTENDERS["rekindle"], 1, Told(result(), notes, SICK))
    assert (run.details["false blocks"], run.details["blocks refused"]) == (1, 1)
    assert run_of(CONTENDERS["rekindle"], 1, Told(result(), notes, None)).details["false blocks"] == 2


def test_only_what_the_operator_has_said_since_is_looked_at():
    def event(at: str, by: str = "rekindle.dev/operator") -> dict[str, Any]:
        regarding = {"kind": "Node", "name": SICK}
        return {"eventTime": at, "reportingController": by, "reason": "R", "note": "n", "regarding": regarding}

    early, late = "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:03.5Z"
    kubelets = {**event(late, "kubelet"), "eventTime": None}
    found = notes_of([event(late), kubelets, event(early)], since=0)
    assert [round(one.at % 60, 1) for one in found] == [1.5, 3.5]
    assert notes_of([event(late), event(early)], since=found[0].at + 1) == found[1:]


def run(name: str, number: int, seconds: float, *figures: Any) -> Run:
    return Run(name, number, seconds, details={**dict(zip(HEAD, figures, strict=True)), "answer": 7})


def test_the_table_has_counts_as_whole_numbers_and_a_dash_where_there_is_nothing():
    found = [
        run("oracle", 1, 20.0, 90, 0, 0.0, None, 0, 0, 0, 1.5),
        run("rekindle", 1, 25.0, 93, 3, 12.5, 4.0, 0, 0, 0, 1.5),
        run("rekindle", 2, 35.0, 95, 5, 14.5, None, None, 1, 0, 2.0),
        Run("plain", 1, error="no answer"),
    ]
    assert table(found, ["oracle", "rekindle", "plain"], "oracle").splitlines()[2:] == [
        "| oracle | 20.0 | 1.00 | 90 | 0 | 0.0 | – | 0 | 0 | 0 | 1.5 |",
        "| rekindle | 30.0 (25.0 – 35.0) | 1.50 | 94 (93 – 95) | 4 (3 – 5) | 13.5 (12.5 – 14.5) | 4.0 | 0 | 0.5 (0 – 1)"
        " | 0 (0 – 0) | 1.8 (1.5 – 2.0) |",
        "| plain | – | – | – | – | – | – | – | – | – | – |",
    ]


def test_another_answer_than_the_first_is_a_failed_run():
    good = run("rekindle", 1, 25.0, 93, 3, 12.5, 4.0, 0, 0, 0, 1.5)
    assert with_answer(good, None) == with_answer(good, 7) == good
    wrong = with_answer(good, 8)
    assert wrong.error == "the answer is 7, that of the first run 8"


def test_the_work_of_a_healthy_run_is_the_same_however_it_is_cut():
    for letter, tasks in (("a", 90), ("b", 12), ("d", 90)):
        count, steps, _ = arguments(SCENARIOS[letter], 40.0, 1e6)
        assert int(count) == tasks
        assert int(count) * int(steps) == pytest.approx(40 * 1.8 * 1e6, rel=1e-3)
    count, steps, moment = arguments(SCENARIOS["f"], 40.0, 1e6)
    assert 2 * int(count) * int(steps) == pytest.approx(40 * 1.8 * 1e6, rel=1e-3)
    assert moment == "second-stage"
    rows, steps, *_ = arguments(SCENARIOS["c"], 40.0, 1e6)
    assert int(rows) * 0.45 * int(steps) == pytest.approx(40 * 0.6 * 1e6, rel=1e-3)


@pytest.mark.parametrize("letter", SCENARIOS)
@pytest.mark.parametrize("name", CONTENDERS)
def test_every_manifest_is_one_that_the_operator_takes(letter, name):
    scenario = SCENARIOS[letter]
    words = arguments(scenario, 40.0, 1e6)
    body = manifest("slow-node-x", CONTENDERS[name], scenario, words, "spark:1", WELL)
    spec = SparkApplication.model_validate(body).spec
    assert spec.settings().speculation.enabled is ("rekindle" in name)
    assert (APPS / scenario.program).name in programs()["data"]


@pytest.mark.parametrize("path", sorted(APPS.glob("*.py")), ids=lambda path: path.name)
def test_programs_import_nothing_of_ours_but_each_other(path):
    """Their driver has no other file of this project, and need not have the library."""
    trees = ast.walk(ast.parse(path.read_text()))
    froms = [node.module or "" for node in trees if isinstance(node, ast.ImportFrom)]
    ours = [name for name in froms if name.startswith(("benchmarks", "tests", "rekindle"))]
    assert all(name.startswith("benchmarks.on_kubernetes.apps.") for name in ours)


def test_work_is_the_same_each_time_and_differs_by_its_seed():
    assert burn(1000, 3) == burn(1000, 3) != burn(1000, 4)
    assert burn(0, 2**31 - 2) == 1


def test_where_no_node_is_sick_nobody_runs_with_one():
    parse = make_parser().parse_args
    assert "plain" not in chosen(parse(["--scenario", "c"]))
    assert chosen(parse(["--scenario", "a"])) == list(CONTENDERS)
    assert chosen(parse(["--scenario", "a", "--contenders", "plain", "healthy", "plain"])) == ["plain", "healthy"]
    with pytest.raises(ValueError, match="leave out oracle"):
        chosen(parse(["--scenario", "c", "--contenders", "oracle"]))
