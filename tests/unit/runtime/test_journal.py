"""The journal: ordered, whole, one writer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.journal import Journal, JournalFollower, note, read_run
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.storage import BucketError
from rekindle.runtime.store import Store

LAYOUT = RunLayout(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path).prepare()


def journal(store: Store, writer: str = "one") -> Journal:
    return Journal(store, LAYOUT, writer)


def names(records):
    return [record["note"] for record in records]


def test_replay_gives_what_was_appended_in_order(store):
    first = journal(store)
    first.append([note(1.0, "A"), note(2.0, "B", stage="s")])
    first.append([note(3.0, "C")])
    records = journal(store, "two").replay()
    assert names(records) == ["A", "B", "C"]
    assert records[1] == {"t": 2.0, "kind": "note", "note": "B", "stage": "s"}


def test_append_continues_behind_what_was_replayed(store):
    journal(store).append([note(1.0, "A")])
    second = journal(store, "two")
    second.replay()
    second.append([note(2.0, "B")])
    assert names(read_run(store)) == ["A", "B"]


def test_a_second_writer_loses_at_its_first_append(store):
    zombie = journal(store)
    zombie.append([note(1.0, "A")])
    successor = journal(store, "two")
    successor.replay()
    successor.append([note(2.0, "B")])
    with pytest.raises(Fenced, match="another driver has taken over"):
        zombie.append([note(3.0, "late")])
    assert names(read_run(store)) == ["A", "B"]


@pytest.mark.parametrize("keep", [0, 1, 30, -2, -15])
def test_a_cut_segment_is_refused_by_name_and_left_as_it_is(store, keep):
    writer = journal(store)
    writer.append([note(1.0, "A"), note(1.5, "B")])
    writer.append([note(2.0, "C")])
    path = store.folder / LAYOUT.segment(2)
    path.write_bytes(path.read_bytes()[:keep])
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match=r"(?s)journal is damaged at .*00000002.*--fresh"):
        read_run(store)
    assert path.read_bytes() == before


def test_a_segment_of_another_history_is_found_by_the_one_after_it(store, tmp_path):
    writer = journal(store)
    writer.append([note(1.0, "A")])
    writer.append([note(2.0, "B")])
    other = Store.at(tmp_path / "other").prepare()
    journal(other).append([note(1.0, "X")])
    (store.folder / LAYOUT.segment(1)).write_bytes(other.get(LAYOUT.segment(1)) or b"")
    with pytest.raises(StoreRefused, match="00000002"):
        read_run(store)


@pytest.mark.requirement("S7-14")
def test_a_bit_flipped_anywhere_in_the_newest_segment_is_refused_by_name(store):
    """Nothing comes after it that could tell."""
    writer = journal(store)
    writer.append([note(1.0, "A")])
    writer.append([note(2.0, "B", stage="s", partition=3)])
    path = store.folder / LAYOUT.segment(2)
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(StoreRefused, match=r"00000002.jsonl"):
            read_run(store)
    path.write_bytes(content)
    assert names(read_run(store)) == ["A", "B"]


def test_a_segment_cut_at_any_length_is_refused(store):
    journal(store).append([note(1.0, "A")])
    path = store.folder / LAYOUT.segment(1)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(StoreRefused, match=r"00000001.jsonl"):
            read_run(store)


def test_two_segments_that_are_exchanged_are_refused(store):
    writer = journal(store)
    for t in range(3):
        writer.append([note(float(t), "A")])
    first, second = (store.folder / LAYOUT.segment(number) for number in (2, 3))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(StoreRefused, match="00000002"):
        read_run(store)


def test_a_missing_segment_is_refused(store):
    writer = journal(store)
    for t in range(3):
        writer.append([note(float(t), "A")])
    (store.folder / LAYOUT.segment(2)).unlink()
    with pytest.raises(StoreRefused, match=r"00000002.*missing"):
        read_run(store)


@pytest.mark.parametrize("name", ["._00000001.jsonl", "notes.jsonl", ".jsonl", "00000001 (copy).jsonl", "1.jsonl", "²"])
def test_what_others_leave_in_a_journal_is_not_read(store, name):
    writer = journal(store)
    writer.append([note(1.0, "A")])
    store.put_if_absent(f"{LAYOUT.journal}/{name}", b"not ours")
    writer.append([note(2.0, "B")])
    assert names(read_run(store)) == ["A", "B"]


@pytest.mark.parametrize("name", ["²", "٠٠٠٢", "2", "00002", "0002 (copy)", ".DS_Store"])
def test_what_others_leave_beside_the_runs_is_no_run(store, name):
    journal(store).append([note(1.0, "A")])
    store.put_if_absent(f"runs/{name}/file", b"not ours")
    assert names(read_run(store)) == ["A"]


def test_a_newer_format_asks_for_the_version_that_wrote_it(store):
    journal(store).append([note(1.0, "A")])
    path = store.folder / LAYOUT.segment(1)
    header, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(header), "format": 99}), *rest]) + "\n")
    with pytest.raises(StoreRefused, match=r"(?s)format 99.*the version of rekindle that wrote"):
        read_run(store)


def test_a_follower_sees_new_records_once_and_moves_to_a_new_run(store):
    follower = JournalFollower(store)
    assert follower.poll() == []
    writer = journal(store)
    writer.append([note(1.0, "A")])
    assert names(follower.poll()) == ["A"]
    assert follower.poll() == []
    writer.append([note(2.0, "B")])
    Journal(store, RunLayout(2), "two").append([note(3.0, "C")])
    assert names(follower.poll()) == ["B"]
    assert names(follower.poll()) == ["C"]
    assert follower.run == 2


class Flaky(PosixStorage):
    """Does not answer while `silent`."""

    silent = ""

    def get(self, name: str) -> bytes:
        if self.silent and name.endswith(self.silent):
            raise BucketError("no answer")
        return super().get(name)


def test_a_follower_keeps_what_it_read_before_the_store_fell_silent(store):
    storage = Flaky(store.location)
    follower, writer = JournalFollower(Store(storage)), journal(store)
    writer.append([note(1.0, "A")])
    writer.append([note(2.0, "B")])
    storage.silent = LAYOUT.segment(2)
    assert names(follower.poll()) == ["A"]
    storage.silent = ""
    assert names(follower.poll()) == ["B"]
