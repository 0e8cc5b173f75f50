"""Where a pipeline's answers go."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import fspath
from os.path import abspath, normpath
from typing import Any, Literal, Protocol, runtime_checkable

SinkFormat = Literal["parquet", "csv"]
SaveMode = Literal["error", "overwrite", "append", "overwrite_partitions"]


@runtime_checkable
class Sink(Protocol):
    """The destination of a sink stage."""

    @property
    def supports_concurrent_execution_attempts(self) -> bool:
        """Whether several attempts may write the same partition at once, with one of them made visible.

        False in a subclass that does not say. A sink without this capability is never speculated (FLIP-281's
        SupportsConcurrentExecutionAttempts; `S5-5` to `S5-7`).
        """
        return False

    @property
    def target(self) -> str:
        """What is written to, in one spelling: two sinks of a pipeline must not have the same."""
        ...


@dataclass(frozen=True, slots=True)
class FileSink:
    """Files under one folder, published when every partition is complete: the whole folder at once, or file by file
    where the mode keeps what is there.

    Attempts write elsewhere and only the admitted attempt's file is published, so concurrent attempts are
    supported unless `supports_concurrent_execution_attempts=False` says otherwise.

    Args:
        path: folder that all executors reach.
        format: "parquet" or "csv" (with a header line).
        mode: "error" refuses a folder that has content; "overwrite" replaces it; "append" adds to it, once for each
            run; "overwrite_partitions" replaces those of its `hive_partitions` that the result has rows of (Spark's
            `partitionOverwriteMode=dynamic`).
        hive_partitions: columns that are written as names of folders, `year=2013/month=1`, and not into the files (as
            of `DataFrameWriter.partitionBy`); one name or several, the outermost first.
    """

    path: str
    format: SinkFormat = "parquet"
    mode: SaveMode = "error"
    supports_concurrent_execution_attempts: bool = True
    hive_partitions: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", fspath(self.path))  # a Path is welcome too
        object.__setattr__(self, "hive_partitions", _names(self.hive_partitions))

    @property
    def keeps_what_is_there(self) -> bool:
        """Whether files are put beside those that its folder has."""
        return self.mode in ("append", "overwrite_partitions")

    @property
    def target(self) -> str:
        return _one_spelling(self.path)

    def __str__(self) -> str:
        by = f" by {', '.join(self.hive_partitions)}" if self.hive_partitions else ""
        return f"{self.format} files in {self.path}{by}"


def _names(given: Any) -> Any:
    """One name or several as a tuple; anything else as it is, for `build` to complain about."""
    if isinstance(given, str):
        return (given,)
    return tuple(given) if isinstance(given, Sequence) else given


def _one_spelling(path: str) -> str:
    scheme, separator, rest = path.rpartition("://")
    if scheme in ("", "file"):
        return abspath(rest)
    return scheme + separator + normpath(rest)


WriteMode = Literal["append", "overwrite"]

_PLACES = ("path", "dbtable", "topic", "table", "collection")
_SECRET = ("password", "passwd", "secret", "token", "credential", "key")
"""In the names of options that say nothing of the place."""
_PASSWORD_WITHIN = re.compile(r"(?<=://)([^:/?@]*):[^/?@]*@|\b(password=)(?:'(?:[^'\\]|\\.)*'|[^&;\s]*)", re.IGNORECASE)
"""In a URL, or in a database's connection string."""


