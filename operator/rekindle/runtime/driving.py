"""Driving: what should run, and does it?

Level triggered: at the end of every round the partitions that the core has deployed are compared with those
that some Spark job is working on. A job that was lost, cancelled or never started is found whatever the
reason.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from rekindle.core.ids import ExecutionVertexID
from rekindle.pipeline.distribution import Pointwise
from rekindle.pipeline.fusion import stored_inputs
from rekindle.pipeline.stage import Stage
from rekindle.runtime.data_source_sink import sendable_writer
from rekindle.runtime.errors import BEGIN_ANEW, StoreRefused
from rekindle.runtime.hive_partitions import columns_of_files
from rekindle.runtime.inputs import Sources, StoredResult, bytes_by_partition, input_versions
from rekindle.runtime.observer import Observer
from rekindle.runtime.publish import sink_of
from rekindle.runtime.sink_folder import check_columns
from rekindle.runtime.stage_run import StageRun
from rekindle.runtime.state import RunState
from rekindle.runtime.task import WriterSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MANIFEST_SECONDS = 120.0
_PLACE_SECONDS = 20.0


class StageDriver:
    """Plans stages and submits their jobs.

    Args:
        observer: is asked whether inputs are still there before a stage is planned on them.
    """

    def __init__(self, state: RunState, observer: Observer) -> None:
        self.state, self._observer = state, observer
        self._without_place: dict[str, float] = {}

    def drive(self, now: float) -> None:
        for stage in self.state.stored_stages():
            wanted = self._wanted(stage)
            if wanted:
                self._drive_stage(stage, wanted, now)

    def _wanted(self, stage: Stage) -> dict[int, int]:
        """Partitions that the core has deployed and that are not finished: partition -> version."""
        return {
            partition: self.state.core.version(ExecutionVertexID(stage.name, partition))
            for partition in self.state.core.unfinished(stage.name)
            if self.state.core.is_deployed(ExecutionVertexID(stage.name, partition))
        }

    def _drive_stage(self, stage: Stage, wanted: dict[int, int], now: float) -> None:
        if not all(self.state.core.is_finished(name) for name in stored_inputs(self.state.graph, stage)):
            return  # an input is being made again; what this stage still runs of it was cancelled
        inputs = input_versions(self.state.graph, stage, self.state.versions())
        run = self.state.runs.get(stage.name)
        if run is not None and run.inputs != inputs:
            self.state.retire(stage.name)
            run = None
        if run is None:
            due = time.monotonic() >= self.state.plan_after.get(stage.name, 0.0)
            if due and self._has_place(stage, now):
                self._plan(stage, inputs, now)
            return
        if run.planned is None:
            return
        before = len(self.state.actions)
        self._note_planned(run, now)
        if len(self.state.actions) != before:
            return  # carried out first
        covered = run.covered()
        stale = [
            job
            for job in run.jobs
            if not job.ended
            and any(
                partition in wanted and run.version_of(partition) != wanted[partition] for partition in job.partitions
            )
        ]
        for job in stale:
            job.cancel()
        missing = {partition: version for partition, version in wanted.items() if covered.get(partition) != version}
        if missing and not stale and not self._wait_for_manifests(run, missing, now) and self._has_place(stage, now):
            run.submit(missing)

    def _has_place(self, stage: Stage, now: float) -> bool:
        """Whether any executor takes tasks. Where Spark excludes all of them it gives up a job at once if they are
        busy; if they are not it ends one, to be replaced, but only for tasks that wait: so in the end it gets some."""
        since = self._without_place.get(stage.name, now)
        if not self.state.scheduler.excludes_all() or now - since > _PLACE_SECONDS:
            self._without_place.pop(stage.name, None)
            return True
        if stage.name not in self._without_place:
            self._without_place[stage.name] = now
            self.state.note("StageWaits", stage=stage.name, reason="Spark excludes all executors for a time")
        return False

    def _wait_for_manifests(self, run: StageRun, missing: dict[int, int], now: float) -> bool:
        """Whether a job has ended well that wrote some of these partitions, so that their manifests must come.

        A network file system may show them late. Where executors write to another place than the driver reads, they
        never come, and to run the tasks again would be of no use.
        """
        written = run.written() & {one for one, version in missing.items() if run.version_of(one) == version}
        if not written:
            run.unseen_since = None
            return False
        run.unseen_since = now if run.unseen_since is None else run.unseen_since
        if now - run.unseen_since > _MANIFEST_SECONDS:
            raise StoreRefused(
                f"stage {run.stage.name}: the tasks of partitions {sorted(written)} have ended well, but what they "
                f"stored is not in {self.state.open_run.store}",
                remedy="recovery.store must be one place for driver and executors: is the volume mounted on all?",
                stage=run.stage.name,
            )
        return True

    def _plan(self, stage: Stage, inputs: tuple[tuple[str, tuple[int, ...]], ...], now: float) -> None:
        """Plan a stage, unless an input has lost data that it needs: then the core restarts the producers."""
        before = len(self.state.actions)
        stored_names = stored_inputs(self.state.graph, stage)
        unreadable = self._observer.see_missing_data(stored_names, now)
        if len(self.state.actions) != before:
            return  # the core has answered: carried out first, planned again next round
        run = StageRun(stage, self.state.scheduler, inputs, self.state.graph.name, self.state.wake.set)
        self.state.runs[stage.name] = run
        stored = {name: self._stored(name, unreadable[name]) for name in stored_names}
        run.unreadable = frozenset(
            partition
            for name, result in stored.items()
            for partition in result.unreadable
            if isinstance(stage.distribution, Pointwise) and stage.distribution.source == name
        )
        sizes = {name: result.manifests for name, result in stored.items()}
        run.stored_bytes = bytes_by_partition(self.state.graph, stage, sizes)
        run.plan_in_background(
            partial(self.state.inputs.frame, stage, Sources(stored.__getitem__, self.state.versions())),
            partial(self._writer, stage),
        )
        self.state.note("StageStarted", stage=stage.name, partitions=stage.partitions)

    def _stored(self, name: str, unreadable: frozenset[int]) -> StoredResult:
        return StoredResult(self.state.schemas[name], tuple(self.state.manifests(name)), unreadable)

    def _note_planned(self, run: StageRun, now: float) -> None:
        assert run.planned is not None
        if run.noted:
            return
        run.noted = True
        name, planned = run.stage.name, run.planned
        other_columns = self._has_other_columns(run.stage, planned.schema)
        self.state.schemas[name] = planned.schema
        self.state.note(
            "StagePlanned",
            stage=name,
            schema=planned.schema,
            comparable=planned.hashed,
            map_side=bool(run.map_side),
            values=planned.values,
        )
        self._observer.see_planned(run, self.state.plans.get(name), now, other_columns=other_columns)
        self.state.plans[name] = planned.values

    def _has_other_columns(self, stage: Stage, schema: str) -> bool:
        """Whether some of the stage's partitions are stored, and not as they would be now. Raises StoreRefused where
        they may not be made again."""
        known, left = self.state.schemas.get(stage.name), len(self.state.core.unfinished(stage.name))
        if known in (None, schema) or left == stage.partitions:
            return False
        if self.state.settings.recovery.changed_stages == "rerun":
            return True
        raise StoreRefused(
            f"stage {stage.name}: its schema changed since this run began\n  stored: {known}\n  now:    {schema}",
            remedy="undo the change of its input or code, or have what is stored of it made again "
            f"(recovery.changedStages: rerun), or {BEGIN_ANEW}",
            stage=stage.name,
        )

    def _writer(self, stage: Stage, schema: StructType, signature: str | None) -> WriterSpec:
        run, sink = self.state.open_run, sink_of(stage)
        if sink is not None and sink.keeps_what_is_there:
            check_columns(stage, sink, schema, run.identity)
        layout, folders = run.layout, tuple(sink.hive_partitions) if sink else ()
        return WriterSpec(
            storage=run.store.storage,
            stage=stage.name,
            writer=run.writer,
            manifests=layout.manifests(stage.name),
            data=tuple(layout.data(stage.name, volume) for volume in range(layout.volumes)),
            format=sink.format if sink else "parquet",
            columns=(*columns_of_files(schema, folders).names, *folders),
            folders=len(folders),
            signature=signature,
            checked=sink is not None,
            sink=sendable_writer(stage, schema, run.identity),
        )
