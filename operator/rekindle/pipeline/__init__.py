"""What a user imports to write a pipeline. Importing it starts no JVM and needs no session."""

from rekindle.pipeline.distribution import Distribution, Keyed, Pointwise, Rebalance
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.explain import explain
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.pipeline import Pipeline
from rekindle.pipeline.sinks import FileSink, Sink
from rekindle.pipeline.stage import Stage

__all__ = [
    "Distribution",
    "ExchangeMode",
    "FileSink",
    "Keyed",
    "Pipeline",
    "PipelineError",
    "PipelineGraph",
    "Pointwise",
    "Rebalance",
    "Sink",
    "Stage",
    "explain",
]
