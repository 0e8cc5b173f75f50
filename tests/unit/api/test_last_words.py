"""What a driver's container leaves when it ends, as it is written and as it is read."""

from __future__ import annotations

import pytest

from rekindle.api.connector_report import MOST_CONNECTORS, WireSink
from rekindle.api.last_words import LastWords, decode_last_words, encode_last_words

DONE = WireSink(name="totals", kind="FileSink", partitions=4, written=4, records=40, commit="Committed")
GONE = WireSink(name="other", partitions=2, commit="Failed", reason="by its options", commit_reason="the table is gone")


def test_sinks_and_words_come_back_as_they_were_but_for_the_reasons():
    text = encode_last_words("store-full: no space\n-> free some", [DONE, GONE])
    assert text.splitlines()[1:] == ["store-full: no space", "-> free some"]
    said = decode_last_words(text)
    assert said.said == "store-full: no space\n-> free some"
    assert said.sinks == (DONE, GONE.model_copy(update={"reason": "", "commit_reason": ""}))


def test_nothing_is_left_where_there_is_nothing_to_say():
    assert encode_last_words("", []) == ""
    assert decode_last_words("") == LastWords()


def test_all_of_it_fits_into_what_kubernetes_keeps():
    many = [WireSink(name=f"sink-{number:0200}", partitions=1) for number in range(MOST_CONNECTORS)]
    text = encode_last_words("x" * 9000, many)
    assert len(text.encode()) <= 4096
    said = decode_last_words(text)
    assert said.sinks == tuple(many[: len(said.sinks)])
    assert said.sinks
    assert set(said.said) == {"x"}


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: no such thing",
        '{"sinks":[',
        '{"sinks":[{"name":"a"}]}\nwhat follows',
        '{"sinks":[{"name":"../../etc","partitions":1}]}',
        '{"sinks":[{"name":"a","partitions":-1}]}',
        '{"sinks":[{"name":"a","partitions":1,"commit":"' + "C" * 200 + '"}]}',
    ],
)
def test_whatever_else_a_program_has_left_there_is_text(text):
    assert decode_last_words(text) == LastWords(text)
