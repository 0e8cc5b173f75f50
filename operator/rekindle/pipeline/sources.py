"""Where a pipeline's data comes from, other than by a function of `spark`: a Python DataSource, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rekindle.pipeline.stage import StageFunction


@dataclass(frozen=True, slots=True)
class DataSourceRead:
    """What is read with a class of the kind `pyspark.sql.datasource.DataSource` that has a batch reader.

    Attributes:
        source: the class.
        options: as of `spark.read.options`.
        schema: of the rows, as of `spark.read.schema`; the source's own where None.
    """

    source: Any
    options: Mapping[str, str] = field(default_factory=dict)
    schema: Any = None

    @property
    def name(self) -> str:
        """What the source calls itself, or its class."""
        try:
            return str(self.source.name())
        except Exception:  # the user's own
            return str(getattr(self.source, "__name__", self.source))

    def function(self) -> StageFunction:
        """The same, read by Spark alone: which task reads what is fixed when Spark plans it."""

        def read(spark: SparkSession) -> DataFrame:
            spark.dataSource.register(self.source)
            reader = spark.read.format(self.source.name()).options(**self.options)
            return (reader if self.schema is None else reader.schema(self.schema)).load()

        read.__doc__ = f"DataSource {self.name}"
        return read
