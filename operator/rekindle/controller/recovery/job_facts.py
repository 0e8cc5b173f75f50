"""From a job master's report to what the status holds of it."""

import json
from dataclasses import dataclass, field
from typing import Any

from rekindle.api.application_status import RecoveryStatus, SinkStatus, SourceStatus, StageStatus
from rekindle.api.job_report import JobReport, WireRecovery, WireVertex
from rekindle.controller.recovery.connector_facts import sink_statuses, source_statuses
from rekindle.controller.recovery.volume_facts import VolumeFacts
from rekindle.core.inventory import JobInventory, Reached
from rekindle.core.ranges import count

_MOST_BYTES = 64 * 1024
"""Of an inventory in the status. Of a larger one no recovery is planned."""

MOST_STAGES = 200


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Of one report; worked out once.

    Attributes:
        stages: producers first, not more than the status takes.
        job: the report as the status keeps it; empty where that is too long.
        recovery: what the driver did about the loss of the one before.
        is_told: False: the job has become too large to be told.
        sources, sinks: as the status has them.
    """

    stages: tuple[StageStatus, ...] = ()
    job: dict[str, Any] = field(default_factory=dict)
    recovery: WireRecovery | None = None
    is_told: bool = True
    sources: tuple[SourceStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()


def facts_of(report: JobReport | None) -> JobFacts:
    """None: too large to be told."""
    if report is None:
        return JobFacts(is_told=False)
    dumped = report.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"sources", "sinks"})
    is_small = len(json.dumps(dumped, separators=(",", ":"))) <= _MOST_BYTES
    vertices, inventory = {one.name: one for one in report.vertices}, report.inventory()
    stages = tuple(_stage(vertices[name], inventory) for name in report.job_graph().order[:MOST_STAGES])
    sources, sinks = source_statuses(report.sources), sink_statuses(report.sinks)
    return JobFacts(stages, dumped if is_small else {}, report.recovery, sources=sources, sinks=sinks)


def with_facts(recovery: RecoveryStatus, facts: JobFacts, volumes: VolumeFacts | None) -> RecoveryStatus:
    """What the status says of a job, and of the volumes that it lies on."""
    claims = {**recovery.claims, **volumes.uids()} if volumes is not None else {}
    return recovery.model_copy(update={"job": facts.job, "stages": list(facts.stages), "claims": claims})


def _stage(vertex: WireVertex, inventory: JobInventory) -> StageStatus:
    counts = dict.fromkeys(Reached, 0)
    missing = 0
    for group in inventory.groups.get(vertex.name, ()):
        counts[group.alike.reached] += count(group.subtasks)
        missing += count(group.subtasks) if group.alike.missing else 0
    return StageStatus(
        name=vertex.name,
        partitions=vertex.parallelism,
        finished=counts[Reached.FINISHED],
        running=counts[Reached.DEPLOYED],
        missing=missing,
        released=vertex.name in inventory.released,
    )
