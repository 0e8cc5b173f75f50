"""The operators of a loop's body, as nodes of a graph. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.core.loops.scopes import StreamScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rekindle.pipeline.loops.body import LoopBody

Function = Callable[..., "DataFrame"]


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator. It is equal to itself alone.

    Attributes:
        name: unique in its loop.
        scope: that it works in.
        inputs: the operators that it reads.
    """

    name: str
    scope: StreamScope
    inputs: tuple[Operator, ...]


@dataclass(frozen=True, eq=False)
class Entry(Operator):
    """Where a loop begins: what comes in, what is fed back, or both where these are one stream.

    Attributes:
        gives_input, gives_feedback: what its readers get.
    """

    gives_input: bool = True
    gives_feedback: bool = True


@dataclass(frozen=True, eq=False)
class Transform(Operator):
    """Rows made from rows, of each batch by itself.

    Attributes:
        fn: of the batch and the tables.
        tables: names of results from outside that each batch sees whole.
    """

    fn: Function
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Union(Operator):
    """The rows of several streams."""


@dataclass(frozen=True, eq=False)
class Update(Operator):
    """Keeps a row for each key, and puts out those that a batch has changed.

    Attributes:
        fn: of the batch, the state and the tables; returns the rows of the state that are new or other than before.
        keys: columns that tell rows of the state apart.
        schema: of the state's rows, as DDL.
    """

    fn: Function
    keys: tuple[str, ...]
    schema: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AtEnd(Operator):
    """The state of an update, once its loop has ended."""


@dataclass(frozen=True, eq=False)
class InnerLoop(Operator):
    """A loop within the loop; its output is in the scope around it."""

    body: LoopBody
