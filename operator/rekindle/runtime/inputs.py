"""The DataFrames a stage's function is called with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.distribution import Keyed, Pointwise
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.fusion import cached_inputs, deterministic, stored_inputs
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage
from rekindle.runtime import relations
from rekindle.runtime.errors import InputLost, PipelineFailed
from rekindle.runtime.local_checkpoint import local_checkpoint
from rekindle.runtime.loops.loops import Loops
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.sources import SourceReads
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A finished result: its schema as Spark's JSON, and the current manifests in partition order.

    Attributes:
        unreadable: partitions whose data is gone, and which nobody needs again as far as the core knows.
    """

    schema: str
    manifests: tuple[Manifest, ...]
    unreadable: frozenset[int] = frozenset()


Versions = Mapping[str, tuple[int, ...]]
"""[stored or cached stage -> version of each of its partitions]"""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a plan is made on: the stored results, and the versions of them and of cached ones at that time."""

    stored: Callable[[str], StoredResult]
    versions: Versions


class CachedResultFailed(Exception):
    """The job that was to make the rows of a cached stage failed; `error` says of what."""

    def __init__(self, stage: Stage, error: Exception) -> None:
        super().__init__(f"stage {stage.name}: {error}")
        self.stage, self.error = stage, error


@dataclass(frozen=True, slots=True)
class CachedFrame:
    """The result of a CACHED stage; `rows` is Spark's RDD of them, None where Spark makes again what is lost."""

    frame: DataFrame
    rows: Any = None

    def free(self) -> None:
        if self.rows is None:
            self.frame.unpersist()
        else:
            self.rows.unpersist(False)


class CachedFrames:
    """The results of CACHED stages. Stages are planned in threads of their own: each result is made once
    for all readers of the same versions, and a plan that is out of date cannot leave its own to others."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, Any], CachedFrame] = {}
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}

    def made_of(self, rdd: int) -> str | None:
        """The stage whose rows that RDD of Spark's is."""
        with self._lock:
            held = [(name, frame.rows) for (name, _), frame in self._frames.items()]
        return next((name for name, rows in held if rows is not None and int(rows.id()) == rdd), None)

    def get(self, name: str, versions: Any, make: Callable[[], CachedFrame]) -> DataFrame:
        """The frame of a stage at these versions."""
        key = (name, versions)
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            with self._lock:
                held = self._frames.get(key)
            if held is None:
                held = make()
                with self._lock:
                    self._frames[key] = held
            return held.frame

    def drop(self, name: str) -> None:
        with self._lock:
            frames = [self._frames.pop(key) for key in list(self._frames) if key[0] == name]
        for frame in frames:
            frame.free()


