"""What a stage's function returned, made into a job: checked, distributed, hashed, and written by `task`'s writer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.distribution import Pointwise
from rekindle.pipeline.stage import Stage
from rekindle.runtime import spark_plan, storable
from rekindle.runtime.by_value import by_value
from rekindle.runtime.errors import PipelineMisuse
from rekindle.runtime.hive_partitions import check_hive_partitions, columns_of_files, in_folders
from rekindle.runtime.map_side import MapSide
from rekindle.runtime.publish import sink_of
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.task import HASH_COLUMN, RESULT_SCHEMA, WriterSpec, make_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage as Spark will run it.

    Attributes:
        schema: of the result, as Spark's JSON.
        hashed: whether its rows can be compared.
        values: a digest of what else was decided in the plan, such as the time, and of names and types of the columns;
            like no other where nobody can tell.
        jrdd: the Java RDD whose partition i writes result partition i.
        settings: those of Spark SQL, for the tasks.
        map_side: what it shuffles.
    """

    schema: str
    hashed: bool
    values: str
    jrdd: Any
    settings: Mapping[str, str]
    map_side: MapSide


def plan_stage(
    stage: Stage,
    scheduler: Scheduler,
    result: DataFrame,
    spec: Callable[[StructType, str | None], WriterSpec],
) -> PlannedStage:
    """Plan the job that stores `result`.

    Args:
        spec: the writer for (names of the result's columns, their signature where its rows can be compared).

    Raises:
        PipelineMisuse: a result that cannot be stored, or not in these partitions.
    """
    frame = storable.distribute(result, stage)
    storable.check_schema(stage.name, frame.schema)
    sink = sink_of(stage)
    folders = () if sink is None else tuple(sink.hive_partitions)
    if sink is not None:
        check_hive_partitions(stage, frame.schema, folders)
        storable.check_written_as(stage, columns_of_files(frame.schema, folders), sink.format)
    if isinstance(stage.distribution, Pointwise):
        _check_pointwise(stage, frame)
    hashed_frame, hashed = storable.with_hashes(frame)
    hashed_frame = in_folders(hashed_frame, folders, beside=[HASH_COLUMN] if hashed else [])
    # By position: mapInArrow itself trips over names with dots in them.
    by_position = hashed_frame.toDF(*(f"c{position}" for position in range(len(hashed_frame.columns))))
    signature = storable.signature(frame.schema)
    writer = by_value(make_writer(spec(frame.schema, signature if hashed else None)))
    written = by_position.mapInArrow(writer, RESULT_SCHEMA)
    jrdd = written._jdf.javaToPython()
    shuffles = spark_plan.shuffles_of(jrdd.rdd())
    _check_partitions(stage, jrdd, shuffles)
    plan = written._jdf.queryExecution().executedPlan().toString()
    _check_observes_nothing(stage, plan)
    settings = spark_plan.settings_of(written)
    values = f"{spark_plan.plan_values(frame, settings)}-{signature}"
    if not shuffles and spark_plan.reads_own_rows(frame):
        values = uuid.uuid4().hex
    map_side = MapSide(
        scheduler,
        spark_plan.shuffle_ids(shuffles),
        spark_plan.shuffle_ids(spark_plan.read_shuffles_of(jrdd.rdd())),
        spark_plan.feeding_shuffles(shuffles),
        values,
        reads_beside=spark_plan.reads_beside_shuffle(plan),
    )
    return PlannedStage(frame.schema.json(), hashed, values, jrdd, settings, map_side)


def _check_pointwise(stage: Stage, frame: DataFrame) -> None:
    exchanges = spark_plan.exchanges_in_plan(frame)
    if exchanges:
        raise PipelineMisuse(
            f"stage {stage.name} is pointwise, but its plan shuffles: {exchanges[0]}",
            remedy="leave pointwise=True out, or name the small inputs in broadcast=(...)",
            stage=stage.name,
        )


def _check_observes_nothing(stage: Stage, plan: str) -> None:
    if "CollectMetrics" in plan:
        raise PipelineMisuse(
            f"stage {stage.name} observes its rows (DataFrame.observe): what it asks for would never arrive, for its "
            "partitions are made one by one, and some of them again",
            remedy="make it a stage of its own that aggregates",
            stage=stage.name,
        )


def _check_partitions(stage: Stage, jrdd: Any, shuffles: list[Any]) -> None:
    partitions = int(jrdd.rdd().getNumPartitions())
    if partitions != stage.partitions:
        raise PipelineMisuse(
            f"stage {stage.name}: its plan has {partitions} partitions, {stage.partitions} were "
            "fixed when the graph was built",
            remedy="a pointwise stage may not coalesce, union or repartition; leave pointwise=True out",
            stage=stage.name,
        )
    if spark_plan.has_barrier(jrdd.rdd(), shuffles):
        raise PipelineMisuse(
            f"stage {stage.name} runs tasks in barrier mode, which start all at once or not at all; here each "
            "partition must be able to run alone, to be copied and to be made again",
            remedy="leave barrier=True out, or run that part as a program of its own",
            stage=stage.name,
        )
    if isinstance(stage.distribution, Pointwise) and shuffles:  # behind an RDD, where the plan does not show it
        raise PipelineMisuse(
            f"stage {stage.name} is pointwise, but it shuffles behind an RDD",
            remedy="leave pointwise=True out",
            stage=stage.name,
        )
