"""`rekindle rerun`: a person wants a stored result made again, and with it what was made from it.

The wish is a note in the journal. The next driver finds it there and does what the failover strategy says; nothing
is removed before.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.local.inspect import StoredRun
from rekindle.local.stores import last_driver_is_gone
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.facts import fold
from rekindle.runtime.journal import Journal, Record, note
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store

_LEASE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Rerun:
    """What was asked for: `stage`, and the stages that are made again with it."""

    stage: str
    partitions: int
    readers: tuple[str, ...]

    def __str__(self) -> str:
        with_it = f", and what is made from it: {', '.join(self.readers)}" if self.readers else ""
        return f"the next run makes stage {self.stage} ({self.partitions} partitions) again{with_it}"


def request_rerun(store: Store, stage: str, say: Callable[[str], None]) -> Rerun:
    """Ask that a stage of the newest run be made again.

    Raises:
        StoreRefused: there is no such store, run or stage, the run is finished, or a driver uses it.
    """
    run = StoredRun.find(store)
    stages = _stages(run.records)
    if stage not in stages:
        known = ", ".join(name for name, one in stages.items() if one["exchange"] == "blocking")
        raise StoreRefused(f"run {run.number} has no stage {stage}", remedy=f"it has {known}")
    if stages[stage]["exchange"] != "blocking":
        raise StoreRefused(
            f"stage {stage} stores nothing: its exchange is {stages[stage]['exchange']}",
            remedy="name a stage that reads it",
        )
    if fold(run.records).finished:
        raise StoreRefused(
            f"run {run.number} is finished, and its results are gone", remedy="the next run makes every stage anyway"
        )
    _append(store, run.number, stage, say)
    return Rerun(stage, stages[stage]["partitions"], _readers(stage, stages))


def _append(store: Store, number: int, stage: str, say: Callable[[str], None]) -> None:
    writer = f"rerun-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    lease = Lease(store, writer, _LEASE_SECONDS)
    lease.acquire(
        takeover=last_driver_is_gone(store),
        waiting=lambda holder: say(f"waiting up to {_LEASE_SECONDS:g} s for the lease of {holder} to run out"),
    )
    try:
        journal = Journal(store, RunLayout(number), writer)
        journal.replay()
        who = f"{getpass.getuser()} on {socket.gethostname()}"
        journal.append([note(time.time(), "RerunRequested", stage=stage, by=who)])
    finally:
        lease.release()


def _stages(records: Sequence[Record]) -> dict[str, Mapping[str, Any]]:
    """[stage -> what the run's first record says of it]"""
    started: Record = next((one for one in records if one.get("note") == "RunStarted"), {"stages": []})
    return {one["name"]: one for one in started["stages"]}


def _readers(stage: str, stages: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """All stages that read a stage, directly or not, in the order of the pipeline."""
    found = {stage}
    for name, one in stages.items():  # producers come first
        if found.intersection(one["inputs"]):
            found.add(name)
    return tuple(name for name in stages if name in found - {stage})
