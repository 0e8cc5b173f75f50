"""The order in which a round ends: first the journal, then whatever cannot be undone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rekindle.runtime.errors import Fenced
from rekindle.runtime.job_master import JobMaster


def job_master(append) -> JobMaster:
    """With what `_flush` uses and nothing else: a whole one needs a Spark session."""
    master = JobMaster.__new__(JobMaster)
    journal = SimpleNamespace(append=append)
    state = SimpleNamespace(
        actions=[], records=[{"a": "record"}], removals=[], open_run=SimpleNamespace(journal=journal)
    )
    master.state = state  # type: ignore[assignment]
    return master


@pytest.mark.requirement("S7-17", "S5-13")
def test_a_driver_whose_successor_has_begun_removes_nothing():
    def fenced(records):
        raise Fenced("another driver has taken this store", remedy="end this process")

    removed: list[str] = []
    master = job_master(fenced)
    master.state.removals.append(lambda: removed.append("losers"))
    with pytest.raises(Fenced):
        master._flush()
    assert removed == []


def test_what_is_to_be_removed_is_once_the_journal_says_why():
    seen: list[str] = []
    master = job_master(lambda records: seen.append("journal"))
    master.state.removals.append(lambda: seen.append("removed"))
    master._flush()
    master.state.records = [{"a": "record"}]
    master._flush()
    assert seen == ["journal", "removed", "journal"]
