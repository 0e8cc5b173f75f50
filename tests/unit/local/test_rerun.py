"""`rekindle rerun` on a store whose history is written by hand."""

from pathlib import Path

import pytest

from rekindle.cli import main
from rekindle.core.events import RerunRequested, to_record
from rekindle.local.inspect import StoredRun
from rekindle.runtime.facts import fold
from rekindle.runtime.journal import Journal, note
from rekindle.runtime.layout import IDENTITY, RunLayout
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store

STAGES = [
    {"name": "legs", "partitions": 8, "exchange": "blocking", "inputs": [], "sink": None},
    {"name": "fused", "partitions": 8, "exchange": "pipelined", "inputs": ["legs"], "sink": None},
    {"name": "other", "partitions": 2, "exchange": "blocking", "inputs": [], "sink": None},
    {"name": "delays", "partitions": 4, "exchange": "blocking", "inputs": ["fused", "other"], "sink": "/out"},
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.at(tmp_path).prepare()
    store.put_if_absent(IDENTITY, b"{}")
    started = note(100.0, "RunStarted", application="flights", run=1, fingerprints={}, stages=STAGES)
    journal(store).append([started, note(101.0, "RunInterrupted", error={})])
    return store


def journal(store: Store) -> Journal:
    opened = Journal(store, RunLayout(1), "driver")
    opened.replay()
    return opened


def test_the_wish_is_in_the_journal_for_the_next_driver(store, capsys):
    assert main(["rerun", store.location, "legs"]) == 0
    said = capsys.readouterr().out
    assert said == "the next run makes stage legs (8 partitions) again, and what is made from it: fused, delays\n"
    assert list(fold(StoredRun.find(store).records).reruns) == ["legs"]
    assert main(["inspect", store.location]) == 0
    assert "stage legs is to be made again, asked for by " in capsys.readouterr().out


def test_the_last_stage_takes_nothing_along(store, capsys):
    assert main(["rerun", store.location, "delays"]) == 0
    assert capsys.readouterr().out == "the next run makes stage delays (4 partitions) again\n"


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("leg", "run 1 has no stage leg\n-> it has legs, other, delays"),
        ("fused", "stage fused stores nothing: its exchange is pipelined\n-> name a stage that reads it"),
    ],
)
def test_a_stage_that_stores_nothing_is_refused(store, capsys, stage, message):
    assert main(["rerun", store.location, stage]) == 4
    assert message in capsys.readouterr().err


def test_a_finished_run_has_nothing_to_make_again(store, capsys):
    journal(store).append([note(104.0, "RunFinished", stored_bytes=0)])
    assert main(["rerun", store.location, "legs"]) == 4
    assert "run 1 is finished, and its results are gone" in capsys.readouterr().err


def test_a_run_that_goes_on_is_not_disturbed(store, capsys, monkeypatch):
    monkeypatch.setattr("rekindle.local.rerun._LEASE_SECONDS", 0.8)
    running = Lease(store, "running", 0.4)
    running.acquire()
    try:
        assert main(["rerun", store.location, "legs"]) == 4
    finally:
        running.release()
    assert "in use by running" in capsys.readouterr().err
    assert fold(StoredRun.find(store).records).reruns == {}


def test_a_wish_that_a_driver_has_carried_out_is_done(store):
    main(["rerun", store.location, "legs"])
    carried_out = {"t": 110.0, "kind": "event", "event": to_record(RerunRequested("legs", "asked for"))}
    journal(store).append([carried_out])
    assert fold(StoredRun.find(store).records).reruns == {}
