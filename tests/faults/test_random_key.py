"""The reason why consumers restart: a key that is drawn anew sends rows elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.runtime.journal import read_run
from rekindle.runtime.store import Store
from tests.faults.harness import Application

ROWS = 1_500_000


@pytest.mark.requirement("S7-5", "S7-6", "S7-17")
@pytest.mark.parametrize("fault", ["kill-executor:node=1", "kill-driver"])
def test_every_row_arrives_once_when_a_random_shuffle_is_lost_half_way(tmp_path: Path, fault: str):
    application = Application(tmp_path, "random_key.py", "9", "0", "random")
    outcome = application.run(f"{fault}@stage=scattered,fraction=0.3")
    assert outcome.code == 0, outcome.err
    assert _arrived(application) == (ROWS, ROWS)
    assert outcome.restarted().get("scattered.map") == 1
    assert outcome.restarted()["scattered"] == 9


@pytest.mark.requirement("S7-7", "S7-8")
def test_a_shuffle_that_is_made_again_with_the_same_rows_spares_what_was_stored(tmp_path: Path):
    """Nothing is promised: the digest of the map outputs proves it."""
    application = Application(tmp_path, "random_key.py", "9", "0", "same")
    outcome = application.run("kill-executor:node=1@stage=scattered,fraction=0.3")
    assert outcome.code == 0, outcome.err
    assert _arrived(application) == (ROWS, ROWS)
    assert outcome.restarted().get("scattered.map") == 1
    assert outcome.stage("scattered")["rerun"] < 9
    assert [record for record in read_run(Store.at(application.store)) if record.get("action") == "Spare"]


@pytest.mark.soak  # minutes, most of them waiting for copies; test_chain has a hung executor without map outputs
@pytest.mark.requirement("S2-39", "S7-5", "S7-17")
def test_a_hung_executor_with_map_outputs_that_copies_wait_for_is_killed(tmp_path: Path):
    application = Application(tmp_path, "random_key.py", "12", "0.8", "random")
    outcome = application.run("hang-executor:node=1@stage=scattered,fraction=0.75")
    assert outcome.code == 0, outcome.err
    assert _arrived(application) == (ROWS, ROWS)
    (given_up,) = outcome.report["executorsGivenUp"]
    assert (given_up["node"], given_up["how"]) == ("127.0.0.2", "killed")
    assert outcome.restarted()["scattered.map"] == 1


def _arrived(application: Application) -> tuple[int, int]:
    """How many numbers arrived, and how many different ones."""
    (counts,) = application.published("select count(*), count(distinct id) from {sink}")
    return counts[0], counts[1]
