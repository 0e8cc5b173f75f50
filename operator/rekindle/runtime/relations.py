"""Stored partitions as DataFrames, and DataFrames as something that can be stored.

A stored result is read as a relation over exactly the files that its manifests name, never over a folder
(attempts that lost lie there too). A keyed result carries a bucket specification, so that Spark knows which
rows are where and joins or aggregates by the same keys without another exchange. Nothing is registered in
the user's catalog.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.distribution import Keyed, Pointwise
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import EnvironmentProblem, InputLost, PipelineMisuse
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.store import Store
from rekindle.runtime.task import HASH_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_ARROW_BATCH_BYTES = "262144b"
_READ_OPTIONS = {
    "parquet.page.verify-checksum.enabled": "true",
    # Whatever the user's session says of other files: of ours nothing is passed over, nor are dates shifted.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_PLAN_TREE = re.compile(r"^[ :+\-*]*(\(\d+\) )?")
_EXCHANGE = re.compile(r"(Exchange|CartesianProduct|Coalesce)\b|ShuffleExchange|CoalesceExec")
_NEVER_EMPTIED = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"


def stage_session(spark: SparkSession, shuffle_partitions: int) -> SparkSession:
    """A session for one stage: the user's settings, temporary views and functions, with what a stage needs.

    Adaptive execution is off: which rows are in partition i must not depend on sizes seen at run time. The
    stage's own shuffles use the same number of partitions as its result, else Spark would shuffle twice.
    """
    from pyspark.sql import SparkSession as Session

    session = Session(spark.sparkContext, spark._jsparkSession.cloneSession())
    for key, value in {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.sources.bucketing.enabled": "true",
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        # Files are listed by the driver: Spark would start a job of its own above 32 paths.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1),
        # Batches above half a region of the heap are humongous to G1, and each starts a concurrent marking.
        "spark.sql.execution.arrow.maxBytesPerBatch": _ARROW_BATCH_BYTES,
    }.items():
        session.conf.set(key, value)
    # It would take the exchange of a result that is known to be empty, and with it its partitions.
    excluded = session.conf.get("spark.sql.optimizer.excludedRules", "") or ""
    session.conf.set("spark.sql.optimizer.excludedRules", ",".join(filter(None, [excluded, _NEVER_EMPTIED])))
    return session


def activate(session: SparkSession) -> None:
    """Make `session` the active one of this thread: Spark looks there for settings that it is not handed."""
    from pyspark.sql import SparkSession as Session

    Session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def within(session: SparkSession, frame: DataFrame) -> DataFrame:
    """`frame` planned in `session`: a stage's function may have made it in another one, with other settings."""
    from pyspark.sql import DataFrame

    if frame.sparkSession._jsparkSession.equals(session._jsparkSession):
        return frame
    jvm: Any = session._jvm
    jframe = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, frame._jdf.logicalPlan())
    return DataFrame(jframe, session)


def settings_of(frame: DataFrame) -> dict[str, str]:
    """Spark SQL's settings that a job over `frame` needs as local properties: there tasks look for them."""
    settings = frame.sparkSession.conf.getAll
    return {str(key): str(value) for key, value in settings.items() if str(key).startswith("spark.sql.")}


def check_reads_buckets(spark: SparkSession) -> None:
    """Raises EnvironmentProblem where Spark cannot read `s3a://`: its connector is not part of Spark."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName("org.apache.hadoop.fs.s3a.S3AFileSystem", False, loader)
    except Exception as error:  # py4j's error over a ClassNotFoundException
        hadoop = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        raise EnvironmentProblem(
            "Spark has no connector for buckets (s3a), so it cannot read a store in one",
            remedy=f"set spark.jars.packages to org.apache.hadoop:hadoop-aws:{hadoop}",
        ) from error


def read_result(
    session: SparkSession,
    store: Store,
    schema: StructType,
    manifests: Sequence[Manifest],
    *,
    keys: tuple[str, ...] = (),
) -> DataFrame:
    """The stored result as a DataFrame.

    Args:
        manifests: one per partition, in partition order.
        keys: names of the columns the result is hash partitioned by; () when it is not.
    """
    from pyspark.sql import DataFrame

    jvm: Any = session._jvm
    jsession = session._jsparkSession
    files = [store.storage.uri(file.path) for manifest in manifests for file in manifest.files]
    paths = [jvm.org.apache.hadoop.fs.Path(file) for file in files]
    options = jvm.PythonUtils.toScalaMap(_READ_OPTIONS)
    none = jvm.scala.Option.apply(None)
    empty_schema = jvm.org.apache.spark.sql.types.StructType()
    index = jvm.org.apache.spark.sql.execution.datasources.InMemoryFileIndex(
        jsession,
        jvm.PythonUtils.toSeq(paths),
        options,
        jvm.scala.Some(empty_schema),
        _no_cache(jvm),
        none,
        none,
    )
    if int(index.allFiles().size()) != len(paths):  # Spark passes over a missing file in silence
        raise InputLost(
            f"{len(paths) - int(index.allFiles().size())} stored files were lost while a stage was planned",
            remedy="run again: the next run makes them again",
        )
    bucketing = none
    if keys:
        names, sorting = jvm.PythonUtils.toSeq(list(keys)), jvm.PythonUtils.toSeq([])
        spec = jvm.org.apache.spark.sql.catalyst.catalog.BucketSpec(len(manifests), names, sorting)
        bucketing = jvm.scala.Some(spec)
    relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        empty_schema,
        jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()),
        bucketing,
        jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
        options,
        jsession,
    )
    return DataFrame(jsession.baseRelationToDataFrame(relation), session)


def read_pointwise(session: SparkSession, store: Store, schema: StructType, manifests: Sequence[Manifest]) -> DataFrame:
    """The stored result with exactly its partitions: partition i of the DataFrame is stored partition i.

    A bucketed scan gives the one-to-one mapping, whatever the column; its claim that the rows are hashed by
    that column would be untrue, so what the planner sees is an RDD of unknown partitioning.
    """
    scan = read_result(session, store, schema, manifests, keys=(schema.fieldNames()[0],))
    return behind_rdd(session, scan)


def behind_rdd(session: SparkSession, frame: DataFrame) -> DataFrame:
    """`frame`'s rows as a leaf of `session`: same partitions, no claims about them, no planning across."""
    from pyspark.sql import DataFrame

    rows = frame._jdf.queryExecution().toRdd()
    jframe = session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return DataFrame(jframe, session)


