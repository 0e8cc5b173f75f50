"""What goes to executors with its code: they need pyarrow and numpy, not Rekindle."""

from __future__ import annotations

from typing import Any, TypeVar

from rekindle.runtime import posix_storage, s3_storage, sink_writer, split_reader, storage, task

T = TypeVar("T")

_MODULES = (task, storage, posix_storage, s3_storage, sink_writer, split_reader)


def by_value(what: T) -> T:
    """`what`, a function or a class of these modules, ready to be sent."""
    from pyspark import cloudpickle

    register: Any = cloudpickle.register_pickle_by_value  # PySpark ships it without types
    for module in _MODULES:
        register(module)
    return what
