"""Rekindle keeps Spark jobs from starting over.

A pipeline is a graph of stages over DataFrames. Its exchanges are stored, so that a slow node gets a
second runner for its partitions, and a lost driver, executor, node or stored partition costs only the
part of the job that was lost.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rekindle.runtime.configure import configure

try:
    __version__ = version("rekindle")
except PackageNotFoundError:  # shipped to executors as a zip, without its metadata
    __version__ = "0+unknown"

__all__ = ["__version__", "configure"]


def __getattr__(name: str) -> Any:
    """`configure`, loaded when it is asked for: an executor that imports a module of ours needs none of it."""
    if name == "configure":
        from rekindle.runtime.configure import configure

        return configure
    raise AttributeError(f"module 'rekindle' has no attribute {name!r}")