def distribute(frame: DataFrame, stage: Stage) -> DataFrame:
    """`frame` with the exchange that the stage's distribution asks for, which is Spark's own."""
    match stage.distribution:
        case Pointwise():
            return frame
        case Keyed(keys=keys, partitions=partitions):
            missing = [key for key in keys if key not in frame.columns]
            if missing:
                raise PipelineMisuse(
                    f"stage {stage.name}: partition_by names {missing[0]!r}, its result has {frame.columns}",
                    remedy="partition by columns of the DataFrame the stage returns",
                    stage=stage.name,
                )
            return frame.repartition(partitions, *(column(frame, key) for key in keys))
        case other:
            return frame.repartition(other.partitions)


def check_schema(stage: Stage, schema: StructType) -> None:
    """Raises PipelineMisuse for a result that cannot be stored, naming the column and the remedy."""
    if not schema.fields:
        raise PipelineMisuse(
            f"stage {stage.name}: its result has no columns, so its rows cannot be stored",
            remedy="return at least one column",
            stage=stage.name,
        )
    seen: set[str] = set()
    for field in schema.fields:
        if field.name.lower() in seen:
            raise PipelineMisuse(
                f"stage {stage.name}: its result has two columns {field.name!r}",
                remedy="rename or drop one (after a join: join on the column's name, or use .alias)",
                stage=stage.name,
            )
        seen.add(field.name.lower())
        if _unsupported(field.dataType) or _without_own_fields(field.dataType):
            raise PipelineMisuse(
                f"stage {stage.name}: column {field.name!r} of type {field.dataType.simpleString()} cannot be stored",
                remedy="cast it (for example to string or binary) or drop it before the stage returns",
                stage=stage.name,
            )


