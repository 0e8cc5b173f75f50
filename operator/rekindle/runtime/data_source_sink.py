"""Sinks whose tasks write by a Python DataSource: its writer, made for them and for the driver, which commits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.sinks import DataSourceSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import InputLost, PipelineMisuse, RekindleError
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.publication import WriteFailed
from rekindle.runtime.sink_writer import SinkWriter, read_message
from rekindle.runtime.source_splits import pickled

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

APPLICATION_OPTION, VERSION_OPTION = "txnAppId", "txnVersion"
"""As Delta Lake calls what a commit is known again by."""


class SinkRaised(Exception):
    """The DataSource of a sink raised when its writer was made for the tasks.

    Attributes:
        sink: the DataSource's name.
        error: what it raised.
    """

    def __init__(self, sink: str, error: BaseException) -> None:
        super().__init__(f"{sink}: {error!r}")
        self.sink, self.error = sink, error


def sendable_writer(stage: Stage, schema: StructType, identity: str) -> SinkWriter | None:
    """What the tasks of a stage give their rows to; None where these are stored. Raises SinkRaised, and
    PipelineMisuse for a writer that is none or cannot be pickled."""
    if not isinstance(stage.sink, DataSourceSink):
        return None
    name = stage.sink.format_name
    try:
        writer = made_writer(stage, stage.sink, schema, identity)
    except RekindleError:
        raise
    except BaseException as error:  # SystemExit among them
        raise SinkRaised(name, error) from error
    return SinkWriter(pickled(stage.name, "its writer", writer), schema.json())


def made_writer(stage: Stage, sink: DataSourceSink, schema: StructType, identity: str) -> Any:
    """The source's writer, as Spark makes it. Raises PipelineMisuse where it is none, and what the source raises.

    Args:
        identity: of the run, `store/number`: what its commit is known again by.
    """
    from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceWriter

    options = {str(key): str(value) for key, value in sink.options.items() if value is not None}
    if sink.has_idempotent_commit:
        store, _, number = identity.rpartition("/")
        options |= {APPLICATION_OPTION: f"{store}/{stage.name}", VERSION_OPTION: number}
    writer = sink.source(options=CaseInsensitiveDict(options)).writer(schema, sink.mode == "overwrite")
    if not isinstance(writer, DataSourceWriter):
        raise PipelineMisuse(
            f"sink {stage.name}: writer() of {sink.format_name} returned {type(writer).__name__}",
            remedy="return a pyspark.sql.datasource.DataSourceWriter",
            stage=stage.name,
        )
    return writer


def messages_of(stage: Stage, manifests: Sequence[Manifest]) -> list[str]:
    """The commit messages of a result, as text. Raises InputLost for a partition that was stored instead."""
    messages = [manifest.message for manifest in manifests if manifest.message is not None]
    if len(messages) != len(manifests):
        raise InputLost(
            f"sink {stage.name}: {len(manifests) - len(messages)} of its partitions have no commit message",
            remedy=f"have it made again: rekindle rerun {stage.name}",
            stage=stage.name,
        )
    return messages


def digest_of(messages: Sequence[str]) -> str:
    """Tells apart what was written by which attempts."""
    return hashlib.sha256("\n".join(messages).encode()).hexdigest()


def commit(stage: Stage, sink: DataSourceSink, schema: StructType, identity: str, messages: Sequence[str]) -> None:
    """Commit what the attempts wrote that made the result. Raises WriteFailed."""
    try:
        writer = made_writer(stage, sink, schema, identity)
        given = [read_message(message) for message in messages]
    except Exception as error:  # the user's own
        raise WriteFailed(error, has_begun=False) from error
    try:
        writer.commit(given)
    except Exception as error:
        raise WriteFailed(error, has_begun=True) from error


def abort(stage: Stage, sink: DataSourceSink, schema: StructType, identity: str, messages: Sequence[str]) -> None:
    """Drop what attempts wrote that have lost. Raises what the source and its writer do."""
    made_writer(stage, sink, schema, identity).abort([read_message(message) for message in messages])
