"""Opening a store: whose it is, who writes to it, and where its last run stands."""

from __future__ import annotations

import json
import os
import re
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.edits import edit_of, run_started
from rekindle.runtime.errors import BEGIN_ANEW, StoreRefused
from rekindle.runtime.facts import RunFacts, fold
from rekindle.runtime.journal import Journal, Record
from rekindle.runtime.layout import FIRST_RUN, FORMAT, IDENTITY, RUNS, RunLayout, run_numbers
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store

_VOLUME = re.compile(r"volume-\d+", re.ASCII)


@dataclass
class OpenRun:
    """A run that this driver may write to. `identity` names the run among all runs of all stores.

    Attributes:
        edit: what tells of a pipeline that was edited. `facts` have it, the journal gets it with the first segment that
            this driver writes: until then the pipeline may still be refused, and nothing is changed.
    """

    store: Store
    layout: RunLayout
    journal: Journal
    lease: Lease
    committed: CommittedPartitions
    facts: RunFacts
    writer: str
    identity: str
    edit: list[Record] = field(default_factory=list)


def open_run(
    store: Store,
    graph: PipelineGraph,
    *,
    volumes: int,
    lease_seconds: float,
    history: int,
    takeover: bool,
    reruns_changed: bool,
    say: Callable[[str], None],
) -> OpenRun:
    """Open `store` for `graph`: go on with its last run, or begin a new one if that has finished.

    Args:
        history: how many runs the store keeps the record of, this one among them.
        takeover: the last driver is proven gone; its lease need not run out.
        reruns_changed: whether what has changed of the pipeline since the run began is made again, and what was made
            from it; otherwise that is an error.

    Raises:
        StoreRefused: another application's store, a newer format, in use, damaged, or the pipeline
            changed since the run began. Nothing stored is changed.
        StoreFull: no space.
    """
    store.prepare()
    identity = _identify(store, graph.name, volumes)
    writer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    lease = Lease(store, writer, lease_seconds)
    lease.acquire(
        takeover=takeover,
        waiting=lambda holder: say(f"waiting up to {lease_seconds:g} s for the lease of {holder} to run out"),
    )
    try:
        run = _open_latest(store, graph, writer, lease, identity)
        _see_changes(run, graph, reruns_changed, say)
        _forget(store, run.layout, history, say)
    except BaseException:
        lease.release()
        raise
    return run


def begin_anew(store: Store) -> None:
    """Forget all runs of a store (`--fresh`). The caller holds its lease.

    No run gets the number of one that was forgotten: tasks and drivers of that, which may still be about, can only
    write names that nobody reads.

    Raises StoreRefused when something is left: a run must not find manifests of another.
    """
    store.replace(FIRST_RUN, str(max([_first_run(store), *(number + 1 for number in run_numbers(store))])).encode())
    names = [RUNS, *(f"{name}/{RUNS}" for name in store.names("") if _VOLUME.fullmatch(name))]
    for name in names:
        store.delete(name)
    left = [name for name in names if store.holds(name)]
    if left:
        raise StoreRefused(
            f"not all of {store}/{left[0]} could be removed",
            remedy="remove it with the rights of who wrote it, or choose another store (recovery.store)",
        )
    store.delete(IDENTITY)  # the last: who is stopped before can do this again


