"""A Delta Lake table as a sink: tasks write files that no version of the table names yet, and the driver commits them.

    @pipeline.sink(DataSourceSink(Delta, {"path": "s3://lake/totals"}))
    def totals(delayed: DataFrame) -> DataFrame: ...

The table's log keeps which run has been committed (its `txn` action), so a commit that is asked for again changes
nothing. Executors need pyarrow, the driver `deltalake`.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.file_system import file_system

_OPTIONS = {"path", "txnappid", "txnversion"}


@dataclass
class AddedFile(WriterCommitMessage):
    """A file below the table's folder; `path` is empty where there were no rows."""

    path: str = ""
    size: int = 0
    rows: int = 0


class Delta(DataSource):
    """The table in the folder `path`, which is made where there is none."""

    supports_concurrent_execution_attempts = True
    idempotent_commit = True

    @classmethod
    def name(cls) -> str:
        """Spark's name for it."""
        return "rekindle-delta"

    def writer(self, schema: Any, overwrite: bool) -> DeltaWriter:
        """Raises ValueError for options that are none, and for a table that is partitioned or has other columns."""
        if unknown := sorted(name for name in self.options if name.lower() not in _OPTIONS):
            raise ValueError(f"Delta has no option {unknown[0]!r}: there is 'path'")
        if not self.options.get("path"):
            raise ValueError("Delta needs the option 'path': the table's folder")
        made = DeltaWriter(
            _absolute(self.options["path"]),
            arrow_schema(schema),
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
        application, version: what the commit is known again by; it is not where there is no application.
    """

    def __init__(self, root: str, schema: Any, overwrite: bool, application: str | None, version: int) -> None:
        self.root, self.schema, self.overwrite = root, schema, overwrite
        self.application, self.version = application, version

    def check_table(self) -> None:
        """Raises ValueError where the rows do not fit the table that is there."""
        from deltalake import DeltaTable, Schema

        try:
            if not DeltaTable.is_deltatable(self.root):
                return
            table = DeltaTable(self.root)
        except OSError as error:
            raise ValueError(f"{self.root} cannot be looked at as the folder of a table: {error}") from error
        if columns := table.metadata().partition_columns:
            raise ValueError(f"the table in {self.root} is partitioned by {', '.join(columns)}: Delta writes to others")
        wanted = Schema.from_arrow(self.schema)
        there, here = _columns(table.schema()), _columns(wanted)
        if there != here:
            raise ValueError(f"the table in {self.root} has the columns {there}, and the sink {here}: select those")

    def write(self, iterator: Iterator[Any]) -> AddedFile:
        """One file, of a name that no other attempt has."""
        import pyarrow.parquet

        first = next(iterator, None)
        if first is None:
            return AddedFile()
        system, folder = file_system(self.root)
        system.create_dir(folder, recursive=True)
        name, rows = f"part-{uuid.uuid4().hex}.snappy.parquet", 0
        try:
            with pyarrow.parquet.ParquetWriter(f"{folder}/{name}", first.schema, filesystem=system) as file:
                for batch in itertools.chain((first,), iterator):
                    file.write_batch(batch)
                    rows += batch.num_rows
        except BaseException:
            self._remove([name])
            raise
        return AddedFile(name, system.get_file_info(f"{folder}/{name}").size, rows)

    def commit(self, messages: list[Any]) -> None:
        """All files in one version of the table; nothing, where the table has this run's already."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        table = DeltaTable.create(self.root, self.schema, mode="ignore")
        known = None if self.application is None else table.transaction_version(self.application)
        if known is not None and known >= self.version:
            return
        self._check_files([one for one in messages if one.path])
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(one.path, one.size, {}, now, True, json.dumps({"numRecords": one.rows}))
            for one in messages
            if one.path
        ]
        done = [] if self.application is None else [Transaction(self.application, self.version, now)]
        table.create_write_transaction(
            actions,
            "overwrite" if self.overwrite else "append",
            self.schema,
            commit_properties=CommitProperties(app_transactions=done),
        )

    def abort(self, messages: list[Any]) -> None:
        """Remove their files."""
        self._remove([one.path for one in messages if one.path])

    def _check_files(self, written: list[Any]) -> None:
        """Raises FileNotFoundError where the table would name what is not there."""
        system, folder = file_system(self.root)
        there = system.get_file_info([f"{folder}/{one.path}" for one in written])
        for one, info in zip(written, there, strict=True):
            if info.size != one.size:
                raise FileNotFoundError(
                    f"{info.path} is not here as a task has written it: 'path' must name a folder that the driver and "
                    "all executors reach"
                )

    def _remove(self, names: list[str]) -> None:
        from pyarrow.fs import FileType

        system, folder = file_system(self.root)
        for name in names:
            if system.get_file_info(f"{folder}/{name}").type == FileType.File:
                system.delete_file(f"{folder}/{name}")


def _absolute(root: str) -> str:
    return root if "://" in root else file_system(root)[1]


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} {getattr(field.type, 'type', field.type)}" for field in schema.fields)
