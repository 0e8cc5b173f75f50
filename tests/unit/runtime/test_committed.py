"""Manifests as they appear: read once, and known to be unread until then."""

from typing import Any

import pytest

from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.layout import RunLayout, parse_attempt_name
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


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("volumes", [1, 2])
def test_what_an_edit_has_discarded_goes_and_what_was_made_since_stays(tmp_path, volumes):
    store, layout = Store.at(tmp_path).prepare(), RunLayout(1, volumes)
    for partition, version in ((0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (2, 2)):
        folder = f"{layout.data('s', partition)}/.attempt-p{partition:05d}-v{version:04d}-x"
        store.put_if_absent(f"{folder}/part.parquet", b"rows")
    committed = CommittedPartitions(store, layout)
    left = [(0, 2), (0, 3), (1, 2)]
    for versions, expected in (({0: 2, 1: 2}, left), ({0: 2, 1: 2}, left), ({}, [])):
        committed.remove_older("s", versions)
        folders = [name for folder in layout.data_folders("s") for name in store.names(folder)]
        assert sorted(filter(None, map(parse_attempt_name, folders))) == expected
