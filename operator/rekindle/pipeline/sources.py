"""Where a pipeline's data comes from, other than by a function of `spark`: a Python DataSource, as it is.

A source may say more than Spark asks of it. A class with a method `split_assigner(splits)` hands out its splits in an
order of its own; one with `split_enumerator(context, splits)` decides who reads what, and may talk with its readers.
Splits whose partition has an attribute `hosts` are read there rather than elsewhere, where that can be chosen. A class
with `secret_options` names options that are not stored; its reader has a method `with_secrets(options)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rekindle.core.source_coordinator import SplitEnumerator, SplitEnumeratorContext
from rekindle.core.splits import InputSplitAssigner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.pipeline.stage import StageFunction


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A split of a source: its place in what `partitions()` returned, and what lies there."""

    number: int
    partition: Any = field(default=None, compare=False)


@runtime_checkable
class HasSplitAssigner(Protocol):
    """A source that hands out its splits in an order of its own."""

    def split_assigner(self, splits: Sequence[SourceSplit]) -> InputSplitAssigner[SourceSplit]:
        """Of the splits that are left to be read: under a driver that takes over, not all."""
        ...


@runtime_checkable
class HasSplitEnumerator(Protocol):
    """A source that decides which of its subtasks reads which split."""

    def split_enumerator(
        self, context: SplitEnumeratorContext[SourceSplit], splits: Sequence[SourceSplit]
    ) -> SplitEnumerator[SourceSplit]:
        """Of the splits that are left to be read: under a driver that takes over, not all."""
        ...


@dataclass(frozen=True, slots=True)
class DataSourceRead:
    """What is read with a class of the kind `pyspark.sql.datasource.DataSource` that has a batch reader.

    Attributes:
        source: the class; None where a function reads.
        options: as of `spark.read.options`.
        schema: of the rows, as of `spark.read.schema`; the source's own where None.
        reads: the user's function.
        splits: and how many it says there are.
        side_effects: whether reading may change anything, so that it must not be done twice at a time.
    """

    source: Any
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: Any = None
    reads: Callable[..., Iterator[Any]] | None = None
    splits: Any = None
    side_effects: bool = False

    @property
    def name(self) -> str:
        """What the source calls itself, or its class or function."""
        if self.source is None:
            return str(getattr(self.reads, "__name__", "function"))
        try:
            return str(self.source.name())
        except Exception:  # the user's own
            return str(getattr(self.source, "__name__", self.source))

    @property
    def secrets(self) -> dict[str, str]:
        """The options that the class calls secret: they go to executors, and are neither stored nor compared."""
        names = {str(name).lower() for name in getattr(self.source, "secret_options", ())}
        return {name: value for name, value in self.options.items() if name.lower() in names}

    def data_source(self) -> Any:
        """The class."""
        return self.source if self.reads is None else _function_source(self.reads, self.name, self.splits)

    def function(self) -> StageFunction:
        """The same, read by Spark alone: which task reads what is fixed when Spark plans it."""

        def read(spark: SparkSession) -> DataFrame:
            source = self.data_source()
            spark.dataSource.register(source)
            reader = spark.read.format(source.name()).options(**self.options)
            return (reader if self.schema is None else reader.schema(self.schema)).load()

        read.__doc__ = f"DataSource {self.name}" if self.reads is None else inspect.getdoc(self.reads) or ""
        return read


def _function_source(fn: Callable[..., Iterator[Any]], name: str, splits: int) -> type:
    """A DataSource of `splits` splits, each of which is read by a call of `fn(split, splits)`."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(split) for split in range(splits)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            return iter(fn(partition.value, splits))

    class FunctionSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return FunctionSource
