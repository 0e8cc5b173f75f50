"""Which faults meet, and what is done to files."""

from __future__ import annotations

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from rekindle.local.stored import lose_volume
from rekindle.runtime.store import Store
from tests.cluster.chaos.faults import _read_only, deck, pairs
from tests.cluster.chaos.subject import HostFolders


@given(st.integers())
def test_forty_faults_two_at_a_time_and_never_two_that_must_be_alone(seed):
    cards = deck(random.Random(seed))
    assert len(cards) == 40
    both = list(pairs(cards))
    assert sorted(one.name for some in both for one in some) == sorted(one.name for one in cards)
    assert all(sum(one.alone for one in some) <= 1 for some in both)
    assert sum(len(some) == 2 for some in both) >= 16  # seven are alone, and may be left at the end
    assert both == list(pairs(deck(random.Random(seed))))


def test_a_volume_of_results_is_emptied_where_it_is_and_nothing_else(tmp_path):
    """Pods see it within the journal's volume, where on this machine there is an empty folder."""
    journal, results = tmp_path / "pvc-1", tmp_path / "pvc-2"
    for folder in (journal / "runs", journal / "volume-0", results / "runs" / "0001"):
        folder.mkdir(parents=True)
    (journal / "runs" / "record").write_bytes(b"kept")
    (results / "runs" / "0001" / "part.parquet").write_bytes(b"rows")
    store = Store(HostFolders(journal, {"volume-0": results}))
    assert store.get("volume-0/runs/0001/part.parquet") == b"rows"
    assert lose_volume(store, 0)
    assert list(results.iterdir()) == []
    assert store.get("runs/record") == b"kept"
    assert not lose_volume(store, 0)


def test_a_volume_that_refuses_has_its_rights_back(tmp_path):
    (tmp_path / "data").mkdir(mode=0o775)
    before = [os.stat(path).st_mode for path in (tmp_path, tmp_path / "data")]
    with _read_only(tmp_path):
        assert not os.stat(tmp_path / "data").st_mode & 0o222
    assert [os.stat(path).st_mode for path in (tmp_path, tmp_path / "data")] == before
