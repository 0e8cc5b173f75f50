"""The class a user writes a pipeline with.

    from rekindle.pipeline import Pipeline

    pipeline = Pipeline("flights")

    @pipeline.source
    def flights(spark: SparkSession) -> DataFrame:
        return spark.read.parquet("data/flights")

    @pipeline.stage(partition_by="carrier")
    def delayed(flights: DataFrame) -> DataFrame:
        "Flights that arrived late."
        return flights.where("arr_delay > 0")

    @pipeline.sink("out/delays")
    def delays(delayed: DataFrame) -> DataFrame:
        return delayed.groupBy("carrier").count()

    if __name__ == "__main__":
        pipeline.run()

The decorators note and return the function unchanged, so a test can call it with DataFrames of its own.
Nothing is checked before `build`, which `run` calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rekindle.pipeline.build import build_graph
from rekindle.pipeline.declaration import Declaration, LoopOptions, Options, Role
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.loops.functions import body_of
from rekindle.pipeline.sinks import FileSink, Sink
from rekindle.pipeline.sources import DataSourceRead
from rekindle.pipeline.stage import StageFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from rekindle.runtime.result import RunResult

F = TypeVar("F", bound=StageFunction)
G = TypeVar("G", bound=Callable[..., Any])

DEFAULT_PARTITIONS = 8


class Pipeline:
    """A graph of stages in the making.

    Args:
        name: says whose store it is, and what the Spark jobs are called.
        default_partitions: result partitions of the stages that do not say how many.
    """

    def __init__(self, name: str, *, default_partitions: int = DEFAULT_PARTITIONS) -> None:
        self.name = name
        self.default_partitions = default_partitions
        self._declarations: list[Declaration] = []

    @overload
    def stage(self, fn: F, /) -> F: ...

    @overload
    def stage(
        self,
        fn: None = None,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        pointwise: bool = False,
        broadcast: str | Sequence[str] = (),
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
        name: str | None = None,
    ) -> Callable[[F], F]: ...

    def stage(
        self,
        fn: Any = None,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        pointwise: bool = False,
        broadcast: str | Sequence[str] = (),
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
        name: str | None = None,
    ) -> Any:
        """Declare a stage: a function of other stages' results.

        Its parameters are the names of the stages it reads; a parameter named `spark` gets the SparkSession.
        The docstring's first line becomes its description.

        Args:
            partition_by: columns of the result to hash partition it by. Joins and aggregates by the same
                columns in the stages that read it then need no further exchange.
            partitions: how many result partitions; the pipeline's `default_partitions` unless given.
            pointwise: partition i is made from partition i of the one input that is not broadcast. The
                function may select, filter, map and join with broadcast inputs, not exchange rows.
            broadcast: inputs that every partition of a pointwise stage reads whole.
            exchange: "blocking" (stored), "pipelined" (not stored, computed inside its one consumer) or
                "cached" (kept by the executors).
            deterministic: True promises the same result when made again; False forbids to believe it.
            speculation: False allows no second attempt beside a slow one.
            name: of the stage; the function's name unless given.
        """
        options = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            pointwise=pointwise,
            broadcast=_names(broadcast),
            exchange=exchange,
            deterministic=deterministic,
            speculation=speculation,
        )
        return self._decorate(Role.STAGE, fn, name, options)

    @overload
    def source(self, fn: F, /) -> F: ...

    @overload
    def source(
        self,
        fn: None = None,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
        streaming: bool = False,
        name: str | None = None,
    ) -> Callable[[F], F]: ...

    def source(
        self,
        fn: Any = None,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
        streaming: bool = False,
        name: str | None = None,
    ) -> Any:
        """Declare a source: a function of `spark` alone, or of nothing, that reads data from outside.

        The options are those of `stage`.

        Args:
            streaming: it is unbounded. Streams are not speculated: say speculation=False too.
        """
        options = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            exchange=exchange,
            deterministic=deterministic,
            speculation=speculation,
            streaming=streaming,
        )
        return self._decorate(Role.SOURCE, fn, name, options)

    def read(
        self,
        name: str,
        source: Any,
        /,
        *,
        options: Mapping[str, object] | None = None,
        schema: str | StructType | None = None,
        partitions: int | None = None,
        partition_by: str | Sequence[str] | None = None,
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
    ) -> None:
        """Declare a source that is read by splits: a Python DataSource with a batch reader, as it is.

        What its `partitions()` returns are the splits. Each of `partitions` tasks is given one at a time, and asks for
        another when it has read that: who reads slowly reads fewer. All attempts of a task read the same splits in the
        same order, under this driver and later ones.

        Args:
            name: of the stage: parameters of other stages that read it are called so.
            source: a subclass of `pyspark.sql.datasource.DataSource`.
            options: as of `spark.read.options`.
            schema: of the rows, as of `spark.read.schema`; what the source says unless given.
            partitions: how many tasks read, and result partitions; the pipeline's `default_partitions` unless given.
                As many as there are cores is a good number: tasks that come late find nothing left.
            partition_by: as of `stage`. Without it partition i is what task i has read.
            exchange: as of `stage`.
            deterministic: as of `stage`.
            speculation: as of `stage`.
        """
        given = {str(key): _as_option(value) for key, value in (options or {}).items() if value is not None}
        declared = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            exchange=exchange,
            deterministic=deterministic,
            speculation=speculation,
        )
        self._declare_read(name, DataSourceRead(source, given, schema), declared)

    def source_function(
        self,
        schema: str | StructType,
        /,
        *,
        splits: int,
        side_effects: bool = True,
        partitions: int | None = None,
        partition_by: str | Sequence[str] | None = None,
        exchange: str | ExchangeMode = ExchangeMode.BLOCKING,
        deterministic: bool | None = None,
        speculation: bool = True,
        name: str | None = None,
    ) -> Callable[[G], G]:
        """Declare a source that is a function which reads by itself: `fn(split, splits)` gives the rows of one split.

            @pipeline.source_function("id BIGINT, name STRING", splits=100, side_effects=False)
            def users(split: int, splits: int) -> Iterator[tuple]:
                yield from fetch(f"{URL}/users?page={split}&of={splits}")

        It runs on executors, once for each split, and again where a task fails or a result is lost.

        Args:
            schema: of the rows.
            splits: how many there are, numbered from 0.
            side_effects: False promises that reading changes nothing, so that two attempts may read at the same time;
                without that promise the source is not copied.
            partitions: as of `read`, like what follows.
            name: of the stage; the function's name unless given.
        """

        declared = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            exchange=exchange,
            deterministic=deterministic,
            speculation=speculation,
        )

        def declare(function: G) -> G:
            read = DataSourceRead(None, {}, schema, function, splits, side_effects)
            self._declare_read(_name_of(function, name), read, declared)
            return function

        return declare

    def sink(
        self,
        target: str | PathLike[str] | Sink,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        pointwise: bool = False,
        broadcast: str | Sequence[str] = (),
        deterministic: bool | None = None,
        speculation: bool = True,
        name: str | None = None,
    ) -> Callable[[F], F]:
        """Declare a sink: a stage whose result is published at `target`, a path or a sink such as `FileSink`.

        The options are those of `stage`. Sinks are speculated only with `speculation.sinkEnabled`.
        """
        bare = inspect.isfunction(target)  # @pipeline.sink without a target: build says so
        options = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            pointwise=pointwise,
            broadcast=_names(broadcast),
            deterministic=deterministic,
            speculation=speculation,
            sink=None if bare else _as_sink(target),
        )
        declare: Callable[[F], F] = self._decorate(Role.SINK, target if bare else None, name, options)
        return declare

    def iterate(
        self,
        input: str,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        deterministic: bool | None = None,
        tables: str | Sequence[str] | None = None,
        feedback_first: bool = False,
        most_activations: int | None = None,
        name: str | None = None,
    ) -> Callable[[G], G]:
        """Declare a loop: a stage whose rows go round until nothing is left to do (FLIP-15's `iterate`).

        The decorated function gets a `LoopStream` of the rows that come in and of those that are fed back, and a
        `LoopTable` for each further parameter, which is the name of a stage. It returns two streams: what is fed back,
        with the columns of the input, and what is the loop's result. It is called once, when the pipeline is built.

        Args:
            input: the stage whose rows go in.
            partition_by: as of `stage`, like `partitions` and `deterministic`.
            tables: the stages of the further parameters, in their order, where these are not called like them.
            feedback_first: what was fed back is always read before what comes in; else only while there is much of it.
            most_activations: a loop that takes more batches than this fails; without it there is no bound.
            name: of the stage; the function's name unless given.
        """
        loop = LoopOptions(input, False, most_activations, feedback_first, _names(tables))
        return self._loop(loop, partition_by, partitions, deterministic, name)

    def iterate_with_feedback(
        self,
        input: str,
        /,
        *,
        partition_by: str | Sequence[str] | None = None,
        partitions: int | None = None,
        deterministic: bool | None = None,
        tables: str | Sequence[str] | None = None,
        feedback_first: bool = False,
        most_activations: int | None = None,
        name: str | None = None,
    ) -> Callable[[G], G]:
        """Declare a loop whose feedback has columns of its own (FLIP-15's `iterateWithFeedback`).

        As `iterate`, but the function gets the rows that are fed back as a stream of its own, its second parameter.
        """
        loop = LoopOptions(input, True, most_activations, feedback_first, _names(tables))
        return self._loop(loop, partition_by, partitions, deterministic, name)

    def build(self) -> PipelineGraph:
        """Check what was declared and resolve it.

        Raises:
            PipelineError: names the stage, what is wrong with it and the remedy.
        """
        return build_graph(self.name, tuple(self._declarations), self.default_partitions)

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        store: str | PathLike[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> RunResult:
        """Build the pipeline and run it on `spark`, or on the session that is active or can be made.

        A run that was cut off goes on from what is stored.

        Args:
            store: folder for stored results that all executors reach; the session's
                `spark.rekindle.recovery.store` unless given.
            options: over those of the session, such as `{"speculation.enabled": "true"}`.

        Raises:
            PipelineError: the pipeline cannot be built; nothing has run.
        """
        from rekindle.runtime.driver import run_pipeline  # the one import upward: one call does it all

        return run_pipeline(self.build, spark, store=store, options=options)

    def _loop(
        self, loop: LoopOptions, partition_by: Any, partitions: int | None, deterministic: bool | None, name: str | None
    ) -> Callable[[G], G]:
        options = Options(
            partition_by=_names(partition_by),
            partitions=partitions,
            deterministic=deterministic,
            loop=loop,
        )

        def declare(function: G) -> G:
            body = body_of(function)
            self._declarations.append(Declaration(Role.LOOP, body, _name_of(function, name), options))
            return function

        return declare

    def _declare_read(self, name: str, read: DataSourceRead, options: Options) -> None:
        self._declarations.append(Declaration(Role.SOURCE, read.function(), name, replace(options, source=read)))

    def _decorate(self, role: Role, fn: Any, name: str | None, options: Options) -> Any:
        def declare(function: F) -> F:
            self._declarations.append(Declaration(role, function, _name_of(function, name), options))
            return function

        return declare if fn is None else declare(fn)


def _as_sink(target: Any) -> Sink:
    """A path as a file sink; anything else as it is, for `build` to look at."""
    return FileSink(fspath(target)) if isinstance(target, str | PathLike) else target


def _name_of(function: Any, given: str | None) -> str:
    return given if given is not None else getattr(function, "__name__", type(function).__name__)


def _as_option(value: object) -> str:
    """As `spark.read.option` has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(value: Any) -> Any:
    """One name or several as a tuple; anything else as it is, for `build` to complain about."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Sequence) else value
