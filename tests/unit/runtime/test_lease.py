"""The lease: one writer at a time, judged without clocks."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.layout import LEASE
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path).prepare()


def test_a_second_driver_is_refused_while_the_first_renews(store):
    first = Lease(store, "first", 0.4)
    first.acquire()
    try:
        waited: list[str] = []
        with pytest.raises(StoreRefused, match=r"(?s)in use by first.*another store"):
            Lease(store, "second", 0.4).acquire(waiting=waited.append)
        assert waited == ["first"]
        first.check()
    finally:
        first.release()


def test_a_silent_holder_is_succeeded_and_learns_of_it(store):
    silent = Lease(store, "silent", 0.4)
    store.replace(LEASE, json.dumps({"holder": "silent", "counter": 7, "released": False}).encode())
    second = Lease(store, "second", 0.4)
    second.acquire()
    try:
        assert json.loads(store.get(LEASE) or b"")["holder"] == "second"
        silent.lost = "second"
        with pytest.raises(Fenced, match="second"):
            silent.check()
    finally:
        second.release()


def test_a_driver_that_wakes_after_its_successor_took_over_notices(store):
    first = Lease(store, "first", 0.4)
    first.acquire()
    second = Lease(store, "second", 0.4)
    second.acquire(takeover=True)
    try:
        assert first._thread is not None
        first._thread.join(timeout=10)
        assert first.lost == "second"
    finally:
        first.release()
        second.release()
    assert json.loads(store.get(LEASE) or b"")["holder"] == "second"


def test_a_driver_goes_on_when_one_that_took_its_lease_has_let_it_go(store):
    """Two take over at once; the journal took what the first wrote, and so ended the second."""
    first, second = Lease(store, "first", 0.4), Lease(store, "second", 60.0)
    second.acquire(takeover=True)
    second.release()
    taken_over = store.get(LEASE) or b""
    first.acquire()
    try:
        store.replace(LEASE, taken_over)
        while json.loads(store.get(LEASE) or b"")["holder"] != "first":
            assert first._thread is not None
            first._thread.join(timeout=0.05)
            assert first._thread.is_alive()
        first.check()
    finally:
        first.release()


def test_a_released_lease_is_taken_at_once(store):
    first = Lease(store, "first", 60.0)
    first.acquire()
    first.release()
    second = Lease(store, "second", 60.0)
    waited: list[str] = []
    second.acquire(waiting=waited.append)
    second.release()
    assert waited == []


def test_to_let_go_does_not_take_the_lease_from_a_successor(store):
    first, second = Lease(store, "first", 60.0), Lease(store, "second", 60.0)
    first.acquire()
    second.acquire(takeover=True)
    first.release()  # before its next renewal, at which it would have learned of it
    held = json.loads(store.get(LEASE) or b"")
    assert (held["holder"], held["released"]) == ("second", False)
    second.release()


def test_a_store_that_does_not_take_the_end_of_a_lease_ends_no_run(store, monkeypatch):
    lease = Lease(store, "first", 60.0)
    lease.acquire()

    def refuse(*_: object) -> None:
        raise StoreRefused("the store is silent", remedy="wait")

    monkeypatch.setattr(Store, "replace", refuse)
    lease.release()
    assert not json.loads(store.get(LEASE) or b"")["released"]


def test_a_driver_that_sleeps_in_the_midst_of_a_renewal_does_not_undo_its_successors_lease(store, monkeypatch):
    """It would fence the successor, and be fenced itself by the journal: nobody would go on."""
    first = Lease(store, "first", 0.4)
    look, wake, asleep = first._read, threading.Event(), threading.Event()

    def sleeps_after_looking(of):
        found = look(of)
        asleep.set()
        wake.wait(10)
        return found

    monkeypatch.setattr(first, "_read", sleeps_after_looking)
    first.acquire(takeover=True)
    assert asleep.wait(10)
    second = Lease(store, "second", 0.4)
    second.acquire()
    try:
        wake.set()
        assert first._thread is not None
        first._thread.join(timeout=10)
        assert first.lost == "second"
        second.check()
    finally:
        first.release()
        second.release()
    assert json.loads(store.get(LEASE) or b"")["holder"] == "second"


@pytest.mark.parametrize("content", [b"", b"{half", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_lease_does_not_lock_the_store(store, content):
    store.replace(LEASE, content)
    lease = Lease(store, "first", 0.4)
    lease.acquire()
    lease.release()


def test_a_driver_whose_store_is_away_learns_that_another_may_have_its_lease(store, monkeypatch):
    lease = Lease(store, "cut off", 0.4)
    lease.acquire()
    try:
        lease.check_renewed()

        def away(*_: object) -> bytes:
            raise StoreRefused("it is away")

        with monkeypatch.context() as cut_off:
            cut_off.setattr(Store, "get", away)
            time.sleep(0.6)
            with pytest.raises(StoreRefused, match=r"could not be renewed for 0\.4 s"):
                lease.check_renewed()
        lease.check()
    finally:
        lease.release()
