"""Counters."""

import pytest

from rekindle.core.metrics import Counters


def test_a_name_that_is_no_counter_is_refused():
    with pytest.raises(TypeError, match="num_wonders"):
        Counters().add(num_wonders=1)
