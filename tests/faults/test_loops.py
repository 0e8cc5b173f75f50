"""A loop that loses drivers and an executor on its way."""

from __future__ import annotations

import pytest

from tests.faults.harness import Application

CITIES = 8


@pytest.mark.requirement("S9-4", "S6-1", "S10-2")
def test_the_next_driver_goes_on_behind_the_last_activation(tmp_path):
    """A call for each city, one for the columns in each of three drivers, and the two in which a driver died again."""
    application = Application(tmp_path, "loop.py", str(tmp_path))
    outcome = application.run(
        f"kill-driver@file={tmp_path}/driver",
        f"kill-driver@file={tmp_path}/driver-again",
        f"kill-executor:node=1@file={tmp_path}/executor",
    )
    assert outcome.code == 0, outcome.err
    assert outcome.report["drivers"] == 3
    assert (tmp_path / "calls").stat().st_size == CITIES + 3 + 2
    assert (tmp_path / "executor-asked").exists()
    assert outcome.report["executorsLost"] == 1
    (loop,) = outcome.report["loops"]
    assert loop["ended"]
    assert [scope["activations"] for scope in loop["scopes"]] == [CITIES + 1]
    found = application.published("select city, km from {sink} order by city")
    assert found == [(city, sum(range(10, 10 + city))) for city in range(CITIES)]
