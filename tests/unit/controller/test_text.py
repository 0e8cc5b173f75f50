"""Limits of the API are counted in bytes, and no character is cut in two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.text import end_of, shortened


@given(text=st.text(max_size=40), most=st.integers(8, 60))
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