def _open_latest(store: Store, graph: PipelineGraph, writer: str, lease: Lease, identity: dict[str, object]) -> OpenRun:
    volumes = int(str(identity["volumes"]))
    number = max(run_numbers(store), default=_first_run(store))
    layout = RunLayout(number, volumes)
    journal = Journal(store, layout, writer)
    facts = fold(journal.replay())
    if facts.finished:
        layout = RunLayout(number + 1, volumes)
        journal, facts = Journal(store, layout, writer), RunFacts()
    name = f"{identity['id']}/{layout.number}"
    if not facts.fingerprints:
        if store.holds(layout.stages):
            raise StoreRefused(
                f"the journal of run {layout.number} is gone from {store}/{layout.journal}, "
                "results of that run are there",
                remedy=f"restore that folder (nothing stored has been changed), or {BEGIN_ANEW}",
            )
        begun = [run_started(graph, layout.number)]
        journal.append(begun)
        facts.add(begun)
    if facts.job_graph is None:
        raise StoreRefused(
            f"run {layout.number} of {store} was begun by an older version of rekindle and has not finished; its "
            "journal does not tell how its stages read each other",
            remedy=f"finish it with the version that began it, or {BEGIN_ANEW}",
        )
    return OpenRun(store, layout, journal, lease, CommittedPartitions(store, layout), facts, writer, name)


def _forget(store: Store, layout: RunLayout, history: int, say: Callable[[str], None]) -> None:
    """Remove all that is left of older runs, but for the newest of them.

    A run's first segment goes first: that it is gone tells a driver that wakes in such a run that it is over.
    """
    old = [number for number in run_numbers(store) if number <= layout.number - history]
    try:
        for run in (RunLayout(number, layout.volumes) for number in old):
            for name in (run.segment(1), *reversed(run.folders())):  # by the last of them a run is found again
                store.delete(name)
    except StoreRefused as error:
        say(f"what is left of old runs could not be removed, the next run tries again: {error}")


def _first_run(store: Store) -> int:
    text = store.get(FIRST_RUN)
    try:
        return int(text or b"1")
    except ValueError as error:
        raise StoreRefused(
            f"{store}/{FIRST_RUN} is damaged: it says {text!r}",
            remedy="restore it, or choose another store (recovery.store)",
        ) from error


def _identify(store: Store, application: str, volumes: int) -> dict[str, object]:
    fresh = {"format": FORMAT, "application": application, "volumes": volumes, "id": uuid.uuid4().hex}
    store.put_if_absent(IDENTITY, json.dumps(fresh).encode())
    try:
        found = json.loads(store.get(IDENTITY) or b"")
        stored_format = found["format"]
        lacking = {"application", "volumes", "id"} - found.keys() if stored_format == FORMAT else set()
        if lacking:
            raise ValueError(f"it says nothing of {', '.join(sorted(lacking))}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreRefused(
            f"{store}/{IDENTITY} is damaged: {error}",
            remedy="restore it, or choose another store (recovery.store)",
        ) from error
    if stored_format != FORMAT:
        raise StoreRefused(
            f"the store {store} has format {stored_format}, this version of rekindle reads format {FORMAT}",
            remedy="use the version that wrote it, or choose another store (recovery.store)",
        )
    if found["application"] != application:
        raise StoreRefused(
            f"the store {store} belongs to the pipeline {found['application']!r}, this is {application!r}",
            remedy="give each application a store of its own (recovery.store)",
        )
    if found["volumes"] != volumes:
        raise StoreRefused(
            f"the store {store} was made with {found['volumes']} volumes, recovery.volumes is {volumes}",
            remedy=f"set it back, or {BEGIN_ANEW}",
        )
    return {**found, "volumes": volumes}


def _see_changes(run: OpenRun, graph: PipelineGraph, reruns_changed: bool, say: Callable[[str], None]) -> None:
    """Take in another pipeline: stages whose code is not that of this run any more are made again, and where stages or
    their exchanges are others, only what still fits is kept. Raises StoreRefused where that is not wanted."""
    edit = edit_of(run.facts, graph)
    if edit is None:
        return
    if edit.changes_stages and not reruns_changed:
        raise StoreRefused(
            f"the pipeline changed since this run began: {edit}",
            remedy="undo the change, or have what has changed made again (recovery.changedStages: rerun), or "
            f"{BEGIN_ANEW}",
        )
    run.edit = edit.records(graph, run.layout.number)
    run.facts.add(run.edit)
    if edit.changes_stages:
        say(edit.told())
