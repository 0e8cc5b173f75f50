"""What is kept of a stage, and what it says of when more of its tasks have finished."""

from __future__ import annotations

import pytest

from rekindle.controller.speculation.known_stage import KnownStage
from rekindle.controller.speculation.spark_rest import Task


@pytest.mark.parametrize(
    ("count", "ages", "expected"),
    [
        (1, [3.0, 8.0, 1.0], 2.0),  # the oldest is first
        (3, [3.0, 8.0, 1.0], 9.0),
        (4, [3.0, 8.0, 1.0], 12.0),  # and what follows it has taken 10 s when it ends
        (9, [3.0, 8.0, 1.0], 29.0),
        (2, [25.0, 4.0], 6.0),  # one that should have ended may end now
        (1, [], 10.0),
        (0, [3.0], 0.0),
        (-5, [3.0], 0.0),
    ],
)
def test_so_many_have_finished_at_the_soonest(count, ages, expected):
    finished = [
        Task(place, 0, 0.0, took, "1", False, False, None, None, True) for place, took in enumerate((10.0, 30.0))
    ]
    assert KnownStage(finished=finished).until_finished(count, ages) == expected