def check_written_as(stage: Stage, schema: StructType, file_format: str) -> None:
    """Raises PipelineMisuse for a result that files of this format cannot hold."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    for field in schema.fields:
        if file_format == "csv" and isinstance(field.dataType, ArrayType | MapType | StructType):
            raise PipelineMisuse(
                f"sink {stage.name}: column {field.name!r} of type {field.dataType.simpleString()} cannot be written "
                "as csv",
                remedy="make it a string (to_json), or write parquet",
                stage=stage.name,
            )


def column(frame: DataFrame, name: str) -> Column:
    """A column by its exact name, whatever characters it has."""
    return frame[f"`{name.replace('`', '``')}`"]


def with_hashes(frame: DataFrame) -> tuple[DataFrame, bool]:
    """`frame` with a hash of each row in a last column, and whether its types allow one.

    Spark's hashes skip nulls and know no nesting, so (null, 1) and (1, null) would be equal, and [[1], [2]] and
    [[1, 2]]: which columns are null is hashed too, and nested values as text beside.
    """
    from pyspark.sql import functions

    if not frame.columns or any(_unhashable(field.dataType) for field in frame.schema.fields):
        return frame, False
    columns = [column(frame, name) for name in frame.columns]
    nulls = [column.isNull() for column, field in zip(columns, frame.schema.fields, strict=True) if field.nullable]
    nested = [field.name for field in frame.schema.fields if len(list(_nested(field.dataType))) > 1]
    texts = [column(frame, name).cast("string") for name in nested]
    return frame.select(*columns, functions.xxhash64(*columns, *nulls, *texts).alias(HASH_COLUMN)), True


def shuffles_of(jrdd: Any) -> list[Any]:
    """Spark's shuffle dependencies in the lineage of a Java RDD, nearest first. Empty: no map side.

    Does not look behind persisted RDDs: their shuffles belong to the stage that made them.
    """
    return list(_shuffle_dependencies(jrdd, beyond=True))


def read_shuffles_of(jrdd: Any) -> list[Any]:
    """The shuffle dependencies that the tasks of a Java RDD read themselves."""
    return list(_shuffle_dependencies(jrdd, beyond=False))


def feeding_shuffles(dependencies: Iterable[Any]) -> dict[int, tuple[int, ...]]:
    """[shuffle -> the shuffles that its map tasks read], of those that read one."""
    read = {int(one.shuffleId()): shuffle_ids(read_shuffles_of(one.rdd())) for one in dependencies}
    return {shuffle: ids for shuffle, ids in read.items() if ids}


def shuffle_ids(dependencies: Iterable[Any]) -> tuple[int, ...]:
    """Ids of their shuffles, each once."""
    return tuple(dict.fromkeys(int(one.shuffleId()) for one in dependencies))


def reads_beside_shuffle(plan: str) -> bool:
    """Whether a physical plan has rows that come to its tasks other than by files and shuffles: by broadcast or a
    subquery. What they are may differ from one plan to the next, and no map output shows it."""
    return any(mark in plan for mark in ("BroadcastExchange", "Subquery", "ReusedExchange"))


def plan_values(frame: DataFrame) -> str:
    """A digest of what was decided when `frame` was planned: values of the function's own, the time, seeds.

    Equal for equal programs in every driver. Columns have other ids each time. Seeds are left out where they only
    decide over rows of one partition. What a Python function has captured does not show.
    """
    text = re.sub(r"#\d+L?", "#", _whole_text(frame._jdf.queryExecution().optimizedPlan()))
    if "Join" not in text and "subquery" not in text:
        text = re.sub(r"\b(rand|randn|uuid|shuffle)\((.*?)-?\d*\)", r"\1(\2)", text)
        text = re.sub(r"(Sample .*, )-?\d+$", r"\1", text, flags=re.MULTILINE)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _whole_text(plan: Any) -> str:
    """A plan as Spark prints it, with all of its columns."""
    from py4j.protocol import Py4JError

    how = (True, False, 2**31 - 1, False)
    try:
        return str(plan.treeString(*how, False))
    except Py4JError:  # Spark 4.0 has one parameter less
        return str(plan.treeString(*how))


def has_barrier(jrdd: Any, shuffles: Iterable[Any]) -> bool:
    """Whether tasks of a Java RDD, or of what it shuffles, run in barrier mode: all at once, or none."""
    return any(bool(rdd.isBarrier()) for rdd in (jrdd, *(one.rdd() for one in shuffles)))


def _shuffle_dependencies(jrdd: Any, *, beyond: bool) -> Iterator[Any]:
    seen: set[int] = set()
    pending = [jrdd]
    while pending:
        rdd = pending.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        dependencies = rdd.dependencies()
        for position in range(dependencies.size()):
            dependency = dependencies.apply(position)
            is_shuffle = dependency.getClass().getSimpleName() == "ShuffleDependency"
            if is_shuffle:
                yield dependency
            if beyond or not is_shuffle:
                pending.append(dependency.rdd())


def exchanges_in_plan(frame: DataFrame) -> list[str]:
    """The exchanges (other than broadcasts) of the physical plan, as Spark prints them."""
    lines = frame._jdf.queryExecution().executedPlan().toString().splitlines()
    return [node for node in (_PLAN_TREE.sub("", line) for line in lines) if _EXCHANGE.match(node)]


def _no_cache(jvm: Any) -> Any:
    return getattr(jvm.org.apache.spark.sql.execution.datasources, "NoopCache$").__getattr__("MODULE$")


def _nested(data_type: DataType) -> Iterable[DataType]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _nested(field.dataType)
    elif isinstance(data_type, ArrayType):
        yield from _nested(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _nested(data_type.keyType)
        yield from _nested(data_type.valueType)


def _unsupported(data_type: DataType) -> bool:
    names = {
        "calendarinterval",
        "interval",
        "void",
        "variant",
        "udt",
        "yearmonthinterval",
        "geometry",
        "geography",
    }
    return any(_type_name(nested) in names for nested in _nested(data_type))


def _without_own_fields(data_type: DataType) -> bool:
    """Whether a struct in it has no fields, or two whose names differ in case at most: no file can hold those."""
    from pyspark.sql.types import StructType

    structs = (nested for nested in _nested(data_type) if isinstance(nested, StructType))
    return any(not one.names or len({name.lower() for name in one.names}) < len(one.names) for one in structs)


def _unhashable(data_type: DataType) -> bool:
    return any(_type_name(nested) in {"map", "variant"} for nested in _nested(data_type))


def _type_name(data_type: DataType) -> str:
    return type(data_type).__name__.removesuffix("Type").lower().replace("userdefined", "udt").replace("null", "void")
