"""Sources and sinks of an application: what a person sees of them below the picture of its job."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from rekindle.remote.job_picture import show_job

ORDERS = {
    "name": "orders",
    "kind": "rekindle-database",
    "subtasks": 16,
    "numSplits": 200,
    "numAssignedSplits": 136,
    "numFinishedSplits": 120,
    "numRereadSplits": 3,
    "most": {"subtask": 0, "splits": 14},
    "fewest": {"subtask": 3, "splits": 5},
}
CLICKS = {
    "name": "clicks",
    "kind": "events",
    "subtasks": 4,
    "numSplits": 8,
    "concurrentAttempts": False,
    "reason": "the stage says speculation=False",
}
TOTALS = {
    "name": "totals",
    "kind": "DataSourceSink",
    "mode": "overwrite",
    "numPartitions": 12,
    "numWrittenPartitions": 3,
    "numRecordsSend": 40500,
    "commit": "Pending",
}
REFUSED = {**TOTALS, "name": "again", "numWrittenPartitions": 12, "commit": "Refused", "commitReason": "it was written"}


def shown(width: int = 100, **status: Any) -> list[str]:
    """The lines below what is told of the job."""
    text = io.StringIO()
    body = {"metadata": {"namespace": "team", "name": "shop"}, "status": {"attempt": 1, **status}}
    show_job(Console(file=text, width=width, force_terminal=True, color_system=None), body)
    _, *lines = text.getvalue().split("\n\n", 1)
    return [line.rstrip() for line in "".join(lines).splitlines()]


def words(lines: list[str]) -> list[str]:
    """With single blanks."""
    return [" ".join(line.split()) for line in lines]


def test_each_source_is_shown_with_its_splits_and_whether_copies_read_it_too():
    assert words(shown(sources=[ORDERS, CLICKS])) == [
        "SOURCE KIND SUBTASKS READ/ASSIGNED/SPLITS AGAIN FEWEST–MOST COPIES",
        "orders rekindle-database 16 120/136/200 3 5–14 yes",
        "clicks events 4 0/0/8 0 no: the stage says",
        "speculation=False",
    ]


def test_each_sink_is_shown_with_what_is_written_and_how_far_its_commit_is():
    assert words(shown(sinks=[TOTALS, REFUSED])) == [
        "SINK KIND MODE WRITTEN ROWS COMMIT",
        "totals DataSourceSink overwrite 3/12 40500 Pending",
        "again DataSourceSink overwrite 12/12 40500 Refused: it was written",
    ]


def test_both_are_shown_one_below_the_other_and_none_where_there_are_none():
    lines = words(shown(sources=[ORDERS], sinks=[TOTALS]))
    assert [line.split(" ")[0] for line in lines] == ["SOURCE", "orders", "", "SINK", "totals"]
    assert shown() == []


@pytest.mark.parametrize("word", ["w", "word "])
def test_long_texts_and_large_numbers_fit_a_hundred_columns_and_lose_nothing(word):
    names = {"name": "n" * 60, "kind": "k" * 100}
    counts = {
        "subtasks": 10_000,
        **dict.fromkeys(("numSplits", "numAssignedSplits", "numFinishedSplits"), 10**6),
        "numRereadSplits": 10**8,
        "fewest": {"splits": 99_999},
        "most": {"splits": 100_001},
    }
    reason = (word * 500)[:499].strip()
    source = {**names, **counts, "concurrentAttempts": False, "reason": reason}
    sink = {**TOTALS, **names, "numPartitions": 10**5, "numRecordsSend": 10**12, "commitReason": reason}
    lines = shown(sources=[source], sinks=[sink])
    assert max(map(len, lines)) <= 100
    text = "".join("".join(lines).split())
    assert "10000 1000000/1000000/1000000 100000000 99999–100001" in " ".join(words(lines))
    assert "3/100000 1000000000000" in " ".join(words(lines))
    for sign, count in (("n", 120), ("k", 200)):
        assert text.count(sign) >= count
    assert text.count("w") >= 2 * reason.count("w")


NASTY = "\x1b[2J\x1b]0;title\x07\r\n\tx\x9b31m\u202e[red]y[/red][/]\\\ud800"


def test_nothing_of_what_users_named_is_obeyed_by_the_terminal_or_taken_for_markup():
    """What is left of a sequence without its first character is text."""
    source = {**CLICKS, "name": NASTY, "kind": NASTY, "reason": NASTY}
    sink = {**TOTALS, "name": NASTY, "kind": NASTY, "mode": NASTY, "commit": NASTY, "commitReason": NASTY}
    lines = shown(400, sources=[source], sinks=[sink])
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 5, "no text makes lines of its own"
    assert "".join(lines).count("[red]y[/red][/]\\") == 8
