"""Progress from a journal, and how it is shown."""

import io
import json

import pytest
from rich.console import Console

from rekindle.local.progress import Follow, Progress, StageProgress
from rekindle.local.screen import LiveScreen, PlainScreen, render, running_line
from rekindle.runtime.journal import Journal, note
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.store import Store
from rekindle.runtime.story import describe
from tests.unit.local.records import T, action, finished, run_started, stage_started


def progress_of(*records) -> Progress:
    progress = Progress()
    for record in records:
        progress.add(record)
    return progress


def shown(renderable) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(renderable)
    return console.export_text()


def test_partitions_are_counted_by_stage_and_over_all():
    progress = progress_of(run_started(flights=4, delays=8), stage_started("flights", 4), *finished("flights", 0, 2))
    assert progress.stage("flights") == StageProgress("flights", 2, 4, 0, started=True)
    assert progress.stage("delays") == StageProgress("delays", 0, 8, 0, started=False)
    assert progress.stage("planes") is None
    assert progress.fraction("flights") == 0.5
    assert progress.fraction() == pytest.approx(2 / 12)


def test_a_partition_that_finished_twice_counts_once_and_a_restart_takes_it_back():
    progress = progress_of(run_started(flights=4), *finished("flights", 0, 1), *finished("flights", 1))
    assert progress.fraction("flights") == 0.5
    progress.add(action("Restart", vertices=[["flights", 1], ["flights.map", 0]], cause="x", reused=1))
    assert progress.fraction("flights") == 0.25
    assert progress.recoveries == 1


def test_what_was_before_this_launch_is_done_but_did_not_start_now():
    progress = Progress()
    for record in [run_started(flights=2), stage_started("flights", 2), *finished("flights", 0)]:
        progress.add(record, new=False)
    assert progress.fraction("flights") == 0.5
    assert not progress.begun
    progress.add(stage_started("flights", 2))
    assert progress.begun


def test_blocks_come_and_go():
    progress = progress_of(action("Block", node="127.0.0.3", until=T + 60, cause="slow"))
    assert progress.blocked == ["127.0.0.3"]
    progress.add(action("Unblock", node="127.0.0.3", reason="over"))
    assert progress.blocked == []


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (stage_started("delays", 8), "stage delays: 8 partitions"),
        (
            note(T, "StageFinished", stage="delays", rows=5, bytes=9),
            "stage delays: finished, 5 rows, 9 bytes",
        ),
        (
            note(
                T,
                "LoopProgressed",
                stage="a",
                ended=False,
                scopes=[{"loop": "a", "activations": 7, "waiting": 2}, {"loop": "a.b", "activations": 3, "waiting": 0}],
            ),
            "loop goes on: a 7 activations, 2 wait; a.b 3 activations",
        ),
        (note(T, "ExecutorsLost", executors=["1"], nodes=["127.0.0.2"]), "executors lost on 127.0.0.2"),
        (
            note(T, "PartitionsLost", stage="delays", partitions=[3, 1, 2, 7], reason="gone"),
            "lost: delays[1-3,7]: gone",
        ),
        (
            action("Restart", vertices=[["b", 0], ["b", 1], ["a", 4]], cause="driver lost", reused=11),
            "recovery: driver lost; runs again: b[0-1], a[4]; 11 partitions reused",
        ),
        (
            action("Restart", vertices=[], cause="driver lost", reused=11),
            "recovery: driver lost; runs again: nothing; 11 partitions reused",
        ),
        (action("Block", node="n", until=1, cause="delays[3] is slow"), "node n blocked: delays[3] is slow"),
        (action("BlockRefused", node="n", reason="one in five"), "node n not blocked: one in five"),
        (action("Speculate", attempts=[["delays", 3, 1]]), "copies of slow tasks: delays[3]"),
    ],
)
def test_records_are_told_in_words(record, line):
    assert describe(record) == line


def test_a_cause_that_quotes_much_is_cut():
    line = describe(action("Block", node="n", until=1, cause="x" * 1000))
    assert line is not None
    assert len(line) == 240
    assert line.endswith("xxx...")


