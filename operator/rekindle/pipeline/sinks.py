"""Where a pipeline's answers go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import fspath
from os.path import abspath, normpath
from typing import Any, Literal, Protocol, runtime_checkable

SinkFormat = Literal["parquet", "csv"]
SaveMode = Literal["error", "overwrite"]


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
    """Files under one folder, published at once when every partition is complete.

    Attempts write elsewhere and only the admitted attempt's file is published, so concurrent attempts are
    supported unless `supports_concurrent_execution_attempts=False` says otherwise.

    Args:
        path: folder that all executors reach.
        format: "parquet" or "csv" (with a header line).
        mode: "error" refuses a folder that has content; "overwrite" replaces it.
    """

    path: str
    format: SinkFormat = "parquet"
    mode: SaveMode = "error"
    supports_concurrent_execution_attempts: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", fspath(self.path))  # a Path is welcome too

    @property
    def target(self) -> str:
        scheme, separator, rest = self.path.rpartition("://")
        if scheme in ("", "file"):
            return abspath(rest)
        return scheme + separator + normpath(rest)

    def __str__(self) -> str:
        return f"{self.format} files in {self.path}"


WriteMode = Literal["append", "overwrite"]


@dataclass(frozen=True, slots=True)
class SparkSink:
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
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: WriteMode = "append"
    table: str | None = None
    repeatable: bool | None = None
    supports_concurrent_execution_attempts: bool = True

    @property
    def format_name(self) -> str:
        """As Spark knows it; empty for that of tables."""
        return self.format if isinstance(self.format, str) else str(self.format.name())  # type: ignore[attr-defined]

    @property
    def may_repeat(self) -> bool:
        """Whether to write twice is as good as once."""
        return self.mode == "overwrite" if self.repeatable is None else self.repeatable

    @property
    def target(self) -> str:
        given = {str(key).lower(): str(value) for key, value in self.options.items()}
        where = self.table or next((given[key] for key in ("path", "dbtable", "topic", "table") if key in given), "")
        return " ".join(filter(None, (self.format_name, where)))

    def __str__(self) -> str:
        return f"{self.mode} to {self.target}"
