"""What is made of what is seen."""

from __future__ import annotations

import dataclasses

import pytest

from rekindle.runtime.manifest import Manifest
from rekindle.runtime.observer import finished_at


@pytest.mark.requirement("S1-18")
@pytest.mark.parametrize(
    ("said", "started", "finished"),
    [
        (115.0, 100.0, 115.0),
        (115.0 - 300.0, 100.0, 110.0),  # the executor's clock is slow: it took its own ten seconds at least
        (115.0 + 300.0, 100.0, 120.0),  # fast: it has finished by now
        (115.0, None, 115.0),
        (115.0 + 300.0, None, 120.0),
    ],
)
def test_a_task_takes_the_time_that_it_took_whatever_its_executors_clock_says(said, started, finished):
    manifest = dataclasses.replace(Manifest.of_nothing("a", 0), seconds=10.0, finished_at=said)
    assert finished_at(manifest, started, now=120.0) == finished
