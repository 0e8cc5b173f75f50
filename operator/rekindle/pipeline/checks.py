"""What one declaration may say. Each check looks at one thing and raises a PipelineError that names it."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from rekindle.pipeline.annotations import wrong_hints
from rekindle.pipeline.declaration import Declaration, Role, signature
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.sinks import (
    DataSourceSink,
    FileSink,
    SaveMode,
    Sink,
    SinkFormat,
    SparkSink,
    WriteMode,
    WrittenElsewhere,
)
from rekindle.pipeline.stage import SPARK_PARAMETER

Check = Callable[[Declaration], None]


def check_name(declared: Declaration) -> None:
    name = declared.name
    if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name):
        raise declared.error(
            "has a name that no parameter can have",
            "a stage's name is how others read it: use letters, digits and _, such as name='daily_delays'",
        )
    if name == SPARK_PARAMETER:
        raise declared.error(
            "has the name of the parameter that gets the SparkSession",
            "give the function another name, or the decorator name=...",
        )


def check_function(declared: Declaration) -> None:
    fn = inspect.unwrap(declared.fn)
    if declared.options.loop is not None and inspect.ismethod(fn):  # of an object with a method `loop`
        fn = fn.__func__
    if not inspect.isfunction(fn):
        raise declared.error(f"is a {type(fn).__name__}", "decorate a function that returns a DataFrame")
    if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise declared.error("is a coroutine or a generator", "write a plain function that returns one DataFrame")


def check_parameters(declared: Declaration) -> None:
    for parameter in declared.parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise declared.error(
                f"takes {stars}{parameter.name}",
                "name each stage it reads as a parameter of its own",
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise declared.error(
                f"takes {parameter.name!r} by position only", "inputs are passed by name: remove the /"
            )


def check_role(declared: Declaration) -> None:
    if declared.role is Role.SOURCE and declared.inputs:
        raise declared.error(
            f"reads {declared.inputs[0]!r}, and a source reads no stage",
            f"declare it with @pipeline.stage, or take only {SPARK_PARAMETER!r}",
        )
    if declared.role is not Role.SOURCE and not declared.inputs:
        raise declared.error(
            "reads no stage",
            "declare what reads outside data with @pipeline.source, and name it as a parameter here",
        )


def check_loop(declared: Declaration) -> None:
    """What a loop takes in, before its parameters are looked at."""
    loop = declared.options.loop
    if loop is None:
        return
    needed = 1 + loop.own_feedback
    if len(declared.parameters) < needed:
        what = "a stream of its input and one of its feedback" if loop.own_feedback else "a stream of its input"
        raise declared.error(f"takes {len(declared.parameters)} parameters", f"give it {what}, then tables by name")
    if not (isinstance(loop.input, str) and loop.input.isidentifier()):
        raise declared.error(f"iterates over {loop.input!r}", "name the stage whose rows go in")
    if loop.tables is not None:
        wanted = len(declared.parameters) - needed
        if not isinstance(loop.tables, tuple) or not all(isinstance(one, str) for one in loop.tables):
            raise declared.error(f"has tables={loop.tables!r}", "name stages, such as tables='edges'")
        if len(loop.tables) != wanted:
            said = f"has tables={loop.tables!r}, and {wanted} parameters for them"
            raise declared.error(said, "name a stage for each of these parameters")
    if not isinstance(loop.feedback_first, bool):
        raise declared.error(f"has feedback_first={loop.feedback_first!r}", "feedback_first is True or False")
    if SPARK_PARAMETER in {parameter.name for parameter in declared.parameters}:
        raise declared.error(
            f"takes {SPARK_PARAMETER!r}, and its body is made of streams alone",
            "make what needs the session a stage, and take that as a table",
        )
    if loop.most_activations is not None and not is_count(loop.most_activations):
        raise declared.error(
            f"has most_activations={loop.most_activations!r}", "most_activations is a whole number of at least 1"
        )


def check_type_hints(declared: Declaration) -> None:
    if declared.options.loop is not None:
        return
    for what, hint, expected in wrong_hints(declared.fn):
        raise declared.error(f"has the type hint {hint} for {what}", f"it is a pyspark.sql.{expected}")


def check_switches(declared: Declaration) -> None:
    """The options that are flags."""
    options = declared.options
    for option in ("pointwise", "speculation", "streaming"):
        value = getattr(options, option)
        if not isinstance(value, bool):
            raise declared.error(f"has {option}={value!r}", f"{option} is True or False")
    if options.deterministic not in (True, False, None):
        raise declared.error(
            f"has deterministic={options.deterministic!r}",
            "it is True, False, or None to go by the digests of the results",
        )


def check_partition_by(declared: Declaration) -> None:
    keys = declared.options.partition_by
    if keys is None:
        return
    if not isinstance(keys, tuple) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise declared.error(
            f"has partition_by={keys!r}",
            "name one or more columns of its result, such as partition_by='carrier'; "
            "compute an expression as a column first",
        )
    if len(set(keys)) < len(keys):
        raise declared.error(f"names a column twice in partition_by={keys!r}", "name each column once")


def check_partitions(declared: Declaration) -> None:
    count = declared.options.partitions
    if count is not None and not is_count(count):
        raise declared.error(f"has partitions={count!r}", "partitions is a whole number of at least 1")


def check_exchange(declared: Declaration) -> None:
    given = declared.options.exchange
    modes = [mode.value for mode in ExchangeMode]
    if given not in modes:
        near = get_close_matches(str(given), modes, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise declared.error(f"has exchange={given!r}", f"{hint}it is one of {', '.join(modes)}")


def check_not_stored(declared: Declaration) -> None:
    """A result that is not stored has no result partitions to lay out."""
    if declared.options.exchange == ExchangeMode.BLOCKING:
        return
    mode = declared.options.exchange
    for option in _about_partitions(declared):
        raise declared.error(
            f"has {option} and exchange={str(mode)!r}, which stores no result partitions",
            f"remove {option}, or store the result with exchange='blocking'",
        )


def _about_partitions(declared: Declaration) -> Iterator[str]:
    options = declared.options
    if options.pointwise:
        yield "pointwise=True"
    if options.exchange == ExchangeMode.PIPELINED:
        if options.partition_by is not None:
            yield "partition_by"
        if options.partitions is not None:
            yield "partitions"


def check_pointwise(declared: Declaration) -> None:
    """What a pointwise stage says about itself; `wiring` checks the stage it is made from."""
    options = declared.options
    if not options.pointwise:
        return
    if options.partition_by is not None:
        raise declared.error(
            "has pointwise=True and partition_by, which needs an exchange",
            "remove partition_by (the layout of its input stays), or pointwise",
        )
    if options.partitions is not None:
        raise declared.error("has pointwise=True and partitions", "remove partitions: it has as many as its input")
    if len(declared.main_inputs) != 1:
        several = " and ".join(map(repr, declared.main_inputs))
        raise declared.error(
            f"has pointwise=True and {f'reads {several}' if several else 'only broadcast inputs'}",
            "partition i is made from partition i of exactly one input: list the others in broadcast=(...)",
        )


def check_broadcast(declared: Declaration) -> None:
    options = declared.options
    if not isinstance(options.broadcast, tuple):
        raise declared.error(
            f"has broadcast={options.broadcast!r}",
            "name inputs of the stage, such as broadcast=('airlines',)",
        )
    if options.broadcast and not options.pointwise:
        raise declared.error(
            "has broadcast and is not pointwise",
            "use pyspark.sql.functions.broadcast in the function, or set pointwise=True",
        )
    for name in options.broadcast:
        if name not in declared.inputs:
            raise declared.error(
                f"has {name!r} in broadcast, which is not a parameter",
                f"its inputs are {', '.join(declared.inputs)}",
            )


def check_sink(declared: Declaration) -> None:
    if declared.role is not Role.SINK:
        return
    sink = declared.options.sink
    if sink is None:
        raise declared.error("says not where to", f"@pipeline.sink('out/{declared.name}') names a folder")
    if isinstance(sink, SparkSink):
        _check_spark_sink(declared, sink)
    elif isinstance(sink, DataSourceSink):
        _check_data_source_sink(declared, sink)
    elif not isinstance(sink, Sink):
        raise declared.error(
            f"goes to {sink!r}, which is no sink",
            "give it a path, a FileSink, a SparkSink or a DataSourceSink",
        )
    if isinstance(sink, FileSink):
        _check_choice(declared, "format", sink.format, get_args(SinkFormat))
        _check_choice(declared, "mode", sink.mode, get_args(SaveMode))
        if not sink.path:
            raise declared.error("has an empty path", f"name a folder, such as 'out/{declared.name}'")
        _check_hive_partitions(declared, sink)


def _check_hive_partitions(declared: Declaration, sink: FileSink) -> None:
    names: Any = sink.hive_partitions
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        raise declared.error(f"has a FileSink with hive_partitions={names!r}", "give names of columns: ('year', 'day')")
    for number, name in enumerate(names):
        if name.lower() in (other.lower() for other in names[:number]):
            raise declared.error(f"has a FileSink whose hive_partitions name {name!r} twice", "name it once")
        if name.startswith("."):
            raise declared.error(
                f"has a FileSink with hive_partitions {name!r}: readers pass over folders that begin with a dot",
                "rename the column",
            )
    if sink.mode == "overwrite_partitions" and not names:
        raise declared.error(
            'has a FileSink with mode="overwrite_partitions" and no hive_partitions',
            'name the columns of its folders, or say mode="overwrite"',
        )


def _check_spark_sink(declared: Declaration, sink: SparkSink) -> None:
    if not isinstance(sink.format, str) and not _is_kind_of_data_source(sink.format):
        raise declared.error(
            f"has a SparkSink with format={sink.format!r}",
            "it is a name such as 'jdbc', or a class of the kind pyspark.sql.datasource.DataSource",
        )
    if not sink.format and not sink.table:
        raise declared.error("has a SparkSink without a format and a table", "give it one of them, or both")
    _check_written(declared, sink)
    if not isinstance(sink.format, str):
        _check_has_writer(declared, sink.format)


def _check_data_source_sink(declared: Declaration, sink: DataSourceSink) -> None:
    if not _is_kind_of_data_source(sink.source):
        raise declared.error(
            f"has a DataSourceSink of {sink.source!r}",
            "give a class of the kind pyspark.sql.datasource.DataSource; for a format of Spark's use SparkSink",
        )
    _check_written(declared, sink)
    if sink.concurrent_attempts not in (True, False, None):
        raise declared.error(
            f"has a DataSourceSink with concurrent_attempts={sink.concurrent_attempts!r}", "it is True, False or None"
        )
    _check_has_writer(declared, sink.source)


def _check_written(declared: Declaration, sink: WrittenElsewhere) -> None:
    kind = type(sink).__name__
    if sink.mode not in get_args(WriteMode):
        raise declared.error(f"has a {kind} with mode={sink.mode!r}", f"it is {' or '.join(get_args(WriteMode))}")
    if not isinstance(sink.options, Mapping):
        raise declared.error(f"has a {kind} whose options are a {type(sink.options).__name__}", "give a dictionary")
    if sink.repeatable not in (True, False, None):
        raise declared.error(f"has a {kind} with repeatable={sink.repeatable!r}", "it is True, False or None")


def _check_has_writer(declared: Declaration, source: type) -> None:
    if not _defines(source, "writer"):
        raise declared.error(
            f"goes to {source.__name__}, which has no batch writer",
            "give the class a method writer(schema, overwrite)",
        )


def _defines(source: type, method: str) -> bool:
    """Whether a DataSource has a method of its own."""
    return any(method in vars(base) for base in source.__mro__ if not _is_data_source(base))


def _is_kind_of_data_source(given: object) -> bool:
    return isinstance(given, type) and any(map(_is_data_source, given.__mro__))


def _check_choice(declared: Declaration, option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise declared.error(f"has a FileSink with {option}={value!r}", f"it is {' or '.join(choices)}")


def check_source(declared: Declaration) -> None:
    """Before the function, which is made of it."""
    read = declared.options.source
    if read is None:
        return
    if read.reads is not None:
        _check_source_function(declared, read.reads, read.splits)
        return
    source = read.source
    if not _is_kind_of_data_source(source):
        hint = "for a built-in format" if isinstance(source, str) else "for anything else"
        raise declared.error(
            f"reads {source!r}, which is no class of the kind pyspark.sql.datasource.DataSource",
            f"give that class itself; {hint} declare a function with @pipeline.source that calls spark.read",
        )
    if not _defines(source, "reader"):
        raise declared.error(
            f"reads {source.__name__}, which has no batch reader",
            "a pipeline reads bounded data: give the class a method reader(schema)",
        )


def _check_source_function(declared: Declaration, function: Any, splits: Any) -> None:
    if not is_count(splits):
        raise declared.error(f"has splits={splits!r}", "splits is a whole number of at least 1")
    if not inspect.isfunction(inspect.unwrap(function)):
        raise declared.error(f"is a {type(function).__name__}", "decorate a function of (split, splits)")
    try:
        signature(function).bind(0, 1)
    except TypeError:
        raise declared.error(
            f"has the parameters ({', '.join(signature(function).parameters)})",
            "write a function of two: the number of a split, and of how many",
        ) from None


def _is_data_source(cls: type) -> bool:
    """By its name, for PySpark must not be imported before there is a session to use it with."""
    return (cls.__module__, cls.__name__) == ("pyspark.sql.datasource", "DataSource")


def check_streaming(declared: Declaration) -> None:
    if declared.options.streaming and declared.options.speculation:
        raise declared.error(
            "is a streaming source, and streams are not speculated",
            "say speculation=False; only bounded stages can have a second attempt",
        )


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


CHECKS: tuple[Check, ...] = (
    check_name,
    check_source,
    check_function,
    check_parameters,
    check_role,
    check_loop,
    check_type_hints,
    check_switches,
    check_partition_by,
    check_partitions,
    check_exchange,
    check_not_stored,
    check_broadcast,
    check_pointwise,
    check_sink,
    check_streaming,
)
"""In the order in which they are made: later ones rely on earlier ones."""
