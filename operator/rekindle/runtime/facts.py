"""What a journal says beyond the core's events: the few notes that a new driver needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rekindle.core.events import Event, RerunRequested, from_record
from rekindle.runtime.errors import BEGIN_ANEW, StoreRefused
from rekindle.runtime.journal import Record


@dataclass
class RunFacts:
    """A journal, folded.

    Attributes:
        events: (event, time), in order: the core replays them.
        fingerprints: stage -> fingerprint of its code, as the last driver knew it.
        shape: of the job graph that the events are about.
        schemas: stage -> schema (Spark's JSON) of its stored result.
        plans: stage -> digest of the values in its last plan.
        drivers: how many drivers have worked on this run.
        finished: the run is complete, with its sinks published.
        reruns: stage -> why it is to be made again, and no driver has yet.
    """

    events: list[tuple[Event, float]] = field(default_factory=list)
    fingerprints: dict[str, str] = field(default_factory=dict)
    shape: str = ""
    schemas: dict[str, str] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    drivers: int = 0
    finished: bool = False
    reruns: dict[str, str] = field(default_factory=dict)


def fold(records: Iterable[Record]) -> RunFacts:
    """The facts of a journal's records.

    Raises:
        StoreRefused: a record this version cannot read.
    """
    facts = RunFacts()
    for record in records:
        try:
            _add(facts, record)
        except (KeyError, ValueError, TypeError) as error:
            raise StoreRefused(
                f"the journal has a record that this version cannot read: {error}",
                remedy=f"use the version of rekindle that wrote this store, or {BEGIN_ANEW}",
            ) from error
    return facts


def _add(facts: RunFacts, record: Record) -> None:
    if record["kind"] == "event":
        event = from_record(record["event"])
        facts.events.append((event, float(record["t"])))
        if isinstance(event, RerunRequested):
            facts.reruns.pop(event.vertex, None)
    elif record["kind"] == "note":
        match record["note"]:
            case "RunStarted":
                facts.fingerprints = dict(record["fingerprints"])
                facts.shape = str(record.get("shape", ""))
            case "StagesChanged":
                facts.fingerprints = dict(record["fingerprints"])
                facts.reruns.update(dict.fromkeys(record["stages"], "its code has changed"))
            case "DriverStarted":
                facts.drivers += 1
            case "StagePlanned":
                facts.schemas[record["stage"]] = record["schema"]
                facts.plans[record["stage"]] = record.get("values", "")
            case "RerunRequested":
                facts.reruns[record["stage"]] = f"asked for by {record['by']}"
            case "RunFinished":
                facts.finished = True
