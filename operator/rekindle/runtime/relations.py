"""Stored partitions as DataFrames, and the sessions in which stages are planned.

A stored result is read as a relation over exactly the files that its manifests name, never over a folder
(attempts that lost lie there too). A keyed result carries a bucket specification, so that Spark knows which
rows are where and joins or aggregates by the same keys without another exchange. Nothing is registered in
the user's catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rekindle.runtime.errors import EnvironmentProblem, InputLost
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.spark_plan import OURS
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ARROW_BATCH_BYTES = "262144b"
_READ_OPTIONS = {
    "parquet.page.verify-checksum.enabled": "true",
    # Whatever the user's session says of other files: of ours nothing is passed over, nor are dates shifted.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_NEVER_EMPTIED = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"


def stage_session(spark: SparkSession, shuffle_partitions: int) -> SparkSession:
    """A session for one stage: the user's settings, temporary views and functions, with what a stage needs."""
    from pyspark.sql import SparkSession as Session

    session = Session(spark.sparkContext, spark._jsparkSession.cloneSession())
    impose_settings(session, shuffle_partitions)
    return session


def impose_settings(session: SparkSession, shuffle_partitions: int) -> None:
    """Set what a stage needs, also where the user's function has just set it otherwise.

    Adaptive execution is off: which rows are in partition i must not depend on sizes seen at run time. The
    stage's own shuffles use the same number of partitions as its result, else Spark would shuffle twice.
    """
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
    if _NEVER_EMPTIED not in excluded:
        session.conf.set("spark.sql.optimizer.excludedRules", ",".join(filter(None, [excluded, _NEVER_EMPTIED])))


def activate(session: SparkSession) -> None:
    """Make `session` the active one of this thread: Spark looks there for settings that it is not handed."""
    from pyspark.sql import SparkSession as Session

    Session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def within(session: SparkSession, frame: DataFrame) -> DataFrame:
    """`frame`, still to be planned, and in `session`: a stage's function may have made it in another one, with other
    settings, and may have had it planned, which would not be done again."""
    from pyspark.sql import DataFrame

    jvm: Any = session._jvm
    jframe = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, frame._jdf.logicalPlan())
    return DataFrame(jframe, session)


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

    rows = frame._jdf.queryExecution().toRdd().setName(OURS)
    jframe = session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return DataFrame(jframe, session)


def _no_cache(jvm: Any) -> Any:
    return getattr(jvm.org.apache.spark.sql.execution.datasources, "NoopCache$").__getattr__("MODULE$")
