"""The store before a run: whether its last driver is proven gone, and forgetting it on request."""

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.layout import IDENTITY, LEASE
from rekindle.runtime.lease import Lease
from rekindle.runtime.open_run import begin_anew
from rekindle.runtime.store import Store


def last_driver_is_gone(store: Store) -> bool:
    """Whether the store's last holder ran on this machine and its process is no more.

    Then a new driver need not wait for the lease to run out. If this were ever wrong, the journal would still
    stop the second writer.
    """
    try:
        lease = json.loads(store.get(LEASE) or b"")
        return lease["host"] == socket.gethostname() and not psutil.pid_exists(int(lease["pid"]))
    except (StoreRefused, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False


def refuse_in_use(store: Store, lease_seconds: float, say: Callable[[str], None]) -> None:
    """Raises StoreRefused while another run uses the store: before a cluster is started for nothing."""
    if store.exists(LEASE) and not last_driver_is_gone(store):
        Lease(store, "", lease_seconds).watch(_waits(lease_seconds, say))


def forget(store: Store, lease_seconds: float, say: Callable[[str], None]) -> None:
    """Remove all runs of a store; a place that is no store is left alone.

    Raises StoreRefused while another run uses it.
    """
    if not store.exists(IDENTITY):
        return
    store.prepare()
    with held(store, "fresh", lease_seconds, say):
        begin_anew(store)


@contextmanager
def held(store: Store, purpose: str, lease_seconds: float, say: Callable[[str], None]) -> Iterator[str]:
    """Hold a store's lease for the length of the block, which gets the name of its holder.

    Raises StoreRefused while another run uses it.
    """
    holder = f"{purpose}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    lease = Lease(store, holder, lease_seconds)
    lease.acquire(takeover=last_driver_is_gone(store), waiting=_waits(lease_seconds, say))
    try:
        yield holder
    finally:
        lease.release()


def _waits(lease_seconds: float, say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda holder: say(f"waiting up to {lease_seconds:g} s for the lease of {holder} to run out")
