"""The reason why consumers restart: a key that is drawn anew sends rows elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness import Application

ROWS = 3_000_000


@pytest.mark.requirement("S7-5", "S7-6", "S7-17")
@pytest.mark.parametrize("fault", ["kill-executor:node=1", "kill-driver"])
def test_every_row_arrives_once_when_a_random_shuffle_is_lost_half_way(tmp_path: Path, fault: str):
    application = Application(tmp_path, "random_key.py")
    outcome = application.run(f"{fault}@stage=scattered,fraction=0.3")
    assert outcome.code == 0, outcome.err
    (counts,) = application.published("select count(*), count(distinct id) from {sink}")
    assert counts == (ROWS, ROWS)
    assert outcome.restarted().get("scattered.map") == 1
    assert outcome.restarted()["scattered"] == 9
