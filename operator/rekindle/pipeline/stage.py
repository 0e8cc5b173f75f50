"""A stage: a function of DataFrames, run as one Spark job, whose result has a fixed number of partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.pipeline.distribution import Distribution
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.sinks import Sink
from rekindle.pipeline.sources import DataSourceRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

StageFunction = Callable[..., "DataFrame"]

SPARK_PARAMETER = "spark"
"""The one parameter of a stage function that is no input: it gets the SparkSession."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a built pipeline; everything is resolved and checked."""

    name: str
    fn: StageFunction
    """As the user wrote it. Called with keyword arguments: a DataFrame per input, `spark` if it takes it."""

    inputs: tuple[str, ...]
    """Names of the stages it reads, in the order of the function's parameters."""

    description: str
    """First line of the docstring, or empty."""

    distribution: Distribution

    partitions: int
    """Result partitions. A pointwise stage has as many as its source. Without meaning when PIPELINED."""

    exchange: ExchangeMode

    deterministic: bool | None
    """True: made again, its result is the same, so consumers of what was lost are spared. None: they are
    spared only where the digests are equal. False: they never are."""

    speculation: bool
    """False: the user allows no copies of this stage's partitions."""

    sink: Sink | None
    broadcast: frozenset[str]
    """The inputs of a pointwise stage that every partition reads whole."""

    is_source: bool
    takes_spark: bool
    is_streaming: bool = False
    source: DataSourceRead | None = None
    """What it reads by splits; `fn` is the same without Rekindle."""

    loop: LoopBody | None = None
    """What goes round, where the stage is a loop. Its first input goes in; `fn` is its body as the user wrote it."""
