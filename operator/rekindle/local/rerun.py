"""`rekindle rerun`: a person wants a stored result made again, and with it what was made from it.

The wish is a note in the journal. The next driver finds it there and does what the failover strategy says; nothing
is removed before.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.local.inspect import StoredRun
from rekindle.local.stores import held
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.facts import fold
from rekindle.runtime.journal import Journal, note
from rekindle.runtime.layout import RunLayout
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
    stages = run.stages()
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
    with held(store, "rerun", _LEASE_SECONDS, say) as writer:
        journal = Journal(store, RunLayout(number), writer)
        journal.replay()
        who = f"{getpass.getuser()} on {socket.gethostname()}"
        journal.append([note(time.time(), "RerunRequested", stage=stage, by=who)])


def _readers(stage: str, stages: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """All stages that read a stage, directly or not, in the order of the pipeline."""
    found = {stage}
    for name, one in stages.items():  # producers come first
        if found.intersection(one["inputs"]):
            found.add(name)
    return tuple(name for name in stages if name in found - {stage})
