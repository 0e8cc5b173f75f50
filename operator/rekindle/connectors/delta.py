"""A Delta Lake table as a sink: tasks write files that no version of the table names yet, and the driver commits them.

    @pipeline.sink(DataSourceSink(Delta, {"path": "s3://lake/totals"}))
    def totals(delayed: DataFrame) -> DataFrame: ...

The table's log keeps which run has been committed (its `txn` action), so a commit that is asked for again changes
nothing. Executors need pyarrow, the driver `deltalake`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter

from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.delta_files import AddedFile, AddedFiles, remove, write_files
from rekindle.connectors.file_system import file_system
from rekindle.connectors.option_values import known_options

_FOLDER_TYPES = {"string", "bool", "date32[day]", "int8", "int16", "int32", "int64"}
_OTHER_OPTIONS = ("txnAppId", "txnVersion")
"""What a sink gives that knows its commits again."""


class Delta(DataSource):
    """The table in the folder `path`.

    It is made where there is none, partitioned by the columns of `partitionBy` ("year, month"). One that is there is
    written as it is partitioned.
    """

    supports_concurrent_execution_attempts = True
    idempotent_commit = True

    @classmethod
    def name(cls) -> str:
        """Spark's name for it."""
        return "rekindle-delta"

    def writer(self, schema: Any, overwrite: bool) -> DeltaWriter:
        """Raises ValueError for options that are none, and for a table that has other columns or is partitioned by
        others."""
        known_options("Delta", self.options, ("path", "partitionBy"), _OTHER_OPTIONS)
        if not self.options.get("path"):
            raise ValueError("Delta needs the option 'path': the table's folder")
        made = DeltaWriter(
            _absolute(self.options["path"]),
            arrow_schema(schema),
            [name.strip() for name in self.options.get("partitionBy", "").split(",") if name.strip()],
            overwrite,
            self.options.get("txnAppId"),
            int(self.options.get("txnVersion", "0")),
        )
        made.check_table()
        return made


class DeltaWriter(DataSourceArrowWriter):
    """Of one run of a sink.

    Args:
        root: the table's folder, in full: executors have working directories of their own.
        schema: of the rows, as Arrow's.
        partition_by: columns; none stands for those of the table that is there.
        application, version: what the commit is known again by; it is not where there is no application.
    """

    def __init__(
        self,
        root: str,
        schema: Any,
        partition_by: Sequence[str],
        overwrite: bool,
        application: str | None,
        version: int,
    ) -> None:
        self.root, self.schema, self.partition_by, self.overwrite = root, schema, list(partition_by), overwrite
        self.application, self.version = application, version

    def check_table(self) -> None:
        """Raises ValueError where the rows do not fit the table that is there, or cannot be partitioned so."""
        from deltalake import DeltaTable, Schema

        try:
            if not DeltaTable.is_deltatable(self.root):
                return self._check_partition_columns()
            table = DeltaTable(self.root)
        except OSError as error:
            raise ValueError(f"{self.root} cannot be looked at as the folder of a table: {error}") from error
        columns = list(table.metadata().partition_columns)
        if self.partition_by not in ([], columns):
            raise ValueError(
                f"the table in {self.root} is partitioned by {', '.join(columns) or 'nothing'}, and the option "
                f"'partitionBy' says {', '.join(self.partition_by)}: leave it out"
            )
        self.partition_by = columns
        wanted = Schema.from_arrow(self.schema)
        there, here = _columns(table.schema()), _columns(wanted)
        if there != here:
            raise ValueError(f"the table in {self.root} has the columns {there}, and the sink {here}: select those")
        self._check_partition_columns()
        return None

    def _check_partition_columns(self) -> None:
        """Raises ValueError."""
        for name in self.partition_by:
            if name not in self.schema.names:
                raise ValueError(f"'partitionBy' names {name!r}, and the columns are {', '.join(self.schema.names)}")
            kind = str(self.schema.field(name).type)
            if kind not in _FOLDER_TYPES:
                raise ValueError(
                    f"'partitionBy' names {name}, a column of {kind}: name one of text, whole numbers, dates or truth "
                    "values"
                )
        if len(set(self.partition_by)) < len(self.partition_by) or len(self.partition_by) == len(self.schema.names):
            raise ValueError(f"'partitionBy' is {', '.join(self.partition_by)}: name some of the columns, each once")

    def write(self, iterator: Iterator[Any]) -> AddedFiles:
        """Files of names that no other attempt has."""
        return write_files(self.root, self.partition_by, iterator)

    def commit(self, messages: list[Any]) -> None:
        """All files in one version of the table; nothing, where the table has this run's already."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        table = DeltaTable.create(self.root, self.schema, mode="ignore", partition_by=self.partition_by)
        known = None if self.application is None else table.transaction_version(self.application)
        if known is not None and known >= self.version:
            return
        files = list(itertools.chain.from_iterable(one.files for one in messages))
        self._check_files(files)
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(one.path, one.size, one.partition, now, True, one.stats) for one in files
        ]
        done = [] if self.application is None else [Transaction(self.application, self.version, now)]
        table.create_write_transaction(
            actions,
            "overwrite" if self.overwrite else "append",
            self.schema,
            partition_by=self.partition_by,
            commit_properties=CommitProperties(app_transactions=done),
        )

    def abort(self, messages: list[Any]) -> None:
        """Remove their files."""
        for one in messages:
            remove(self.root, one)

    def _check_files(self, written: Sequence[AddedFile]) -> None:
        """Raises FileNotFoundError where the table would name what is not there."""
        system, folder = file_system(self.root)
        there = system.get_file_info([f"{folder}/{one.path}" for one in written])
        for one, info in zip(written, there, strict=True):
            if info.size != one.size:
                raise FileNotFoundError(
                    f"{info.path} is not here as a task has written it: 'path' must name a folder that the driver and "
                    "all executors reach"
                )


def _absolute(root: str) -> str:
    return root if "://" in root else file_system(root)[1]


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} {getattr(field.type, 'type', field.type)}" for field in schema.fields)
