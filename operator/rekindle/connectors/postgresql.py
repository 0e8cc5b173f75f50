"""A PostgreSQL table as a sink: each attempt of a task writes a table of its own, and the driver's transaction takes
those of the winners.

    @pipeline.sink(DataSourceSink(Postgresql, {"url": "postgresql://db/shop", "table": "totals"}))
    def totals(delayed: DataFrame) -> DataFrame: ...

A table `rekindle_commits` beside it keeps which run has been committed, in the same transaction, so a commit that is
asked for again changes nothing. Drivers and executors need `adbc-driver-postgresql`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from rekindle.connectors import postgresql_commit
from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.option_values import flag, known_options
from rekindle.connectors.postgresql_connection import Server, transaction
from rekindle.connectors.postgresql_target import Staging, Target
from rekindle.connectors.postgresql_types import postgresql_type, sent_type
from rekindle.connectors.sql_names import quoted

_OPTIONS = ("url", "table", "user", "password", "stagingSchema", "errorIfExists", "txnAppId", "txnVersion")
_MOST_NAME = 63
"""Bytes of a name, which PostgreSQL cuts off there."""


@dataclass
class StagedRows(WriterCommitMessage):
    """What one attempt has written. `table` is empty where there were no rows.

    Attributes:
        schema, table: of the staging table.
        rows: how many it has.
        columns: their names and types.
        into_existing: whether the target was there when the attempt began.
    """

    schema: str = ""
    table: str = ""
    rows: int = 0
    columns: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    into_existing: bool = False


class Postgresql(DataSource):
    """The table `table` (or `schema.table`, in their letters' case) of the database `url`. It is made where there is
    none."""

    supports_concurrent_execution_attempts = True
    idempotent_commit = True

    @classmethod
    def name(cls) -> str:
        """Spark's name for it."""
        return "rekindle-postgresql"

    def writer(self, schema: Any, overwrite: bool) -> PostgresqlWriter:
        """Raises ValueError for options that are none, and for rows that the table does not take; ConnectionError."""
        said = known_options("Postgresql", self.options, _OPTIONS)
        refuses_rows = flag("Postgresql", "errorIfExists", said.get("errorifexists", "false"))
        if overwrite and refuses_rows:
            raise ValueError("Postgresql has errorIfExists=true and mode='overwrite': say one of them")
        server, columns = Server.of_options("Postgresql", said), _columns(schema)
        application, version = said.get("txnappid"), int(said.get("txnversion", "0"))
        with transaction(server) as cursor:
            target = Target.found(cursor, said.get("table", ""), columns)
            staging = Staging.of(target, said.get("stagingschema"), application, version)
            made = PostgresqlWriter(server, target, staging, arrow_schema(schema), overwrite, refuses_rows)
            made.check(cursor)
        return made


class PostgresqlWriter(DataSourceArrowWriter):
    """Of one run of a sink.

    Args:
        target: where the rows are to be in the end.
        staging: which tables are this run's until then.
        schema: of the rows, as Arrow's.
        refuses_rows: whether rows that are there already are an error.
    """

    def __init__(
        self, server: Server, target: Target, staging: Staging, schema: Any, overwrite: bool, refuses_rows: bool
    ) -> None:
        self.server, self.target, self.staging, self.schema = server, target, staging, schema
        self.overwrite, self.refuses_rows = overwrite, refuses_rows

    def check(self, cursor: Any) -> None:
        """Raises ValueError where the rows could not be written or not be committed."""
        self.staging.check(cursor)
        self.target.check(cursor)
        self.target.check_rights(cursor, overwrite=self.overwrite)
        if self.refuses_rows and not postgresql_commit.is_known(cursor, self.target, self.staging):
            self.target.check_empty(cursor)

    def write(self, iterator: Iterator[Any]) -> StagedRows:
        """One table, of a name that no other attempt has; none, if the attempt does not come to its end."""
        message = StagedRows(columns=self.target.columns, into_existing=self.target.is_there)
        first = next(iterator, None)
        if first is None:
            return message
        message.schema, message.table = self.staging.schema, self.staging.new_name(_partition())
        rows = _Rows(itertools.chain((first,), iterator), self.schema)
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.target.columns)
        try:
            with transaction(self.server) as cursor:
                cursor.execute(f"CREATE UNLOGGED TABLE {quoted(message.schema)}.{quoted(message.table)} ({columns})")
                cursor.adbc_ingest(message.table, rows.reader(), mode="append", db_schema_name=message.schema)
        except Exception:
            if rows.failure is None:
                raise
            raise rows.failure from None
        message.rows = rows.count
        return message

    def commit(self, messages: list[Any]) -> None:
        """All rows in one transaction; nothing, where the database has this run's already. Raises ValueError or
        LookupError where they do not fit together any more, and nothing has changed then."""
        written = [one for one in messages if one is not None]
        postgresql_commit.commit(
            self.server,
            self.target,
            self.staging,
            written,
            overwrite=self.overwrite,
            refuses_rows=self.refuses_rows,
        )
        postgresql_commit.drop_left_behind(self.server, self.target, self.staging, written)

    def abort(self, messages: list[Any]) -> None:
        """Drop their tables."""
        names = [(one.schema, one.table) for one in messages if one is not None and one.table]
        if names:
            postgresql_commit.drop(self.server, names)


class _Rows:
    """Batches on their way to the database, which asks for them from C.

    Attributes:
        count: of the rows that it has taken.
        failure: what the batches' source has raised, which is lost on that way.
    """

    def __init__(self, batches: Iterator[Any], schema: Any) -> None:
        import pyarrow

        self._batches = batches
        self._schema = pyarrow.schema([(one.name, sent_type(one.type)) for one in schema])
        self.count = 0
        self.failure: BaseException | None = None

    def reader(self) -> Any:
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(self._schema, self._taken())

    def _taken(self) -> Iterator[Any]:
        import pyarrow

        try:
            for batch in self._batches:
                columns = [batch.column(one.name).cast(one.type) for one in self._schema]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)
                self.count += batch.num_rows
        except BaseException as error:
            self.failure = error
            raise


def _columns(schema: Any) -> tuple[tuple[str, str], ...]:
    """Names and PostgreSQL's types. Raises ValueError where there is none."""
    found = []
    for of_spark, of_arrow in zip(schema, arrow_schema(schema), strict=True):
        kind = postgresql_type(of_arrow.type)
        if kind is None:
            raise ValueError(
                f"the column {of_spark.name} has the type {of_spark.dataType.simpleString()}, and PostgreSQL has none "
                "like it: select another, such as to_json() makes of it"
            )
        if len(of_spark.name.encode()) > _MOST_NAME:
            raise ValueError(f"the column {of_spark.name} has a name of more than {_MOST_NAME} bytes: rename it")
        found.append((of_spark.name, kind))
    if not found:
        raise ValueError("the rows have no columns: select some")
    return tuple(found)


def _partition() -> int:
    """Of the running task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
