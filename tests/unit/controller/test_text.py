"""Limits of the API are counted in bytes, and no character is cut in two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.text import end_of, plain, shortened


@given(text=st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40), most=st.integers(8, 60))
def test_a_text_fits_and_is_the_beginning_or_the_end_of_what_it_was(text, most):
    short, last = shortened(text, most), end_of(text, most)
    assert len(short.encode()) <= most
    assert len(last.encode()) <= most
    assert text.startswith(short.removesuffix(" ...") if short != text else text)
    assert text.endswith(last)
    assert (short == text) is (len(text.encode()) <= most)


@pytest.mark.parametrize(("text", "short"), [("é" * 10, "ééé ..."), ("short", "short")])
def test_what_is_cut_off_is_marked(text, short):
    assert shortened(text, 10) == short


def test_what_a_terminal_would_obey_is_left_out():
    hostile = "\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J\x00 bell\x07 \x9bback\x08\r\n\ttab \u2713"
    assert plain(hostile) == shortened(hostile, 100) == "red bell back\n\ttab \u2713"


def test_an_escape_that_never_ends_leaves_out_what_is_in_it():
    assert plain("a\x1b]0;" + "x" * 1_000_000) == "a"
