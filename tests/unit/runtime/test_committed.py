"""Manifests as they appear: read once, and known to be unread until then."""

from typing import Any

import pytest

from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed


def manifest(partition: int, **more: Any) -> bytes:
    fields = {"stage": "s", "partition": partition, "version": 1, "task": 1, "writer": "w", "rows": 0, "bytes": 0}
    return sealed({"format": 1, **fields, "digest": None, "files": [], "seconds": 0, "finishedAt": 0, **more}).encode()


def test_there_is_news_from_a_commit_until_it_is_read(tmp_path):
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    committed = CommittedPartitions(store, layout)
    assert not committed.has_unread("s")
    store.put_if_absent(layout.manifest("s", 0, 1), manifest(0))
    assert committed.has_unread("s")
    assert not committed.has_unread("other")
    assert [one.partition for one in committed.scan("s")] == [0]
    assert not committed.has_unread("s")
    store.put_if_absent(layout.manifest("s", 1, 1), manifest(1))
    assert committed.has_unread("s")


def test_a_damaged_manifest_is_news_once(tmp_path):
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    committed = CommittedPartitions(store, layout)
    store.put_if_absent(layout.manifest("s", 0, 1), manifest(0)[:20])
    assert committed.has_unread("s")
    assert committed.scan("s") == []
    assert not committed.has_unread("s")
    assert list(committed.damaged) == [("s", 0, 1)]


def test_a_manifest_under_the_name_of_another_is_damaged(tmp_path):
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    for stage, partition, version in (("s", 1, 1), ("s", 0, 2), ("t", 0, 1)):
        store.put_if_absent(layout.manifest(stage, partition, version), manifest(0))
    committed = CommittedPartitions(store, layout)
    assert committed.scan("s") == committed.scan("t") == []
    assert set(committed.damaged.values()) == {"it says s/0 version 1"}


@pytest.mark.requirement("S5-13", "S7-17")
def test_losers_are_removed_and_what_a_successor_has_made_meanwhile_is_not(tmp_path):
    """The driver slept between the journal's yes and the removal."""
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    folders = {name: f"{layout.data('s', 0)}/.attempt-{name}" for name in ("p00000-v0001-won", "p00000-v0001-lost")}
    folders |= {name: f"{layout.data('s', 0)}/.attempt-{name}" for name in ("p00000-v0002-newer", "p00001-v0001-lost")}
    for folder in folders.values():
        store.put_if_absent(f"{folder}/part.parquet", b"rows")
    files = [{"path": f"{folders['p00000-v0001-won']}/part.parquet", "bytes": 4, "footer": None, "content": None}]
    store.put_if_absent(layout.manifest("s", 0, 1), manifest(0, files=files))
    store.put_if_absent(layout.manifest("s", 1, 1), manifest(1))
    committed = CommittedPartitions(store, layout)
    committed.scan("s")
    committed.remove_losers("s", {0: 1, 1: 1})
    assert store.names(layout.data("s", 0)) == [".attempt-p00000-v0001-won", ".attempt-p00000-v0002-newer"]


def test_what_was_released_takes_no_space(tmp_path):
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    committed = CommittedPartitions(store, layout)
    store.put_if_absent(layout.manifest("s", 0, 1), manifest(0, bytes=7))
    committed.scan("s")
    assert committed.stored_bytes() == 7
    committed.release("s")
    assert committed.stored_bytes() == 0
    store.put_if_absent(layout.manifest("s", 0, 2), manifest(0, version=2, bytes=5))
    committed.scan("s")
    assert committed.stored_bytes() >= 5


def test_what_was_replaced_takes_no_space(tmp_path):
    """Else a run that recovered would be refused by its storeLimit, and each one that goes on with it."""
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1)
    for partition, version, size in ((0, 1, 100), (0, 2, 30), (1, 1, 5)):
        made = manifest(partition, version=version, bytes=size)
        store.put_if_absent(layout.manifest("s", partition, version), made)
    committed = CommittedPartitions(store, layout)
    committed.scan("s")
    assert committed.stored_bytes() == 35
