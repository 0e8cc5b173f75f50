"""Who writes to a store now: a lease that its holder renews.

The lease spares users the surprise of two runs on one store; it is not what keeps the store right (that is
the journal: a second writer loses at its first append). It is judged without comparing clocks: a contender
watches whether the lease's counter moves for as long as a lease lasts.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable

from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.layout import LEASE
from rekindle.runtime.store import Store


class Lease:
    """Held by at most one driver. `seconds` is how long a silent holder is still believed alive."""

    def __init__(self, store: Store, holder: str, seconds: float) -> None:
        self._store, self._holder, self._seconds = store, holder, seconds
        self._hasty = store.hasty(seconds / 4)  # a renewal that comes late must not undo a successor's lease
        self._counter = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost: str | None = None
        self._renewed = time.monotonic()

    def acquire(self, *, takeover: bool = False, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Take the lease, then renew it in the background until `release`.

        Args:
            takeover: the caller has proven that the last holder is gone; do not wait for it.
            waiting: told once, with the holder's name, before waiting for a silent holder.

        Raises:
            StoreRefused: another driver renewed its lease while we watched.
        """
        if not takeover:
            self.watch(waiting)
        self._write(self._store, released=False)
        self._thread = threading.Thread(target=self._renew, name="rekindle-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises Fenced when another driver has taken the lease."""
        if self.lost:
            raise Fenced(
                f"another driver ({self.lost}) has taken this store",
                remedy="nothing is lost: that driver goes on; end this process",
            )

    def check_renewed(self) -> None:
        """As `check`; raises StoreRefused too when it could not be renewed for as long as it lasts, so that another
        driver may have it by now."""
        self.check()
        if time.monotonic() > self._renewed + self._seconds:
            raise StoreRefused(
                f"the lease of {self._store} could not be renewed for {self._seconds:g} s",
                remedy="recovery.store must be a place that the driver can read and write",
            )

    def release(self) -> None:
        """Stop renewing and let the next driver in at once.

        A store that does not take this changes nothing about the run: the next driver waits until the lease runs out.
        """
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=self._seconds)
        with contextlib.suppress(StoreRefused):
            current = self._read(self._hasty)
            if not self.lost and current and current.get("holder") == self._holder:
                self._write(self._hasty, released=True)

    def watch(self, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Return when nobody holds the lease any more; raises as `acquire` does. Changes nothing."""
        first = self._read(self._store)
        if not first or first.get("released"):
            return
        waiting(str(first.get("holder")))
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            time.sleep(min(0.2, self._seconds / 10))
            current = self._read(self._store) or {}
            if current.get("released"):
                return
            if current.get("counter") != first.get("counter") or current.get("holder") != first.get("holder"):
                raise StoreRefused(
                    f"the store is in use by {current.get('holder')} (it renewed its lease just now)",
                    remedy="wait for that run or stop it, or give this run another store (recovery.store)",
                )

    def _renew(self) -> None:
        """A lease that another has taken and let go is taken back: that one has ended, perhaps since the journal did
        not take what it wrote. If it was a successor that did its work, the journal stops this driver."""
        while not self._stop.wait(self._seconds / 4):
            asked = time.monotonic()
            try:
                current = self._read(self._hasty)
                if current and current.get("holder") != self._holder and not current.get("released"):
                    self.lost = str(current.get("holder"))
                    return
                asleep = time.monotonic() - asked > self._seconds / 2  # stopped meanwhile: it may have a successor now
                if not self._stop.is_set() and not asleep:
                    self._write(self._hasty, released=False)
            except StoreRefused:
                continue  # a full or unreachable store ends the run where data is written, not here

    def _read(self, store: Store) -> dict[str, object] | None:
        data = store.get(LEASE)
        if data is None:
            return None
        try:
            lease = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return lease if isinstance(lease, dict) else None

    def _write(self, store: Store, *, released: bool) -> None:
        self._counter += 1
        lease = {
            "holder": self._holder,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "counter": self._counter,
            "released": released,
        }
        asked = time.monotonic()
        store.replace(LEASE, json.dumps(lease).encode())
        self._renewed = asked
