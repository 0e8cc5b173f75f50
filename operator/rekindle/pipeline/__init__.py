"""What a user imports to write a pipeline. Importing it starts no JVM and needs no session."""

from rekindle.core.source_coordinator import SplitEnumerator, SplitEnumeratorContext
from rekindle.core.splits import InputSplitAssigner
from rekindle.pipeline.distribution import Assigned, Distribution, Keyed, Pointwise, Rebalance
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.explain import explain
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.pipeline import Pipeline
from rekindle.pipeline.sinks import DataSourceSink, FileSink, Sink, SparkSink
from rekindle.pipeline.sources import SourceSplit
from rekindle.pipeline.stage import Stage

__all__ = [
    "Assigned",
    "DataSourceSink",
    "Distribution",
    "ExchangeMode",
    "FileSink",
    "InputSplitAssigner",
    "Keyed",
    "Pipeline",
    "PipelineError",
    "PipelineGraph",
    "Pointwise",
    "Rebalance",
    "Sink",
    "SourceSplit",
    "SparkSink",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "Stage",
    "explain",
]
