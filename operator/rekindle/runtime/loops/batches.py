"""Rows of a loop in the store: each batch is written once, by one Spark job, and read by name."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rekindle.api.storage import volume_folder
from rekindle.pipeline.distribution import Assigned, Keyed
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.stage import Stage
from rekindle.runtime import relations, spark_plan, storable
from rekindle.runtime.by_value import by_value
from rekindle.runtime.errors import EnvironmentProblem, InputLost
from rekindle.runtime.layout import manifest_name
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store
from rekindle.runtime.task import RESULT_SCHEMA, VERSIONS_PROPERTY, WriterSpec, make_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


log = logging.getLogger(__name__)

_MOST_TRIES = 4


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

    def data(self, batch: str) -> tuple[str, ...]:
        """On each volume."""
        folders = [f"{volume_folder(volume)}/" for volume in range(self.volumes)] if self.volumes > 1 else [""]
        return tuple(f"{folder}{self.prefix}/rows/{batch}" for folder in folders)


class BatchStore:
    """Writes and reads the batches of one loop, in the thread and the session that the loop runs in.

    Args:
        writer: the driver, as manifests name it.
    """

    def __init__(
        self, store: Store, folder: LoopFolder, scheduler: Scheduler, session: SparkSession, writer: str
    ) -> None:
        self.store, self.folder = store, folder
        self._scheduler, self._session, self._writer = scheduler, session, writer

    def write(self, what: str, frame: DataFrame, distribution: Keyed | Assigned | None = None) -> Batch:
        """Store what `frame` has, by one Spark job: distributed so, or as it is.

        A name is written by one job only, so that rows of two plans never meet. Where Spark has run a map side again on
        the way, some partitions may be of what was lost: then it is all done again, a few times at most.
        """
        for _ in range(_MOST_TRIES):
            batch, is_whole = self._written(f"{what}-{uuid.uuid4().hex[:12]}", frame, distribution)
            if is_whole:
                return batch
            log.warning("batch %s: Spark has made map outputs again: it is written again", batch.name)
            self.delete(batch.name)
        raise EnvironmentProblem(
            f"{what}: executors were lost each of {_MOST_TRIES} times that it was written",
            remedy="see why executors are lost; the next run goes on from the last activation",
        )

    def _written(self, name: str, frame: DataFrame, distribution: Keyed | Assigned | None) -> tuple[Batch, bool]:
        if distribution is None:
            distribution = Assigned(int(frame._jdf.queryExecution().toRdd().getNumPartitions()))
        keys = distribution.keys if isinstance(distribution, Keyed) else ()
        count, stage = distribution.partitions, _as_stage(name, distribution)
        storable.check_schema(stage, frame.schema)
        laid_out = storable.distribute(frame, stage)
        by_position = laid_out.toDF(*(f"c{position}" for position in range(len(frame.columns))))
        written = by_position.mapInArrow(by_value(make_writer(self._spec(name, frame.columns))), RESULT_SCHEMA)
        rows = written._jdf.javaToPython()
        context, group = self._scheduler.context, self._scheduler.group()
        before = {job.job for job in self._scheduler.jobs_of(group)}
        settings = {**spark_plan.settings_of(written), VERSIONS_PROPERTY: json.dumps({"default": 1})}
        for key, value in settings.items():
            context.setLocalProperty(key, value)
        rows.collectPartitions(self._scheduler.int_array(range(count)))
        again = any(job.ran_again for job in self._scheduler.jobs_of(group) if job.job not in before)
        stored = sum(manifest.rows for manifest in self._manifests(name, count))
        return Batch(name, stored, str(frame._jdf.schema().asNullable().json()), keys, count), not again

    def read(self, batch: Batch) -> DataFrame:
        """Raises InputLost where a part of it is gone."""
        manifests = self._manifests(batch.name, batch.partitions)
        return relations.read_result(self._session, self.store, parsed_schema(batch.schema), manifests, keys=batch.keys)

    def read_all(self, batches: Sequence[Batch]) -> DataFrame:
        """Of batches with the same columns."""
        manifests = [one for batch in batches for one in self._manifests(batch.name, batch.partitions)]
        return relations.read_result(self._session, self.store, parsed_schema(batches[0].schema), manifests)

    def empty(self, schema: StructType | str) -> DataFrame:
        """No rows, of the columns of a schema, or of DDL."""
        return self._session.createDataFrame([], schema)

    def names(self) -> list[str]:
        """Of all batches, also of those that were never finished."""
        return self.store.names(self.folder.batches)

    def delete(self, name: str) -> None:
        for folder in (self.folder.manifests(name), *self.folder.data(name)):
            self.store.delete(folder)

    def _manifests(self, name: str, partitions: int) -> list[Manifest]:
        found = [self.store.get(f"{self.folder.manifests(name)}/{manifest_name(one, 1)}") for one in range(partitions)]
        lost = [partition for partition, data in enumerate(found) if data is None]
        if lost:
            raise InputLost(
                f"partitions {lost} of batch {name} of a loop are gone from {self.store}",
                remedy="have the loop made again: rekindle rerun, with the name of its stage",
            )
        return [Manifest.parse(data) for data in found if data is not None]

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


def _as_stage(name: str, distribution: Keyed | Assigned) -> Stage:
    def never(*_: Any) -> DataFrame:
        raise AssertionError("a batch has no function")

    return Stage(
        name=name,
        fn=never,
        inputs=(),
        description="",
        distribution=distribution,
        partitions=distribution.partitions,
        exchange=ExchangeMode.BLOCKING,
        deterministic=None,
        speculation=False,
        sink=None,
        broadcast=frozenset(),
        is_source=False,
        takes_spark=False,
    )
