"""Opening a store: whose it is, who writes to it, and where its last run stands."""

from __future__ import annotations

import json
import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from rekindle.core.graph_change import kept_vertices
from rekindle.core.job_graph import JobGraph
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.errors import BEGIN_ANEW, StoreRefused
from rekindle.runtime.facts import RunFacts, fold, graph_record
from rekindle.runtime.journal import Journal, Record, note
from rekindle.runtime.layout import FIRST_RUN, FORMAT, IDENTITY, RUNS, RunLayout, run_numbers
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store

_VOLUME = re.compile(r"volume-\d+", re.ASCII)


@dataclass
class OpenRun:
    """A run that this driver may write to. `identity` names the run among all runs of all stores."""

    store: Store
    layout: RunLayout
    journal: Journal
    lease: Lease
    committed: CommittedPartitions
    facts: RunFacts
    writer: str
    identity: str


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
        begun = [_run_started(graph, layout)]
        journal.append(begun)
        facts.add(begun)
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
    """Tell the journal of another pipeline: stages whose code is not that of this run any more are made again, and
    where stages or their exchanges are others, only what still fits is kept. Raises StoreRefused where that is not
    wanted."""
    edit = _edit(run.facts, graph)
    if edit is None:
        return
    if not reruns_changed:
        raise StoreRefused(
            f"the pipeline changed since this run began: {edit}",
            remedy="undo the change, or have what has changed made again (recovery.changedStages: rerun), or "
            f"{BEGIN_ANEW}",
        )
    if edit.job_graph is not None and run.facts.job_graph is None:
        raise StoreRefused(
            f"the pipeline changed since this run began: {edit}; an older version of rekindle began it, and its "
            "journal does not tell which results still fit",
            remedy=f"undo the change, or {BEGIN_ANEW}",
        )
    now = time.time()
    stored = [name for name in edit.code if graph.stage(name).exchange is ExchangeMode.BLOCKING]
    known = {"again": stored, "anew": edit.anew, "new": edit.new, "gone": edit.gone}
    records = [note(now, "PipelineChanged", **_pipeline(graph, run.layout), **known)]
    if edit.job_graph is not None:
        records.append({"t": now, "kind": "event", "event": graph_record(edit.job_graph)})
    run.journal.append(records)
    run.facts.add(records)
    say(f"the pipeline has changed since this run began: {edit}; what was made of these is made again too")
    for name in [*edit.anew, *edit.gone]:
        run.committed.release(name)


@dataclass(frozen=True, slots=True)
class _Edit:
    """How a pipeline differs from that of a run: names of its stages, sorted.

    Attributes:
        code: they have other code.
        anew: what they read is not what it was, or in another way, or they have other partitions.
        job_graph: the job graph, where it is another one.
    """

    code: list[str]
    anew: list[str]
    new: list[str]
    gone: list[str]
    job_graph: JobGraph | None

    def __str__(self) -> str:
        parts = {
            "other code": self.code,
            "other inputs or partitions": self.anew,
            "new": self.new,
            "gone": self.gone,
        }
        told = [f"{', '.join(names)} ({how})" for how, names in parts.items() if names]
        return "; ".join(told) or "what its stages promise"


def _edit(facts: RunFacts, graph: PipelineGraph) -> _Edit | None:
    """None where the pipeline is that of the run, or the run has only begun."""
    before, now = facts.fingerprints, _fingerprints(graph)
    job_graph = to_job_graph(graph, SpeculationOptions())
    same_graph = facts.job_graph.same_shape(job_graph) if facts.job_graph else before.keys() == now.keys()
    if not before or (before == now and same_graph):
        return None
    kept = kept_vertices(facts.job_graph or job_graph, job_graph)
    both = sorted(before.keys() & now.keys())
    vertices = {*job_graph.order, *(facts.job_graph.order if facts.job_graph else ())}
    anew = [name for name in both if name in vertices - kept]
    code = [name for name in both if before[name] != now[name] and name not in anew]
    new, gone = sorted(now.keys() - before), sorted(before.keys() - now)
    return _Edit(code, anew, new, gone, None if same_graph else job_graph)


def _fingerprints(graph: PipelineGraph) -> dict[str, str]:
    return {stage.name: stage_fingerprint(graph, stage.name) for stage in graph.stages}


def _run_started(graph: PipelineGraph, layout: RunLayout) -> Record:
    return note(
        time.time(),
        "RunStarted",
        **_pipeline(graph, layout),
        graph=graph_record(to_job_graph(graph, SpeculationOptions())),
    )


def _pipeline(graph: PipelineGraph, layout: RunLayout) -> dict[str, object]:
    """What readers of the journal are told of a run's pipeline."""
    return {
        "run": layout.number,
        "application": graph.name,
        "fingerprints": _fingerprints(graph),
        "stages": [
            {
                "name": stage.name,
                "description": stage.description,
                "inputs": list(stage.inputs),
                "partitions": stage.partitions,
                "exchange": stage.exchange.value,
                "sink": getattr(stage.sink, "path", None),
            }
            for stage in graph.stages
        ],
    }