class WrittenElsewhere(Sink):
    """A sink whose result somebody else writes, in one act at the end of a run: what such sinks have in common.

    Attributes:
        options: of whoever writes; there may be passwords among them.
        mode: "append" or "overwrite".
        repeatable: whether it may be written again when nobody can tell how far it came; None where it is not said.
        table: its name, where it is one of Spark's tables.
    """

    __slots__ = ()
    options: Mapping[str, Any]
    mode: WriteMode
    repeatable: bool | None

    @property
    def table(self) -> str | None:
        return None

    @property
    def format_name(self) -> str:
        """As Spark knows it; empty for that of tables."""
        raise NotImplementedError

    @property
    def may_repeat(self) -> bool:
        """Whether to write twice is as good as once."""
        if self.repeatable is not None:
            return self.repeatable
        return self.has_idempotent_commit or self.mode == "overwrite"

    @property
    def has_idempotent_commit(self) -> bool:
        """Whether what was written before is known again, and not written twice."""
        return False

    @property
    def target(self) -> str:
        where = self.table or next((self._said[key] for key in _PLACES if key in self._said), "")
        return " ".join(filter(None, (self.format_name, where)))

    @property
    def place(self) -> str:
        """Where that is, so that two sinks can be told apart: a path in one spelling, or a digest of all that is said
        but for secrets."""
        if self.path is not None:
            return _one_spelling(self.path)
        said = sorted(
            (name, _without_password(value))
            for name, value in self._said.items()
            if not any(word in name for word in _SECRET)
        )
        told = json.dumps([self.format_name, self.table, said])
        return f"spark-{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    @property
    def path(self) -> str | None:
        """The path that is written to, where it is one."""
        return None if self.table else self._said.get("path")

    @property
    def _said(self) -> dict[str, str]:
        return {str(key).lower(): str(value) for key, value in self.options.items() if value is not None}

    def __str__(self) -> str:
        return f"{self.mode} to {self.target}"


def _without_password(text: str) -> str:
    return _PASSWORD_WITHIN.sub(lambda found: f"{found[1]}@" if found[2] is None else found[2], text)


@dataclass(frozen=True, slots=True)
class SparkSink(WrittenElsewhere):
    """Whatever Spark can write to: a table, a database, a Python DataSource. The result is stored like any other, and
    when the whole pipeline has finished one job of Spark's writes it there.

    Attempts write to the store, so several at once are always supported. The job at the end is Spark's: of its tasks'
    attempts one is committed, where the format knows commits.

    Args:
        format: as of `DataFrame.write.format`, or a Python DataSource with a writer.
        options: as of `DataFrame.write.options`.
        mode: "append" adds to what is there; "overwrite" replaces it.
        table: as of `saveAsTable`; without one `save` is called.
        repeatable: whether the job may run again when a driver was lost in the midst of it, and nobody can tell how far
            it came. Unless given, it may where it overwrites.
    """

    format: str | type = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # there may be passwords among them
    mode: WriteMode = "append"
    table: str | None = None
    repeatable: bool | None = None
    supports_concurrent_execution_attempts: bool = True

    @property
    def format_name(self) -> str:
        return self.format if isinstance(self.format, str) else str(self.format.name())  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class DataSourceSink(WrittenElsewhere):
    """A Python DataSource whose writer is given the rows as they are made, and commits them when the whole pipeline has
    finished.

    The writer's `write` runs in the tasks of the stage itself, so its rows are not stored: what it writes must not be
    seen before `commit`. That is called once, in the driver, with one message for each partition; `abort` is called
    with those of attempts that have lost.

    Args:
        source: a subclass of `pyspark.sql.datasource.DataSource` with a batch writer.
        options: as of `DataFrame.write.options`.
        mode: "append" or "overwrite", which the writer is told.
        repeatable: whether `commit` may be called again when a driver was lost in the midst of it. Unless given, it may
            where it overwrites, and where the class says `idempotent_commit = True`.
        concurrent_attempts: whether two attempts may write the same partition at a time. Unless given, where the class
            says `supports_concurrent_execution_attempts = True`.
    """

    source: Any
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    mode: WriteMode = "append"
    repeatable: bool | None = None
    concurrent_attempts: bool | None = None

    @property
    def supports_concurrent_execution_attempts(self) -> bool:
        """By what is said here, or else by the class."""
        if self.concurrent_attempts is not None:
            return self.concurrent_attempts
        return getattr(self.source, "supports_concurrent_execution_attempts", False) is True

    @property
    def has_idempotent_commit(self) -> bool:
        """Whether the source knows a commit again that it has done, by its options `txnAppId` and `txnVersion`."""
        return getattr(self.source, "idempotent_commit", False) is True

    @property
    def format_name(self) -> str:
        return str(self.source.name())
