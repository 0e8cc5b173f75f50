"""Durations, sizes and ratios as users write them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.api.quantities import format_duration, parse_cores, parse_duration, parse_ratio, parse_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (60, 60.0),
        (0.5, 0.5),
        ("60", 60.0),
        ("60s", 60.0),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("1min", 60.0),
        ("1m", 60.0),
        ("1.5h", 5400.0),
        ("2 d", 172800.0),
        ("1MIN", 60.0),
    ],
)
def test_durations_are_spark_s(written, seconds):
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "4 parsecs", "-1s", "1s 5ms", True, None, [], "inf"])
def test_what_is_no_duration_is_refused_with_an_example(written):
    with pytest.raises(ValueError, match=r"is not a duration; write .* 60s, 1min, 500ms"):
        parse_duration(written)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_is_read_back_as_it_was_written(microseconds):
    seconds = microseconds / 1_000_000
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [(1024, 1024), ("1024", 1024), ("512m", 512 << 20), ("2g", 2 << 30), ("2GiB", 2 << 30), ("1.5k", 1536)],
)
def test_sizes_are_powers_of_1024(written, size):
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["lots", "2x", "-1g", True, None, 1.5])
def test_what_is_no_size_is_refused_with_an_example(written):
    with pytest.raises(ValueError, match=r"is not a size; write .* 512m, 2g"):
        parse_size(written)


@pytest.mark.parametrize(
    ("written", "cores"),
    [("0", 0.0), ("2", 2.0), ("1.5", 1.5), ("57m", 0.057), ("250u", 0.00025), ("123456789n", 0.123456789), ("1k", 1e3)],
)
def test_cores_are_kubernetes_s(written, cores):
    assert parse_cores(written) == pytest.approx(cores, rel=1e-12)


@pytest.mark.parametrize("written", ["", "m", "-1m", "1e3", "1 m", "1Ki", "9" * 19, "٣", 2, None, []])
def test_what_is_no_amount_of_cpu_is_refused(written):
    with pytest.raises(ValueError, match="is no amount of CPU; write such as 57m or 2"):
        parse_cores(written)


@pytest.mark.requirement("S1-22")
def test_a_ratio_is_exact():
    assert parse_ratio(0.55) == Decimal("0.55")
    assert parse_ratio("0.7") * 10 == 7


@pytest.mark.parametrize("written", ["most", True, None, float("nan"), float("inf")])
def test_what_is_no_ratio_is_refused(written):
    with pytest.raises(ValueError, match=r"is not a number; write such as 0\.75"):
        parse_ratio(written)
