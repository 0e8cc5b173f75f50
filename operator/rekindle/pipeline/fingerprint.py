"""What a stage computes, as a digest that is the same in every process.

A driver that takes over compares it with the one in the journal: results of a stage whose code has changed
are not mixed with results of the old code. The digest covers the stage's name, inputs, layout, exchange and
sink, and its function: byte code and constants, default values, captured variables, plain values of the
module (strings, numbers, dates, schemas; dataclasses, namespaces and partials of such), the program's arguments where
it names `sys.argv`, and the functions and classes of the same module that it names, and
those that they name; of a DataSource its class, with what that names, its schema and options, but not those
that it calls secret. It covers stages computed inside it (pipelined) or beside it (cached), for their results
are not stored. It does not cover line numbers, comments, the text of docstrings, other modules, or anything
with an address in memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import inspect
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, SimpleNamespace

from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import Transform, Update
from rekindle.pipeline.sinks import DataSourceSink, FileSink, Sink, SparkSink
from rekindle.pipeline.sources import DataSourceRead
from rekindle.pipeline.stage import Stage

_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type(...), decimal.Decimal, fractions.Fraction,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, enum.Enum, range,
)  # fmt: skip

_HAS_DOCSTRING = 0x4000000  # inspect.CO_HAS_DOCSTRING, of Python 3.13


def stage_fingerprint(graph: PipelineGraph, name: str) -> str:
    """64 hexadecimal digits. Raises KeyError for a name that is no stage."""
    digest = hashlib.sha256()
    for line in _stage(graph, graph.stage(name)):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def function_fingerprint(function: object) -> str:
    """Of a function alone, with what it has captured and what it names."""
    return hashlib.sha256("\n".join(_Walk().whole(function)).encode("utf-8", "surrogatepass")).hexdigest()


def _stage(graph: PipelineGraph, stage: Stage) -> Iterator[str]:
    yield f"stage {stage.name} {stage.inputs!r} {stage.distribution!r} {stage.exchange} {_sink(stage.sink)}"
    if inspect.ismethod(stage.fn):  # of an object that is the body of a loop
        yield from _class("body", type(stage.fn.__self__))
        yield from _Walk().values(vars(stage.fn.__self__), stage.fn.__module__)
    else:
        yield from _Walk().whole(stage.fn) if stage.source is None else _source(stage.source)
    if stage.loop is not None:
        yield from _loop(stage.loop)
    if isinstance(stage.sink, DataSourceSink):
        yield from _class("writer", stage.sink.source)
    for name in stage.inputs:
        source = graph.stage(name)
        if source.exchange is not ExchangeMode.BLOCKING:
            yield f"computes {name} {stage_fingerprint(graph, name)}"


def _loop(body: LoopBody) -> Iterator[str]:
    """All operators, wherever their functions come from."""
    for one in body.loops():
        yield f"loop {one.name} {one.feedback.name} {one.output.name}"
        for operator in one.operators:
            yield f"operator {operator.name} {type(operator).__name__} {[source.name for source in operator.inputs]}"
            if isinstance(operator, Transform | Update):
                yield f"tables {operator.tables}"
                yield from _Walk().whole(operator.fn)
            if isinstance(operator, Update):
                yield f"state {operator.keys} {operator.schema}"


def _sink(sink: Sink | None) -> str:
    if isinstance(sink, FileSink):
        folders = f" {sink.hive_partitions!r}" if sink.hive_partitions else ""
        return f"{sink.format} {sink.path!r}{folders}"  # as written: the target depends on the working directory
    if isinstance(sink, SparkSink):
        return "spark"  # where it writes makes no difference to the rows that are stored
    if isinstance(sink, DataSourceSink):
        return f"{sink.mode} {sink.place} {_open_options(sink)}"  # its tasks have written there
    return sink.target if sink else ""


def _open_options(sink: DataSourceSink) -> str:
    """Names of all, values of none: a password may change."""
    return repr(sorted(map(str, sink.options)))


def _source(source: DataSourceRead) -> Iterator[str]:
    secrets = source.secrets
    options = sorted(one for one in source.options.items() if one[0] not in secrets)
    yield f"options {options} schema {source.schema!r}"
    if source.reads is not None:
        yield f"splits {source.splits}"
        yield from _Walk().whole(source.reads)
    else:
        yield from _class("source", source.source)


def _class(role: str, source: type) -> Iterator[str]:
    yield f"{role} {source.__module__}.{source.__qualname__}"
    yield from _Walk().whole(source)


class _Walk:
    """One walk over a function and what it names. Each function is told once, so recursion ends."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._settings: list[tuple[str, dict[str, object], str]] = []

    def whole(self, function: object) -> Iterator[str]:
        """Of settings objects, only what some function reads of them by name; all, where none does."""
        own = _unwrapped(function.func if isinstance(function, functools.partial) else function)
        yield from self._value("function", function, getattr(own, "__module__", ""))
        while self._settings:
            name, fields, module = self._settings.pop(0)
            for field in sorted(fields.keys() & self._names or fields):
                yield from self._value(f"{name}.{field}", fields[field], module)

    def values(self, named: Mapping[str, object], module: str) -> Iterator[str]:
        """Attributes of an object."""
        for name, value in sorted(named.items()):
            yield from self._value(name, value, module)

    def function(self, function: object) -> Iterator[str]:
        fn = _unwrapped(function)
        if not isinstance(fn, FunctionType) or id(fn) in self._seen:
            return
        self._seen.add(id(fn))
        yield from self._code(fn.__code__, fn.__doc__)
        for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
            yield from self._value("default", value, fn.__module__)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            yield from self._value(name, _content(cell), fn.__module__)
        names = _names(fn.__code__)
        self._names.update(names)
        for name in names:
            if name in fn.__globals__:
                yield from self._value(name, fn.__globals__[name], fn.__module__)
        if "argv" in names and fn.__globals__.get("sys") is sys:
            yield f"value sys.argv {sys.argv[1:]}"

    def _value(self, name: str, value: object, module: str) -> Iterator[str]:
        """A value that a function of `module` reads under `name`."""
        unwrapped = _unwrapped(value)
        if isinstance(unwrapped, FunctionType):
            if unwrapped.__module__ == module:
                yield f"function {name}"
                yield from self.function(unwrapped)
        elif isinstance(value, type):
            if value.__module__ == module:
                yield f"class {name}"
                yield from self._class(value)
        elif (text := plain(value)) is not None:
            yield f"value {name} {text}"
        yield from self._inside(name, value, module)

    def _inside(self, name: str, value: object, module: str) -> Iterator[str]:
        """What a value holds that has no text of its own: settings, arguments, functions in a table."""
        if id(value) in self._seen or isinstance(value, type | FunctionType):
            return
        parts: Iterable[tuple[object, object]] = ()
        if isinstance(value, dict):
            parts = value.items()
        elif isinstance(value, list | tuple):
            parts = enumerate(value)
        elif isinstance(value, functools.partial):
            parts = {"func": value.func, "args": value.args, "keywords": value.keywords}.items()
        elif isinstance(value, argparse.Namespace | SimpleNamespace):
            self._settings.append((name, dict(vars(value)), module))
        elif dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            self._settings.append((name, fields, module))
        elif type(value).__module__ == module and callable(value):
            parts = sorted(getattr(value, "__dict__", {}).items())
            yield from self._class(type(value))
        else:
            return
        self._seen.add(id(value))
        for key, part in parts:
            if not isinstance(part, _PLAIN) or not isinstance(value, dict | list | tuple):
                yield from self._value(f"{name}.{plain(key)}", part, module)

    def _class(self, cls: type) -> Iterator[str]:
        """With the classes of its module that it is made from."""
        for one in cls.__mro__:
            if one.__module__ == cls.__module__:
                yield from self._own(one)

    def _own(self, cls: type) -> Iterator[str]:
        for name, value in vars(cls).items():
            if isinstance(value, FunctionType | staticmethod | classmethod):
                yield f"method {name}"
                yield from self.function(getattr(value, "__func__", value))
            elif isinstance(value, property | functools.cached_property):
                yield f"property {name}"
                for part in ("fget", "fset", "func"):
                    yield from self.function(getattr(value, part, None))
            elif not name.startswith("__") and (text := plain(value)) is not None:
                yield f"attribute {name} {text}"

    def _code(self, code: CodeType, doc: str | None = None) -> Iterator[str]:
        counts = (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & ~_HAS_DOCSTRING,
        )
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        yield f"code {counts} {names} {code.co_code.hex()} {code.co_exceptiontable.hex()}"
        constants = code.co_consts
        if doc is not None and constants and isinstance(constants[0], str):
            constants = (None, *constants[1:])  # the docstring
        for constant in constants:
            if isinstance(constant, CodeType):
                yield from self._code(constant)
            else:
                yield f"constant {plain(constant)}"


def plain(value: object) -> str | None:
    """A text for `value` that is the same in every process, None where there is none."""
    if isinstance(value, _PLAIN):
        return f"{type(value).__qualname__} {value!r}"
    if isinstance(value, tuple | list):
        return _joined(value, [plain(item) for item in value])
    if isinstance(value, set | frozenset):  # their order depends on the process
        return _joined(value, sorted(str(plain(item)) for item in value))
    if isinstance(value, dict):
        return _joined(value, [f"{plain(key)}: {plain(item)}" for key, item in value.items()])
    if type(value).__module__ == "pyspark.sql.types":
        return repr(value)
    return None


def _joined(value: object, parts: list[str] | list[str | None]) -> str:
    return f"{type(value).__qualname__} [{', '.join(map(str, parts))}]"


def _unwrapped(value: object) -> object:
    """The function below decorators. Looks at no attribute that an object could make up (py4j's all do)."""
    while "__wrapped__" in getattr(value, "__dict__", {}):
        value = vars(value)["__wrapped__"]
    return value


def _content(cell: object) -> object:
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # not bound yet
        return None


def _names(code: CodeType) -> list[str]:
    """Names that a function or a function inside it may look up in its module."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_names(constant))
    return sorted(names)