def test_what_is_too_much_is_not_told():
    assert [describe(record) for record in [run_started(a=1), *finished("a", 0)]] == [None, None, None]


def test_the_table_shows_stages_copies_blocks_and_recoveries():
    progress = progress_of(
        run_started(flights=4, delays=8),
        note(T, "DriverStarted", attempt=1),
        note(T, "DriverStarted", attempt=2),
        stage_started("flights", 4),
        *finished("flights", 0, 1, 2, 3),
        stage_started("delays", 8),
        *finished("delays", 5),
        action("Speculate", attempts=[["delays", 3, 1]]),
        action("Block", node="127.0.0.3", until=T + 60, cause="slow"),
        action("Restart", vertices=[], cause="x", reused=1),
    )
    text = shown(render(progress, 41.4))
    assert "41 s · driver 2 · recoveries: 1 · blocked: 127.0.0.3" in text
    assert "✓  flights" in text
    assert "4/4" in text
    assert "▸  delays" in text
    assert "1/8" in text
    assert "copies: 1" in text
    assert running_line(progress) == "delays 1/8"


def test_before_anything_is_known_the_table_says_so():
    assert "driver starting" in shown(render(Progress(), 0.0))


def test_the_plain_screen_keeps_the_driver_s_output_apart():
    out, err = io.StringIO(), io.StringIO()
    with PlainScreen(out, err) as screen:
        screen.output("42")
        screen.line("node 127.0.0.3 is gone")
        screen.update(progress_of(run_started(a=2), stage_started("a", 2), *finished("a", 1)))
    assert out.getvalue() == "42\n"
    first, second = err.getvalue().splitlines()
    assert first.endswith(" s  node 127.0.0.3 is gone")
    assert second.endswith(" s  a 1/2")


def test_the_live_screen_prints_what_looks_like_markup_as_it_is():
    shown = io.StringIO()
    with LiveScreen(Console(file=shown, width=100, force_terminal=True, color_system=None)) as screen:
        screen.output("lost: delays[red]: [/]")
        screen.update(progress_of(run_started(a=2)))
    assert "lost: delays[red]: [/]" in shown.getvalue()


@pytest.fixture
def journal(tmp_path):
    return Journal(Store.at(tmp_path).prepare(), RunLayout(1), "driver")


class Lines:
    def __init__(self):
        self.lines, self.updates = [], 0

    def line(self, text):
        self.lines.append(text)

    def update(self, progress):
        self.updates += 1


def test_a_run_is_followed_as_it_is_written(tmp_path, journal):
    screen, progress = Lines(), Progress()
    follow = Follow(Store.at(tmp_path).prepare(), progress, screen)
    follow.step(T, None)
    journal.append([run_started(a=2), stage_started("a", 2)])
    follow.step(T, None)
    journal.append(finished("a", 0))
    follow.step(T, None)
    assert screen.lines == ["stage a: 2 partitions"]
    assert progress.fraction() == 0.5
    assert screen.updates == 3


def test_an_unfinished_run_is_gone_on_with_and_its_past_is_not_told_again(tmp_path, journal):
    journal.append([run_started(a=2), stage_started("a", 2), *finished("a", 0)])
    screen, progress = Lines(), Progress()
    Follow(Store.at(tmp_path).prepare(), progress, screen).step(T, None)
    assert screen.lines == []
    assert progress.fraction() == 0.5
    assert not progress.begun


def test_a_finished_run_is_passed_over(tmp_path, journal):
    journal.append([run_started(a=1), stage_started("a", 1), *finished("a", 0), note(T, "RunFinished")])
    screen, progress = Lines(), Progress()
    follow = Follow(Store.at(tmp_path).prepare(), progress, screen)
    assert progress.stages == []
    Journal(Store.at(tmp_path).prepare(), RunLayout(2), "driver").append([run_started(b=1)])
    follow.step(T, None)
    assert [stage.name for stage in progress.stages] == ["b"]
    assert json.dumps(screen.lines) == "[]"
