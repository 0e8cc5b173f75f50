"""What the parts of the job master share: one run's core, jobs, and what was seen but is not yet durable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rekindle.api.connector_report import CommitState
from rekindle.api.settings import RekindleSettings
from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.aborted_attempts import AbortedAttempts
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionVertexID, ResultPartitionID
from rekindle.core.recovery_plan import RecoveryPlan
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import deterministic
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.failures import Failure
from rekindle.runtime.inputs import InputReader
from rekindle.runtime.journal import Record, note
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.open_run import OpenRun
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.stage_run import StageRun


@dataclass
class RunState:
    """The state of a run in this driver. Only the job master's thread touches it, but for `wake`.

    Attributes:
        runs: [stage -> its plan and jobs, for as long as they are of use]
        retired: plans whose jobs are cancelled and may not have ended yet.
        schemas: [stage -> schema (Spark's JSON) of its stored result]
        plans: [stage -> digest of the values in its last plan]
        executors: [executor -> node], as last seen.
        records: seen and not yet in the journal.
        actions: the core's answers to them, to be carried out once they are.
        proven: [partition that was spared -> highest id of a map task of the map side that it was proven to fit]
        plan_after: [stage -> time before which it is not planned again, of the clock that nobody sets]
        last_failure: for the error message, should the core give up.
        seen: how many events the core was handed.
        resumed: what this driver did about the loss of the one before, None where there was none.
        first_task_at: when the first task of this driver began, epoch seconds.
        aborted: attempts of this run that have made nothing.
        activations: of a stage that is a loop, how many there were, under all drivers.
        commits: [stage -> how far its sink is, and why no further]; those that are pending are left out.
    """

    graph: PipelineGraph
    settings: RekindleSettings
    open_run: OpenRun
    core: ExecutionGraph
    scheduler: Scheduler
    inputs: InputReader
    schemas: dict[str, str]
    plans: dict[str, str]
    runs: dict[str, StageRun] = field(default_factory=dict)
    retired: list[StageRun] = field(default_factory=list)
    bindings: AttemptBindings = field(default_factory=AttemptBindings)
    executors: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    actions: list[act.Action] = field(default_factory=list)
    proven: dict[ResultPartitionID, int] = field(default_factory=dict)
    plan_after: dict[str, float] = field(default_factory=dict)
    last_failure: Failure | None = None
    seen: int = 0
    resumed: RecoveryPlan | None = None
    first_task_at: float | None = None
    aborted: AbortedAttempts = field(default_factory=AbortedAttempts)
    commits: dict[str, tuple[CommitState, str]] = field(default_factory=dict)
    activations: Callable[[str], int] = lambda stage: 0
    wake: threading.Event = field(default_factory=threading.Event)
    when_durable: list[Callable[[], None]] = field(default_factory=list)
    """What is to be done when the journal has taken the records that say why, as to remove something from the store. A
    driver whose successor has begun fails there, and has done nothing of it."""

    @property
    def committed(self) -> CommittedPartitions:
        return self.open_run.committed

    def see(self, event: ev.Event, now: float) -> None:
        """Hand an event to the core; its answer waits until the journal has the event."""
        self.records.append({"t": now, "kind": "event", "event": ev.to_record(event)})
        self.actions += self.core.handle(event, now)
        self.aborted.see(event)
        self.seen += 1

    def note(self, name: str, **fields: Any) -> None:
        """Tell the journal's readers something."""
        self.records.append(note(time.time(), name, **fields))

    def retire(self, name: str) -> None:
        """A plan is of no more use: its jobs are cancelled."""
        run = self.runs.pop(name, None)
        if run is not None:
            self.note_tasks(run)
            run.give_up()
            self.retired = [one for one in self.retired if not one.join(0)] + [run]

    def note_tasks(self, run: StageRun) -> None:
        """How much Spark ran for a stage since the last such note, for the report."""
        map_tasks, seconds = run.tasks_since()
        self.note("StageTasks", stage=run.stage.name, map_tasks=map_tasks, task_seconds=round(seconds, 3))

    def is_deterministic(self, stage: Stage) -> bool:
        """Whether the stage, with all that is computed inside it, promises to make the same rows again."""
        return bool(deterministic(self.graph, stage))

    def stored_stages(self) -> list[Stage]:
        """Stages with a stored result, in topological order."""
        return [stage for stage in self.graph.stages if stage.exchange is ExchangeMode.BLOCKING]

    def versions(self) -> dict[str, tuple[int, ...]]:
        """[stored or cached stage -> current version of each partition, of the one that a cached stage has]"""
        return {
            stage.name: tuple(task.version for task in self.core.execution_vertices(stage.name))
            for stage in self.graph.stages
            if stage.exchange is not ExchangeMode.PIPELINED
        }

    def manifests(self, name: str) -> list[Manifest]:
        """Current manifests of a stage, in partition order; partitions without one are left out."""
        found = [self.current_manifest(name, partition) for partition in range(self.graph.stage(name).partitions)]
        return [manifest for manifest in found if manifest is not None]

    def current_manifest(self, name: str, partition: int) -> Manifest | None:
        version = self.core.version(ExecutionVertexID(name, partition))
        return self.committed.get(name, partition, version)

    @property
    def place(self) -> str:
        """Where results are stored."""
        return str(self.open_run.store)

    def stored_bytes(self) -> int:
        """Bytes of all stored partitions that can be read: neither released nor lost, and of versions that count."""
        partitions = (
            ResultPartitionID(stage.name, one) for stage in self.stored_stages() for one in range(stage.partitions)
        )
        return sum(output.bytes for output in map(self.core.output, partitions) if output is not None)

    def is_current(self, name: str, partition: int, version: int) -> bool:
        """Whether that is the version under which the partition is committed now."""
        return 0 <= partition < self.graph.stage(name).partitions and version == self.core.version(
            ExecutionVertexID(name, partition)
        )

    def was_asked_for(self, stage: Stage, partition: int, version: int) -> bool:
        """Whether that version of a partition is, or was, to be made as far as the core knows."""
        if partition >= stage.partitions:
            return True  # nobody reads it
        vertex = ExecutionVertexID(stage.name, partition)
        (first, *_) = self.core.current_executions(vertex)
        never = first.attempt_id.attempt == 0 and not self.core.is_deployed(vertex)
        return version <= self.core.version(vertex) and not never

    def is_damaged(self, stage: str, partition: int, version: int) -> bool:
        """Whether a stored partition cannot be read back: looked at when a task fails over it."""
        manifest = self.committed.get(stage, partition, version)
        return manifest is None or self.committed.corrupt(manifest) is not None

    def cached_as(self, rdd: int) -> str | None:
        """The stage whose cached rows executors hold as that RDD of Spark's; None where nobody holds them any more."""
        return self.inputs.cached.made_of(rdd)
