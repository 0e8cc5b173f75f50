"""Rows of a loop in the store: each batch is written once, by one Spark job, and read by name."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.pipeline.distribution import Keyed
from rekindle.runtime import relations, spark_plan, storable
from rekindle.runtime.by_value import by_value
from rekindle.runtime.errors import EnvironmentProblem, InputLost, StoreRefused
from rekindle.runtime.failures import is_indeterminate
from rekindle.runtime.layout import manifest_name, on_volumes
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store
from rekindle.runtime.task import RESULT_SCHEMA, VERSIONS_PROPERTY, WriterSpec, make_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger(__name__)

_MOST_TRIES = 4
_STATUS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are stored.

    Attributes:
        name: of the batch, in its loop.
        rows: how many.
        schema: as Spark's JSON.
        keys: columns that they are hash partitioned by, in as many partitions as there are.
        partitions: how many.
    """

    name: str
    rows: int
    schema: str
    keys: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class LoopFolder:
    """Where the batches of a loop lie: `prefix` of a store that is spread over `volumes`."""

    prefix: str
    volumes: int = 1

    @property
    def batches(self) -> str:
        return f"{self.prefix}/batches"

    def manifests(self, batch: str) -> str:
        return f"{self.batches}/{batch}"

    def rows(self) -> tuple[str, ...]:
        """Of all batches, on each volume."""
        return on_volumes(f"{self.prefix}/rows", self.volumes)

    def data(self, batch: str) -> tuple[str, ...]:
        """On each volume."""
        return tuple(f"{folder}/{batch}" for folder in self.rows())


class BatchStore:
    """Writes and reads the batches of one loop, in the thread and the session that the loop runs in.

    Args:
        stage: the loop, for errors.
        writer: the driver, as manifests name it.
    """

    def __init__(
        self, stage: str, store: Store, folder: LoopFolder, scheduler: Scheduler, session: SparkSession, writer: str
    ) -> None:
        self.store, self.folder = store, folder
        self._stage, self._scheduler, self._session, self._writer = stage, scheduler, session, writer
        self._group = scheduler.group()

    def write(self, what: str, frame: DataFrame, distribution: Keyed | None = None) -> Batch:
        """Store what `frame` has, by one Spark job: distributed so, or as it is.

        A name is written by one job only, so that rows of two plans never meet. Where Spark has run a map side again on
        the way, some partitions may be of what was lost: then it is all done again, a few times at most.
        """
        for _ in range(_MOST_TRIES):
            name = f"{what}-{uuid.uuid4().hex[:12]}"
            try:
                batch = self._written(name, frame, distribution)
            except Exception as error:
                if not is_indeterminate(error):
                    raise
                batch = None
            if batch is not None:
                return batch
            log.warning("batch %s: Spark has made map outputs again: it is written again", name)
            self.delete(name)
        raise EnvironmentProblem(
            f"loop {self._stage}: executors were lost each of {_MOST_TRIES} times that {what} was written",
            remedy="see why executors are lost; the next run goes on from the last activation",
            stage=self._stage,
        )

    def _written(self, name: str, frame: DataFrame, distribution: Keyed | None) -> Batch | None:
        """None where map outputs were made twice."""
        self._scheduler.enter_group(self._group, f"loop {self._stage}: {name}")  # a function may have left it
        storable.check_schema(self._stage, frame.schema)
        laid_out = frame if distribution is None else storable.by_keys(frame, distribution)
        by_position = laid_out.toDF(*(f"c{position}" for position in range(len(frame.columns))))
        written = by_position.mapInArrow(by_value(make_writer(self._spec(name, frame.columns))), RESULT_SCHEMA)
        rows = written._jdf.javaToPython()
        count = int(rows.getNumPartitions())  # of the plan that is run
        settings = {**spark_plan.settings_of(written), VERSIONS_PROPERTY: json.dumps({"default": 1})}
        for key, value in settings.items():
            self._scheduler.context.setLocalProperty(key, value)
        last = max(self._scheduler.job_ids_of(self._group), default=-1)
        rows.collectPartitions(self._scheduler.int_array(range(count)))
        self._scheduler.wait_for_status(_STATUS_SECONDS)
        if any(job.ran_again for job in self._scheduler.jobs_of(self._group, after=last)):
            return None
        stored = sum(manifest.rows for manifest in self._manifests(name, count))
        schema = str(frame._jdf.schema().asNullable().json())
        return Batch(name, stored, schema, distribution.keys if distribution is not None else (), count)

    def read(self, batch: Batch) -> DataFrame:
        """Raises StoreRefused where a part of it is gone."""
        return self._read(batch.schema, self._manifests(batch.name, batch.partitions), batch.keys, batch.name)

    def read_all(self, batches: Sequence[Batch]) -> DataFrame:
        """Of batches with the same columns."""
        manifests = [one for batch in batches for one in self._manifests(batch.name, batch.partitions)]
        return self._read(batches[0].schema, manifests, (), batches[0].name)

    def names(self) -> list[str]:
        """Of all batches, also of those that were never finished."""
        folders = [self.folder.batches, *self.folder.rows()]
        return sorted({name for folder in folders for name in self.store.names(folder)})

    def delete(self, name: str) -> None:
        for folder in (*self.folder.data(name), self.folder.manifests(name)):
            self.store.delete(folder)

    def _read(self, schema: str, manifests: Sequence[Manifest], keys: tuple[str, ...], name: str) -> DataFrame:
        try:
            return relations.read_result(self._session, self.store, parsed_schema(schema), manifests, keys=keys)
        except InputLost as error:
            raise self._lost(name, "files are gone") from error

    def _manifests(self, name: str, partitions: int) -> list[Manifest]:
        found = [self.store.get(f"{self.folder.manifests(name)}/{manifest_name(one, 1)}") for one in range(partitions)]
        lost = [partition for partition, data in enumerate(found) if data is None]
        if lost:
            raise self._lost(name, f"partitions {lost} are gone")
        try:
            return [Manifest.parse(data) for data in found if data is not None]
        except ValueError as error:
            raise self._lost(name, str(error)) from error

    def _lost(self, name: str, why: str) -> StoreRefused:
        return StoreRefused(
            f"loop {self._stage}: batch {name} cannot be read from {self.store}: {why}",
            remedy=f"have the loop made again: rekindle rerun, with the stage {self._stage}",
            stage=self._stage,
        )

    def _spec(self, name: str, columns: Sequence[str]) -> WriterSpec:
        return WriterSpec(
            storage=self.store.storage,
            stage=name,
            writer=self._writer,
            manifests=self.folder.manifests(name),
            data=self.folder.data(name),
            format="parquet",
            columns=tuple(columns),
            signature=None,
        )
