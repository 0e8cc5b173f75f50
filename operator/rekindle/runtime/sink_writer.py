"""What runs inside an executor: the rows of a sink's partition are given to the writer of a Python DataSource.

This module is sent to the executors by value, as `task` is, so it imports nothing else of the project. What the writer
returns, its commit message, is kept in the partition's manifest: so it is committed with the partition, or never.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_MESSAGE = 1 << 20
"""Bytes of a commit message."""


@dataclass(frozen=True)
class SinkWriter:
    """A writer on its way to executors.

    Attributes:
        pickled: the user's writer.
        schema: of the rows, as Spark's JSON.
    """

    pickled: bytes = field(repr=False)
    schema: str

    def write(self, batches: Iterable[Any]) -> str:
        """Have all rows of a partition written; the commit message as text.

        Raises TypeError for what is no message, and ValueError for one that is too long, after it has been aborted.
        """
        from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

        writer, given = self._writer(), iter(batches)
        message = writer.write(given if isinstance(writer, DataSourceArrowWriter) else self._rows(given))
        for _ in given:  # a writer may leave rows out; how many there were is counted all the same
            pass
        if not isinstance(message, WriterCommitMessage):
            raise TypeError(f"write() returned a {type(message).__name__}: return a WriterCommitMessage")
        return self._told(writer, message)

    def abort(self, message: str) -> None:
        """Have the writer drop what it has written. Raises what it does."""
        self._writer().abort([read_message(message)])

    def _writer(self) -> Any:
        return _unpickled(self.pickled)

    def _rows(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark.sql.conversion import ArrowTableToRowsConversion
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(json.loads(self.schema))
        for batch in batches:
            yield from ArrowTableToRowsConversion.convert(pyarrow.Table.from_batches([batch]), schema)

    def _told(self, writer: Any, message: Any) -> str:
        from pyspark import cloudpickle

        dumps: Any = cloudpickle.dumps
        try:
            pickled = bytes(dumps(message))
            if len(pickled) > MOST_MESSAGE:
                raise ValueError(f"its commit message has {len(pickled):,} bytes, and may have {MOST_MESSAGE:,}")
        except Exception:
            writer.abort([message])
            raise
        return base64.b64encode(pickled).decode()


def read_message(text: str) -> Any:
    """The commit message that `SinkWriter.write` has made text of."""
    return _unpickled(base64.b64decode(text))


def _unpickled(data: bytes) -> Any:
    from pyspark import cloudpickle

    loads: Any = cloudpickle.loads
    return loads(data)
