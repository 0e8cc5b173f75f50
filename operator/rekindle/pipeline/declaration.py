"""What a decorator noted: a function and its options, as given, not yet checked."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from os.path import basename

from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.sinks import Sink
from rekindle.pipeline.sources import DataSourceRead
from rekindle.pipeline.stage import SPARK_PARAMETER, StageFunction


class Role(StrEnum):
    """Which decorator it was."""

    STAGE = "stage"
    SOURCE = "source"
    SINK = "sink"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Of a loop: the stage that it takes in, and whether feedback is a stream beside that; at most how many batches it
    may take; whether feedback always goes first; and the stages that it reads as tables, where its parameters are not
    called like them."""

    input: str
    own_feedback: bool
    most_activations: int | None = None
    feedback_first: bool = False
    tables: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a decorator, as given: `checks` says what they may be."""

    partition_by: tuple[str, ...] | None = None
    partitions: int | None = None
    pointwise: bool = False
    broadcast: tuple[str, ...] = ()
    exchange: str = "blocking"
    deterministic: bool | None = None
    speculation: bool = True
    streaming: bool = False
    sink: Sink | None = None
    source: DataSourceRead | None = None
    loop: LoopOptions | None = None


@dataclass(frozen=True)
class Declaration:
    """One decorated function."""

    role: Role
    fn: StageFunction
    name: str
    options: Options = field(default_factory=Options)

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        return tuple(signature(self.fn).parameters.values())

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the stages it reads: all its parameters but `spark`; of a loop its input, and its parameters behind
        those that are streams."""
        names = tuple(parameter.name for parameter in self.parameters if parameter.name != SPARK_PARAMETER)
        loop = self.options.loop
        if loop is None:
            return names
        return (loop.input, *(loop.tables if isinstance(loop.tables, tuple) else names[1 + loop.own_feedback :]))

    @property
    def main_inputs(self) -> tuple[str, ...]:
        """The inputs that are not broadcast."""
        return tuple(name for name in self.inputs if name not in self.options.broadcast)

    @property
    def takes_spark(self) -> bool:
        return self.options.loop is None and len(self.inputs) < len(self.parameters)

    @property
    def description(self) -> str:
        return (inspect.getdoc(self.fn) or "").partition("\n")[0].strip()

    @property
    def location(self) -> str:
        """File and line of the function, for messages."""
        source = self.options.source
        if source is not None and source.reads is None:
            return f"DataSource {source.name}"
        function = self.fn if source is None or source.reads is None else source.reads
        code = getattr(inspect.unwrap(function), "__code__", None)
        return f"{basename(code.co_filename)} line {code.co_firstlineno}" if code else "no function"

    def error(self, problem: str, remedy: str) -> PipelineError:
        """An error about this declaration; `problem` goes on with a sentence that begins with its name."""
        message = f"{self.role} {self.name!r} ({self.location}) {problem}"
        return PipelineError(message, remedy=remedy, stage=self.name)


def signature(fn: StageFunction) -> inspect.Signature:
    """The signature of `fn`, whose type hints need not mean anything at run time."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)
