"""The journal: every event the core was given, in order, in numbered segments.

The journal is what a new driver replays to be where the old one was, and what every reader (live progress,
the report, a person) follows. A segment is created with `put_if_absent`, so two drivers cannot both write
segment 7: the one that comes second stops (`Fenced`). Each segment ends with a digest of itself and names that of the
one before it, so a segment that was cut, changed or exchanged is found and never half read.

A segment is JSON lines. The first is its header; then records, each with a time `t` (seconds since the
epoch) and a kind:

- `event`: an event of `core.events`, replayed;
- `action`: what the core answered (restart, block, copy, ...), for readers;
- `note`: what the runtime has to tell (stage planned, driver started, sink published, ...), for readers and
  for the few facts that a new driver needs (schemas, fingerprints).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from rekindle.runtime.errors import BEGIN_ANEW, Fenced, StoreRefused
from rekindle.runtime.layout import RunLayout, run_numbers, segment_numbers
from rekindle.runtime.store import Store

Record = dict[str, Any]
_FORMAT = 2


class Journal:
    """Appends to and reads the journal of one run. `writer` identifies this driver."""

    def __init__(self, store: Store, layout: RunLayout, writer: str) -> None:
        self._store, self._layout, self._writer = store, layout, writer
        self._next, self._previous = 1, ""

    def replay(self) -> list[Record]:
        """All records so far, in order; afterwards `append` continues behind them.

        Raises:
            StoreRefused: a segment is missing, cut or changed. Nothing is written or removed.
        """
        records: list[Record] = []
        for number, data in _segments(self._store, self._layout):
            records += _parse(self._layout.segment(number), data, self._previous)
            self._next, self._previous = number + 1, hashlib.sha256(data).hexdigest()
        return records

    def append(self, records: Iterable[Record]) -> None:
        """Make `records` durable as one segment.

        Raises:
            Fenced: another driver has written this segment.
        """
        header = {
            "format": _FORMAT,
            "segment": self._next,
            "writer": self._writer,
            "previous": self._previous,
        }
        lines = [json.dumps(line, separators=(",", ":")) for line in (header, *records)]
        data = ("\n".join(lines) + "\n").encode()
        data += _end(data)
        name = self._layout.segment(self._next)
        if not self._store.put_if_absent(name, data):
            raise Fenced(
                f"another driver has taken over this run (it wrote {name})",
                remedy="nothing is lost: that driver goes on; end this process",
            )
        self._next, self._previous = self._next + 1, hashlib.sha256(data).hexdigest()

    def check_kept(self) -> None:
        """Raises Fenced when this run's record has been removed, which only happens when later runs have finished."""
        if not self._store.exists(self._layout.segment(1)):
            raise Fenced(
                f"run {self._layout.number} of {self._store} is long over: its record has been removed",
                remedy="nothing is lost: later runs have finished; end this process",
            )


class JournalFollower:
    """Reads the newest run's records as they appear, from any process that can reach the store.

    `poll` never blocks and never fails on a segment that is not there yet; a run that begins later is
    followed from its first record.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._next = store, 1
        self._run: int | None = None

    @property
    def run(self) -> int | None:
        """The number of the run that is followed, None while the store has none."""
        return self._run

    def poll(self) -> list[Record]:
        """Records that appeared since the last call, in order."""
        try:
            runs = run_numbers(self._store)
        except StoreRefused:
            return []  # the driver will say so, if it lasts
        if self._run is None:
            if not runs:
                return []
            self._run = runs[-1]
        records = self._read_new()
        if not records and runs and runs[-1] > self._run:
            self._run, self._next = runs[-1], 1
            records = self._read_new()
        return records

    def _read_new(self) -> list[Record]:
        assert self._run is not None
        records: list[Record] = []
        while True:
            try:
                data = self._store.get(RunLayout(self._run).segment(self._next))
                if data is None:
                    return records
                records += _parse(str(self._next), data, None)
            except StoreRefused:
                return records
            self._next += 1


def read_run(store: Store, number: int | None = None) -> list[Record]:
    """All records of a run (the newest by default), checked; [] when the store has no run."""
    runs = run_numbers(store)
    if not runs:
        return []
    layout = RunLayout(number if number is not None else runs[-1])
    return Journal(store, layout, "reader").replay()


def note(now: float, name: str, **fields: Any) -> Record:
    """A record that tells what the runtime did."""
    return {"t": now, "kind": "note", "note": name, **fields}


def _segments(store: Store, layout: RunLayout) -> Iterator[tuple[int, bytes]]:
    for expected, number in enumerate(segment_numbers(store, layout), start=1):
        if number != expected:
            raise _damaged(layout.segment(expected), "it is missing, later ones are there")
        data = store.get(layout.segment(number))
        if data is None:
            raise _damaged(layout.segment(number), "it cannot be read")
        yield number, data


def _parse(name: str, data: bytes, previous: str | None) -> list[Record]:
    lines = data.splitlines(keepends=True)
    try:
        header = json.loads(lines[0])
        found = header["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damaged(name, "it is cut or is not JSON lines") from error
    if found != _FORMAT:
        raise StoreRefused(
            f"journal segment {name} has format {found}, this version reads format {_FORMAT}",
            remedy="use the version of rekindle that wrote this store, or another store",
        )
    if lines[-1] != _end(b"".join(lines[:-1])):
        raise _damaged(name, "it is cut or was changed")
    records: list[Record] = [json.loads(line) for line in lines[1:-1]]
    if previous is not None and header.get("previous") != previous:
        raise _damaged(name, "the segment before it was changed after this one was written")
    return records


def _end(data: bytes) -> bytes:
    """The last line of a segment, after `data`."""
    return json.dumps({"end": hashlib.sha256(data).hexdigest()}).encode() + b"\n"


def _damaged(name: str, why: str) -> StoreRefused:
    return StoreRefused(
        f"the journal is damaged at {name}: {why}",
        remedy=f"restore that file (nothing stored has been changed), or {BEGIN_ANEW}",
    )
