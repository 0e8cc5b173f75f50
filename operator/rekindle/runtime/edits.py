"""How a pipeline differs from that of the run that it is to go on with, and what the journal is told of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rekindle.core.graph_change import kept_vertices
from rekindle.core.job_graph import JobGraph
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.facts import RunFacts, graph_record
from rekindle.runtime.journal import Record, note


@dataclass(frozen=True, slots=True)
class Edit:
    """How a pipeline differs from that of a run: names of its stages, sorted.

    Attributes:
        code: they have other code.
        anew: what they read is not what it was, or in another way, or they have other partitions.
        job_graph: the job graph, where it is another one: where nothing else is said, in what its stages promise.
    """

    code: list[str]
    anew: list[str]
    new: list[str]
    gone: list[str]
    job_graph: JobGraph | None

    @property
    def changes_stages(self) -> bool:
        """Whether anything is to be made again, made anew or removed."""
        return bool(self.code or self.anew or self.new or self.gone)

    def __str__(self) -> str:
        parts = {
            "other code": self.code,
            "other inputs or partitions": self.anew,
            "new": self.new,
            "gone": self.gone,
        }
        return "; ".join(f"{', '.join(names)} ({how})" for how, names in parts.items() if names)

    def told(self) -> str:
        """It, and what follows from it, in words."""
        again = f"; what was made of {', '.join(self.code)} is made again too, unless it comes out the same"
        return f"the pipeline has changed since this run began: {self}{again if self.code else ''}"

    def records(self, graph: PipelineGraph, run: int) -> list[Record]:
        """What the journal of that run is told."""
        now, records = time.time(), list[Record]()
        if self.changes_stages:
            stored = [name for name in self.code if graph.stage(name).exchange is ExchangeMode.BLOCKING]
            known = {"again": stored, "anew": self.anew, "new": self.new, "gone": self.gone}
            records.append(note(now, "PipelineChanged", **_pipeline(graph, run), **known))
        if self.job_graph is not None:
            records.append({"t": now, "kind": "event", "event": graph_record(self.job_graph)})
        return records


def edit_of(facts: RunFacts, graph: PipelineGraph) -> Edit | None:
    """None where the pipeline is that of the run."""
    assert facts.job_graph is not None
    before, now = facts.fingerprints, _fingerprints(graph)
    job_graph = to_job_graph(graph, SpeculationOptions())
    same_graph = facts.job_graph.same_shape(job_graph)
    if before == now and same_graph:
        return None
    begun = {*facts.job_graph.order, *job_graph.order} - kept_vertices(facts.job_graph, job_graph)
    both = sorted(before.keys() & now.keys())
    anew = [name for name in both if name in begun]
    code = [name for name in both if before[name] != now[name] and name not in begun]
    new, gone = sorted(now.keys() - before), sorted(before.keys() - now)
    return Edit(code, anew, new, gone, None if same_graph else job_graph)


def run_started(graph: PipelineGraph, run: int) -> Record:
    """The first record of a run."""
    job_graph = graph_record(to_job_graph(graph, SpeculationOptions()))
    return note(time.time(), "RunStarted", **_pipeline(graph, run), graph=job_graph)


def _fingerprints(graph: PipelineGraph) -> dict[str, str]:
    return {stage.name: stage_fingerprint(graph, stage.name) for stage in graph.stages}


def _pipeline(graph: PipelineGraph, run: int) -> dict[str, object]:
    """What readers of the journal are told of a run's pipeline."""
    return {
        "run": run,
        "application": graph.name,
        "fingerprints": _fingerprints(graph),
        "stages": [
            {
                "name": stage.name,
                "description": stage.description,
                "inputs": list(stage.inputs),
                "partitions": stage.partitions,
                "exchange": stage.exchange.value,
                "sink": getattr(stage.sink, "path", None) or (stage.sink.target if stage.sink else None),
            }
            for stage in graph.stages
        ],
    }
