"""Where a pipeline's answers go."""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from os.path import abspath, normpath
from typing import Literal, Protocol, runtime_checkable

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
