"""A journal's records, for tests: written as the job master writes them."""

from typing import Any

from rekindle.core.events import AttemptDeployed, AttemptFinished, PartitionOutput, to_record
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.runtime.journal import Record, note

T = 1000.0


def run_started(**partitions: int) -> Record:
    stages = [{"name": name, "partitions": n, "exchange": "blocking", "sink": None} for name, n in partitions.items()]
    return note(T, "RunStarted", run=1, application="flights", stages=stages)


def stage_started(stage: str, partitions: int) -> Record:
    return note(T, "StageStarted", stage=stage, partitions=partitions)


def action(name: str, **fields: Any) -> Record:
    return {"t": T, "kind": "action", "action": name, **fields}


def finished(stage: str, *partitions: int) -> list[Record]:
    records = []
    for partition in partitions:
        attempt = ExecutionAttemptID(ExecutionVertexID(stage, partition), 0)
        output = PartitionOutput(rows=1, bytes=1, digest=None, node="127.0.0.2")
        for event in (
            AttemptDeployed(attempt=attempt, node="127.0.0.2", started_at=T),
            AttemptFinished(attempt=attempt, finished_at=T, output=output),
        ):
            records.append({"t": T, "kind": "event", "event": to_record(event)})
    return records
