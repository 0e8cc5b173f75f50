"""Which faults meet, and what is done to files."""

from __future__ import annotations

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.chaos.faults import _flip, _read_only, deck, pairs


@given(st.integers())
def test_forty_faults_two_at_a_time_and_never_two_that_must_be_alone(seed):
    cards = deck(random.Random(seed))
    assert len(cards) == 40
    both = list(pairs(cards))
    assert sorted(one.name for some in both for one in some) == sorted(one.name for one in cards)
    assert all(sum(one.alone for one in some) <= 1 for some in both)
    assert sum(len(some) == 2 for some in both) >= 16  # seven are alone, and may be left at the end
    assert both == list(pairs(deck(random.Random(seed))))


def test_a_corrupted_file_has_its_size_and_other_bytes(tmp_path):
    path = tmp_path / "part.parquet"
    path.write_bytes(bytes(range(256)))
    _flip(path)
    data = path.read_bytes()
    assert len(data) == 256
    assert data != bytes(range(256))
    assert data[:90] == bytes(range(90))


def test_a_volume_that_refuses_has_its_rights_back(tmp_path):
    (tmp_path / "data").mkdir(mode=0o775)
    before = [os.stat(path).st_mode for path in (tmp_path, tmp_path / "data")]
    with _read_only(tmp_path):
        assert not os.stat(tmp_path / "data").st_mode & 0o222
    assert [os.stat(path).st_mode for path in (tmp_path, tmp_path / "data")] == before
