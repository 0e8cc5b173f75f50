"""What is in the JSON of a driver: wrong, hostile or merely long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.speculation import spark_wire as module
from rekindle.controller.speculation.spark_wire import Unusable, WireStage, WireTask, ahead, entries, one_line

TASK = (
    b'{"index": 5, "attempt": 0, "launchTime": "2026-11-22T20:00:01.000GMT", "duration": 7, "executorId": "8",'
    b' "status": "SUCCESS", "speculative": false, "taskMetrics": {"inputMetrics": {"bytesRead": 1, "recordsRead": 2},'
    b' "shuffleReadMetrics": {"remoteBytesRead": 3, "localBytesRead": 4, "recordsRead": 5}}}'
)


def wrong(body: bytes) -> str:
    with pytest.raises(Unusable) as caught:
        entries(body, WireTask, 10)
    return str(caught.value)


def test_the_task_that_the_others_differ_from_is_read():
    (task,) = entries(b"[%s]" % TASK, WireTask, 10)
    assert (task.index, task.duration, task.executor_id, task.input()) == (5, 7, "8", (8, 7))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]]",
        b"\xef\xbb\xbf[]",
        "[]".encode("utf-16"),
        b'["\xff"]',
        b'["\\ud800"]',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[NaN]",
        b"[Infinity]",
        b"[-Infinity]",
        b"[" + b"9" * 5000 + b"]",
    ],
)
def test_what_is_not_json(body):
    assert wrong(body).startswith("the answer is not JSON: ")


@pytest.mark.parametrize("body", [b"{}", b"5", b"null", b'"a"'])
def test_what_is_no_list(body):
    assert wrong(body) == "the answer is not a list"


@pytest.mark.parametrize("filler", [b"[],", b"{},", b"0,", b'"",'])
def test_a_multitude_of_values_is_not_even_parsed(filler, monkeypatch):
    monkeypatch.setattr(module, "_MOST_VALUES", 100)
    assert wrong(b"[" + filler * 101) == "the answer is too large: it has more than 100 values"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"index": 5', b'"index": -1', "index: input should be greater than or equal to 0, got -1"),
        (b'"index": 5', b'"index": "5"', "index: expected a whole number, got '5'"),
        (b'"index": 5', b'"index": true', "index: expected a whole number, got true"),
        (b'"index": 5', b'"index": 5.0', "index: expected a whole number, got 5.0"),
        (b'"index": 5', b'"index": null', "index: expected a whole number, got nothing"),
        (b'"index": 5', b'"index": 2147483648', "index: input should be less than 2147483648, got 2147483648"),
        (b'"index": 5', b'"Index": 5', "index: required, but not there"),
        (b'"duration": 7', b'"duration": -7', "duration: input should be greater than or equal to 0, got -7"),
        (b'"duration": 7', b'"duration": 1e999', "duration: expected a whole number, got inf"),
        (b'"executorId": "8"', b'"executorId": 8', "executorId: expected a text, got 8; put it in quotes"),
        (b'"speculative": false', b'"speculative": 0', "speculative: expected true or false, got 0"),
        (b'"bytesRead": 1', b'"bytesRead": -1', "taskMetrics.inputMetrics.bytesRead: input should be greater"),
        (b'"localBytesRead": 4', b'"l": 4', "taskMetrics.shuffleReadMetrics.localBytesRead: required, but not there"),
        (b'{"bytesRead": 1, "recordsRead": 2}', b"[]", "taskMetrics.inputMetrics: expected a mapping, got a list"),
        (b"2026-11-22T20:00:01.000GMT", b"yesterday", "launchTime: expected a time such as 2026-11-22T20:00:00.123GMT"),
        (b"2026-11-22T20:00:01.000GMT", b"2026-13-22T20:00:01.000GMT", "launchTime: month must be in 1..12"),
        (b"2026-11-22T20:00:01.000GMT", b"0001-01-01T00:00:00.000GMT", "launchTime: input should be greater than"),
        (b'"2026-11-22T20:00:01.000GMT"', b"1795377600000", "launchTime: expected a time such as"),
    ],
)
def test_a_field_that_is_wrong_is_named(old, new, told):
    assert TASK.count(old) == 1
    assert wrong(b"[%s, %s]" % (TASK, TASK.replace(old, new))).startswith(f"entry 1 of the answer: {told}")


@pytest.mark.parametrize("item", [b"5", b"null", b"[]", b'"task"'])
def test_an_entry_that_is_no_task(item):
    assert wrong(b"[%s]" % item).startswith("entry 0 of the answer: expected a mapping, got ")


def test_a_number_of_thousands_of_digits_is_too_large_for_every_field():
    assert "input should be less than" in wrong(b"[%s]" % TASK.replace(b'"duration": 7', b'"duration": ' + b"9" * 4000))


def test_what_comes_after_the_last_entry_that_is_taken_is_not_read():
    assert len(entries(b"[%s, %s, 5]" % (TASK, TASK), WireTask, 2)) == 2


def outcome(read, body: bytes) -> object:
    try:
        return read(body, WireTask, 2)
    except Unusable as error:
        return str(error)


@given(
    st.lists(st.sampled_from([TASK, TASK.replace(b"SUCCESS", b"RUNNING"), b"5", b'{"index": 5}']), max_size=3),
    st.integers(0, len(TASK)),
    st.sampled_from([b"", b"-", b"[", b'"', b",", b"0", b"null", b"\xff"]),
)
def test_an_answer_is_read_at_once_as_it_is_one_by_one(items, place, put):
    body = b"[%s]" % b", ".join(items)
    body = body[:place] + put + body[place:]
    assert outcome(entries, body) == outcome(module._one_by_one, body)


def test_a_name_of_any_length_is_cut_and_made_plain():
    body = b'[{"stageId": 1, "attemptId": 0, "numTasks": 1, "numActiveTasks": 0, "numCompleteTasks": 0,'
    body += b' "numFailedTasks": 0, "name": "\\u001b[31mx\\n%s"}]' % (b"y" * 1_000_000)
    assert entries(body, WireStage, 1)[0].name == "x " + "y" * 194 + " ..."
    assert entries(b"[%s]" % TASK.replace(b'"8"', b'"%s"' % (b"8" * 999)), WireTask, 1)[0].executor_id[60:] == " ..."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("größer \u2713", "größer \u2713"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ("\x1b]0;title\x07\x1b[2J\x9bb\u202eack", "b ack"),
        ("a\ud800b\u2028c", "a b c"),
        ("é" * 20, "é" * 13 + " ..."),
        ("e" * 31, "e" * 26 + " ..."),
    ],
)
def test_a_text_becomes_a_line(text, line):
    assert one_line(text, 30) == line


@pytest.mark.parametrize(("seconds", "clock"), [(0.1, 4.0), (3.9, 4.0), (4.1, 0.0), (60.0, 0.0)])
def test_a_clock_is_off_only_by_more_than_the_answer_may_have_been_under_way(seconds, clock):
    middle = 1795377600.5 - 4.0
    told = ahead("Sun, 22 Nov 2026 20:00:00 GMT", middle - seconds / 2, middle + seconds / 2)
    assert told == pytest.approx(clock)


@pytest.mark.parametrize("at", [0.0, 5.0])
@pytest.mark.parametrize("fraction", [0.0, 0.999])
def test_a_date_of_the_question_or_of_the_answer_is_of_the_same_clock(at, fraction):
    told = 1795377600.0 + fraction
    assert ahead("Sun, 22 Nov 2026 20:00:00 GMT", told - at, told - at + 5.0) == 0.0