@dataclass
class InputReader:
    """Builds the inputs of stages."""

    graph: PipelineGraph
    spark: SparkSession
    store: Store
    scheduler: Scheduler
    sources: SourceReads
    loops: Loops
    cached: CachedFrames = field(default_factory=CachedFrames)

    def frame(self, stage: Stage, sources: Sources) -> DataFrame:
        """The result of `stage`'s function in a session of its own.

        Raises:
            PipelineFailed: the function returned no DataFrame.
        """
        session = relations.stage_session(self.spark, stage.partitions)
        return self._call(stage, session, stage.partitions, sources)

    def result(self, stage: Stage, schema: str, manifests: Sequence[Manifest]) -> DataFrame:
        """The stored result of a stage."""
        session = relations.stage_session(self.spark, stage.partitions)
        return relations.read_result(session, self.store, parsed_schema(schema), manifests)

    def _call(self, stage: Stage, session: SparkSession, shuffle_partitions: int, sources: Sources) -> DataFrame:
        from pyspark.sql import DataFrame

        arguments: dict[str, Any] = {
            name: self._input(stage, self.graph.stage(name), session, shuffle_partitions, sources)
            for name in stage.inputs
        }
        if stage.takes_spark:
            arguments["spark"] = session
        relations.activate(session)
        if stage.source is not None:
            result = self.sources.frame(stage, session)
        elif stage.loop is not None:
            made_of = input_versions(self.graph, stage, sources.versions)
            result = self.loops.frame(stage, session, arguments, made_of)
        else:
            result = stage.fn(**arguments)
        relations.impose_settings(session, shuffle_partitions)
        if not isinstance(result, DataFrame):
            raise PipelineFailed(
                f"stage {stage.name}: its function returned {type(result).__name__}, not a DataFrame",
                remedy="return the DataFrame that is the stage's result (is a `return` missing?)",
                stage=stage.name,
            )
        return relations.within(session, result)

    def _input(
        self, consumer: Stage, producer: Stage, session: SparkSession, shuffle_partitions: int, sources: Sources
    ) -> DataFrame:
        if producer.exchange is ExchangeMode.PIPELINED:
            return self._call(producer, session, shuffle_partitions, sources)
        if producer.exchange is ExchangeMode.CACHED:
            return relations.behind_rdd(session, self._cached(producer, sources))
        frame = self._read(consumer, producer, session, sources.stored(producer.name))
        if producer.name in consumer.broadcast:
            from pyspark.sql import functions

            return functions.broadcast(frame)
        return frame

    def _read(self, consumer: Stage, producer: Stage, session: SparkSession, result: StoredResult) -> DataFrame:
        schema = parsed_schema(result.schema)
        if isinstance(consumer.distribution, Pointwise) and consumer.distribution.source == producer.name:
            there = {one.partition: one for one in result.manifests if one.partition not in result.unreadable}
            partitions = range(producer.partitions)
            readable = [there.get(one) or Manifest.of_nothing(producer.name, one) for one in partitions]
            return relations.read_pointwise(session, self.store, schema, readable)
        if result.unreadable:
            raise InputLost(
                f"stage {consumer.name}: partitions {sorted(result.unreadable)} of {producer.name} are gone",
                remedy="run again: the next run makes them again",
                stage=consumer.name,
            )
        keys = producer.distribution.keys if isinstance(producer.distribution, Keyed) else ()
        return relations.read_result(session, self.store, schema, result.manifests, keys=keys)

    def _cached(self, stage: Stage, sources: Sources) -> DataFrame:
        """Of the stage's version. Where it comes out the same each time it is planned again with what it reads, which
        Spark needs to make lost rows again; else it stays what it is for as long as nobody says that it is void."""
        made_of: Any = ()
        if deterministic(self.graph, stage):
            made_of = input_versions(self.graph, stage, sources.versions)
        return self.cached.get(stage.name, (sources.versions[stage.name], made_of), lambda: self._make(stage, sources))

    def _make(self, stage: Stage, sources: Sources) -> CachedFrame:
        """Rows that come out differently each time are computed as a whole before anybody reads them, and cut off from
        what they were made of: else two readers at the same time would each compute their own, and Spark would make
        some again without a word where an executor, or only a block, is lost.

        Raises CachedResultFailed.
        """
        frame = self.frame(stage, sources)
        if deterministic(self.graph, stage):
            return CachedFrame(frame.persist())
        try:
            return CachedFrame(*local_checkpoint(frame, self.scheduler))
        except Exception as error:
            raise CachedResultFailed(stage, error) from error


def input_versions(graph: PipelineGraph, stage: Stage, versions: Versions) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """What a plan of `stage` depends on: each stored or cached input with the versions of its partitions.

    Cached ones too: a plan made before one was lost reads rows that are gone, or that others do not have.
    """
    return tuple((name, versions[name]) for name in (*stored_inputs(graph, stage), *cached_inputs(graph, stage)))


def bytes_by_partition(graph: PipelineGraph, stage: Stage, stored: Mapping[str, Sequence[Manifest]]) -> dict[int, int]:
    """Partition of `stage` -> bytes of the stored partitions that it alone is made from.

    They are those that it reads pointwise, and those of results that are partitioned as it is. All other stored
    inputs it gets by way of a shuffle.
    """
    sizes: dict[int, int] = {}
    for name, manifests in stored.items():
        if isinstance(stage.distribution, Pointwise):
            is_own = stage.distribution.source == name
        else:
            is_own = graph.stage(name).distribution == stage.distribution and name not in stage.broadcast
        for manifest in manifests if is_own else ():
            sizes[manifest.partition] = sizes.get(manifest.partition, 0) + manifest.bytes
    return sizes
