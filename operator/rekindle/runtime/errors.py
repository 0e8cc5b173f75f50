"""What can end a run, each with the exit code that `rekindle run` documents for it.

An error names the object, the field and the remedy, and fits one screen: a driver that was started by
`rekindle run` writes it as JSON where its launcher looks for it (`spark.rekindle.driver.error`).
"""

from __future__ import annotations

from typing import ClassVar

BEGIN_ANEW = "begin anew (rekindle run --fresh; elsewhere remove the store or name another)"
"""A remedy that drops what is stored."""


class RekindleError(Exception):
    """Base of all errors that end a run.

    Args:
        message: what is wrong, with the name of the thing.
        remedy: what the user can do about it.
        stage: the stage it happened in, if any.
        partition: the partition of that stage, if one.
        traceback: the user's own traceback as text, if user code raised.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        stage: str | None = None,
        partition: int | None = None,
        traceback: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.stage = stage
        self.partition = partition
        self.traceback = traceback

    def __str__(self) -> str:
        """One screen: message, the user's traceback, remedy."""
        parts = [self.message]
        if self.traceback:
            parts.append(self.traceback.rstrip())
        if self.remedy:
            parts.append(f"-> {self.remedy}")
        return "\n".join(parts)

    def to_record(self) -> dict[str, object]:
        """The error as JSON types: kind, exitCode, message, remedy, stage, partition, traceback."""
        return {
            "kind": self.kind,
            "exitCode": self.exit_code,
            "message": self.message,
            "remedy": self.remedy,
            "stage": self.stage,
            "partition": self.partition,
            "traceback": self.traceback,
        }


class PipelineFailed(RekindleError):
    """A stage failed for good: user code raised, or a failure budget is used up."""

    kind = "pipeline-failed"
    exit_code = 1


class InputLost(PipelineFailed):
    """Stored data vanished while a stage was planned on it; planning again finds out what to restart."""


class PipelineMisuse(RekindleError):
    """The pipeline asks for what it cannot have, seen only with Spark's plan at hand."""

    kind = "pipeline-misuse"
    exit_code = 2


class EnvironmentProblem(RekindleError):
    """The session or the machine lacks what a run needs."""

    kind = "environment"
    exit_code = 3


class StoreRefused(RekindleError):
    """The store belongs to another application or version, is in use, or is damaged."""

    kind = "store-refused"
    exit_code = 4


class StoreFull(StoreRefused):
    """No space is left in the store, or its limit is reached."""

    kind = "store-full"


class Fenced(StoreRefused):
    """Another driver has taken over this run; this one may not write any more."""

    kind = "fenced"
