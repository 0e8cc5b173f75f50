"""put_if_absent: whole or not at all, first wins."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from rekindle.runtime.errors import StoreFull, StoreRefused
from rekindle.runtime.store import PosixStore


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return PosixStore(tmp_path / "store")


def test_the_first_writer_of_a_name_wins(store):
    assert store.put_if_absent("a/b.json", b"first")
    assert not store.put_if_absent("a/b.json", b"second")
    assert store.get("a/b.json") == b"first"


@pytest.mark.requirement("S2-46")
def test_of_many_at_the_same_moment_exactly_one_wins(store):
    barrier, wins = threading.Barrier(8), []

    def contend(number: int) -> None:
        barrier.wait(timeout=10)
        if store.put_if_absent("name", str(number).encode()):
            wins.append(number)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(wins) == 1
    assert store.get("name") == str(wins[0]).encode()


def test_names_lists_one_level_sorted_and_nothing_for_what_is_not_there(store):
    store.put_if_absent("m/2", b"")
    store.put_if_absent("m/1", b"")
    assert store.names("m") == ["1", "2"]
    assert store.names("nowhere") == []
    assert store.get("nowhere") is None


def test_a_failed_write_leaves_neither_the_name_nor_a_leftover(store, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull, match=r"(?s)no space left in the store .*free space there"):
        store.put_if_absent("name", b"data")
    monkeypatch.undo()
    assert store.get("name") is None
    assert os.listdir(store.root / ".aside") == []


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreRefused, match=r"(?s)cannot write to the store: .*file.*recovery\.store must be a folder"):
        PosixStore(tmp_path / "file" / "store")


def test_delete_takes_a_name_or_everything_below_it(store):
    store.put_if_absent("data/a/1", b"")
    store.put_if_absent("data/b", b"")
    store.delete("data/a")
    store.delete("data/b")
    store.delete("data/never")
    assert store.names("data") == []
