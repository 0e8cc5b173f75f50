"""What goes to executors with its code: they need pyarrow and numpy, not Rekindle."""

from __future__ import annotations

from typing import Any, TypeVar

from rekindle import connectors
from rekindle.runtime import posix_storage, s3_storage, sink_writer, split_reader, storage, task

T = TypeVar("T")

_MODULES = (connectors, task, storage, posix_storage, s3_storage, sink_writer, split_reader)


def by_value(what: T) -> T:
    """`what`, ready to be sent: what it has of these modules and packages goes with it."""
    from pyspark import cloudpickle

    register: Any = cloudpickle.register_pickle_by_value  # PySpark ships it without types
    for module in _MODULES:
        register(module)
    return what
