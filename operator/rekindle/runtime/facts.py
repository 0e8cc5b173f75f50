"""What a journal says beyond the core's events: the few notes that a new driver needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.core.events import Event, JobGraphChanged, JobSubmitted, RerunRequested, from_record, to_record
from rekindle.core.graph_change import kept_vertices
from rekindle.core.job_graph import JobGraph
from rekindle.core.ranges import subtasks_of
from rekindle.runtime.errors import BEGIN_ANEW, StoreRefused
from rekindle.runtime.journal import Record
from rekindle.runtime.publication import Publication


@dataclass
class RunFacts:
    """A journal, folded.

    Attributes:
        events: (event, time), in order: the core replays them.
        fingerprints: stage -> fingerprint of its code, as the last driver knew it.
        first_graph: the job graph that the first events are about; None in the journal of an older version.
        job_graph: the one that the last events are about.
        schemas: stage -> schema (Spark's JSON) of its stored result.
        plans: stage -> digest of the values in its last plan.
        drivers: how many drivers have worked on this run.
        finished: the run is complete, with its sinks published.
        reruns: stage -> why it is to be made again, and no driver has yet.
        stored: stages whose results are stored, as the pipeline is since it was edited last.
        settled: [(stage, which of its sources) -> subtask -> numbers of the splits that it reads]
        publications: [(sink that Spark writes to, where) -> what was done]
        rereads: [stage -> how often it was edited, or asked to be made again]
        discarded: stages whose results were of no more use when the pipeline was edited; some may have others since.
    """

    events: list[tuple[Event, float]] = field(default_factory=list)
    fingerprints: dict[str, str] = field(default_factory=dict)
    first_graph: JobGraph | None = None
    job_graph: JobGraph | None = None
    schemas: dict[str, str] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    drivers: int = 0
    finished: bool = False
    reruns: dict[str, str] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    discarded: set[str] = field(default_factory=set)
    settled: dict[tuple[str, str], dict[int, list[int]]] = field(default_factory=dict)
    rereads: Counter[str] = field(default_factory=Counter)
    publications: dict[tuple[str, str], Publication] = field(default_factory=dict)

    @property
    def has_begun(self) -> bool:
        """Whether a driver has submitted the job."""
        return any(isinstance(event, JobSubmitted) for event, _ in self.events)

    def sources(self) -> dict[str, str]:
        """[stage -> what its source is called]: another one where the stage was edited, though the edit was taken back,
        and where it is made again since somebody asked for that."""
        return {name: f"{code[:16]}-{self.rereads[name]}" for name, code in self.fingerprints.items()}

    def add(self, records: Iterable[Record]) -> None:
        """Take records that follow.

        Raises:
            StoreRefused: a record this version cannot read.
        """
        for record in records:
            try:
                _add(self, record)
            except (KeyError, ValueError, TypeError) as error:
                raise StoreRefused(
                    f"the journal has a record that this version cannot read: {error}",
                    remedy=f"use the version of rekindle that wrote this store, or {BEGIN_ANEW}",
                ) from error


def fold(records: Iterable[Record]) -> RunFacts:
    """The facts of a journal's records. Raises StoreRefused as `RunFacts.add`."""
    facts = RunFacts()
    facts.add(records)
    return facts


def graph_record(graph: JobGraph) -> dict[str, Any]:
    """A job graph as JSON types."""
    return to_record(JobGraphChanged.to(graph))


def _graph_of(record: Mapping[str, Any], name: str) -> JobGraph:
    event = from_record(dict(record))
    if not isinstance(event, JobGraphChanged):
        raise ValueError(f"the run's job graph is {type(event).__name__}")
    return event.job_graph(name)


def _add(facts: RunFacts, record: Record) -> None:
    if record["kind"] == "event":
        event = from_record(record["event"])
        facts.events.append((event, float(record["t"])))
        if isinstance(event, RerunRequested):
            facts.reruns.pop(event.vertex, None)
        elif isinstance(event, JobGraphChanged):
            _change_graph(facts, event)
    elif record["kind"] == "note" and record["note"] in ("RunStarted", "PipelineChanged"):
        _add_pipeline(facts, record)
    elif record["kind"] == "note":
        _add_note(facts, record)


def _add_pipeline(facts: RunFacts, record: Record) -> None:
    facts.fingerprints = dict(record["fingerprints"])
    if "graph" in record:
        facts.first_graph = facts.job_graph = _graph_of(record["graph"], str(record["application"]))
    stored = {stage["name"] for stage in record.get("stages", ()) if stage["exchange"] == "blocking"}
    facts.discarded.update(record.get("anew", ()), record.get("gone", ()), facts.stored - stored)
    facts.stored = stored
    facts.reruns.update(dict.fromkeys(record.get("again", ()), "its code has changed"))
    facts.rereads.update({*record.get("anew", ()), *record.get("gone", ()), *record.get("again", ())})


def _add_note(facts: RunFacts, record: Record) -> None:
    match record["note"]:
        case "DriverStarted":
            facts.drivers += 1
        case "StagePlanned":
            facts.schemas[record["stage"]] = record["schema"]
            facts.plans[record["stage"]] = record.get("values", "")
        case "RerunRequested":
            facts.reruns[record["stage"]] = f"asked for by {record['by']}"
            facts.rereads[record["stage"]] += 1
        case "SplitsSettled":
            of = facts.settled.setdefault((record["stage"], record["source"]), {})
            of[int(record["subtask"])] = list(subtasks_of(record["splits"]))
        case "SinkPublishing" | "SinkPublished" | "SinkNotBegun" if record.get("contents") is not None:
            key = (record["stage"], record["contents"]["place"])
            before = facts.publications.get(key, Publication())
            facts.publications[key] = before.after(record["note"], record["contents"])
        case "RunFinished":
            facts.finished = True


def _change_graph(facts: RunFacts, event: JobGraphChanged) -> None:
    """What is known of stages is forgotten with their vertices."""
    if facts.job_graph is None:
        raise ValueError("the job graph changed, and it does not tell from which")
    graph = event.job_graph(facts.job_graph.name)
    kept = kept_vertices(facts.job_graph, graph)
    facts.job_graph = graph
    for known in (facts.schemas, facts.plans, facts.reruns):
        for stage in known.keys() - kept:
            del known[stage]
