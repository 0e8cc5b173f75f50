"""When two stages count as the same computation.

Each case is the text of a module, so that the functions compared are compiled apart, as in two drivers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from textwrap import dedent
from types import ModuleType

import pytest

from rekindle.pipeline import Pipeline, Sink
from rekindle.pipeline.fingerprint import function_fingerprint, stage_fingerprint
from tests.unit.pipeline.helpers import three_stages

MODULE = '''
import datetime
from rekindle.pipeline import Pipeline

LIMIT = 15
CARRIERS = {"UA", "AA", "B6", "DL", "EV"}
SINCE = datetime.date(2013, 1, 1)
pipeline = Pipeline("delays")

def is_late(minutes):
    return above(minutes, LIMIT)

def above(minutes, limit, strict=True, *, equal=False):
    return minutes > limit

class Rules:
    factor = 2
    def weigh(self, minutes):
        return minutes * self.factor

@pipeline.source
def flights(spark):
    return spark.read.parquet("data/flights")

@pipeline.stage(partition_by="carrier")
def delayed(flights):
    """Late flights."""
    def keep(row):
        return is_late(row.delay) and row.carrier in CARRIERS and row.date >= SINCE
    weight = lambda row: Rules().weigh(row.delay) + 1
    return flights.filter(keep).map(weight).where(lambda c: c in {"x", "y", "z"})

@pipeline.sink("out/report")
def report(delayed):
    return delayed
'''


def load(source: str = MODULE, *changes: tuple[str, str]) -> Pipeline:
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    module = sys.modules["user_pipeline"] = ModuleType("user_pipeline")
    exec(compile(source, "user_pipeline.py", "exec"), module.__dict__)
    pipeline: Pipeline = module.pipeline
    return pipeline


def fingerprint(*changes: tuple[str, str], stage: str = "delayed") -> str:
    return stage_fingerprint(load(MODULE, *changes).build(), stage)


def test_the_same_module_gives_the_same_fingerprint():
    assert fingerprint() == fingerprint()
    assert len(fingerprint()) == 64
    assert len({fingerprint(stage=stage) for stage in ("flights", "delayed", "report")}) == 3


def test_other_processes_give_the_same_fingerprint():
    program = dedent("""
        import sys
        sys.path.insert(0, sys.argv[1])
        from tests.unit.pipeline.test_fingerprint import fingerprint
        print(fingerprint())
    """)
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    printed = {
        subprocess.run(
            [sys.executable, "-c", program, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert printed == {fingerprint()}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("return flights.filter", "return flights.select"), id="code"),
        pytest.param((".map(weight)", ""), id="less code"),
        pytest.param(('"z"}', '"q"}'), id="a constant in a set in a lambda"),
        pytest.param(("(row.delay) + 1", "(row.delay) + 2"), id="a constant in a lambda"),
        pytest.param(("and row.carrier", "or row.carrier"), id="code of a nested function"),
        pytest.param(("above(minutes, LIMIT)", "above(minutes, -LIMIT)"), id="a helper"),
        pytest.param(("minutes > limit", "minutes >= limit"), id="a helper of a helper"),
        pytest.param(("strict=True", "strict=False"), id="a default value of a helper"),
        pytest.param(("equal=False", "equal=True"), id="a keyword's default value"),
        pytest.param(("LIMIT = 15", "LIMIT = 16"), id="a number of the module"),
        pytest.param(("LIMIT = 15", "LIMIT = 15.0"), id="the type of a number"),
        pytest.param(('"EV"}', '"WN"}'), id="a set of the module"),
        pytest.param(("(2013, 1, 1)", "(2013, 1, 2)"), id="a date of the module"),
        pytest.param(("minutes * self", "minutes + self"), id="a method of a class"),
        pytest.param(("factor = 2", "factor = 3"), id="an attribute of a class"),
        pytest.param(('partition_by="carrier"', 'partition_by="day"'), id="keys"),
        pytest.param(('"carrier")', '"carrier", partitions=9)'), id="partitions"),
        pytest.param(('"carrier")', '"carrier", exchange="cached")'), id="exchange"),
    ],
)
def test_what_changes_a_fingerprint(change):
    assert fingerprint(change) != fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("\n@pipeline.stage", "\n\n# moved\n\n@pipeline.stage"), id="line numbers and comments"),
        pytest.param(('"""Late flights."""', '"""Flights that are late."""'), id="docstring"),
        pytest.param(("class Rules:", 'class Rules:\n    """Weights."""'), id="docstring of a class"),
        pytest.param(('"data/flights"', '"data/other"'), id="another stage, whose result is stored"),
        pytest.param(("return delayed", "return delayed.distinct()"), id="a reader"),
        pytest.param(('{"UA", "AA", "B6"', '{"B6", "AA", "UA"'), id="the order of a set"),
        pytest.param(('"carrier")', '"carrier", speculation=False)'), id="speculation"),
        pytest.param(('"carrier")', '"carrier", deterministic=True)'), id="determinism"),
        pytest.param(("pipeline = Pipeline", "UNUSED = 7\npipeline = Pipeline"), id="a value it does not name"),
    ],
)
def test_what_leaves_a_fingerprint_alone(change):
    assert fingerprint(change) == fingerprint()


def test_a_sink_is_its_path_and_format():
    change = ('"out/report"', '"out/other"')
    assert fingerprint(change, stage="report") != fingerprint(stage="report")
    module = MODULE.replace("import Pipeline", "import FileSink, Pipeline")

    def of(sink: str) -> str:
        return stage_fingerprint(load(module, ('"out/report"', f'FileSink("out/report", {sink})')).build(), "report")

    assert of("'csv'") != of("'parquet'")
    assert of("'csv', mode='overwrite'") == of("'csv', mode='append'") == of("'csv'")
    assert of("'csv', hive_partitions='day'") == of("'csv', hive_partitions=('day',)") != of("'csv'")


def test_a_sink_of_another_kind_is_what_it_writes_to():
    class Queue(Sink):
        def __init__(self, target: str) -> None:
            self.name = target

        @property
        def target(self) -> str:
            return self.name

    def of(target: str) -> str:
        pipeline = three_stages()
        pipeline.sink(Queue(target), name="sent")(lambda delayed: delayed)
        return stage_fingerprint(pipeline.build(), "sent")

    assert of("queue:a") == of("queue:a")
    assert of("queue:a") != of("queue:b")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(1, 2)", "(2, 1)"),
        ("[1, 2]", "(1, 2)"),
        ("[(1, {2})]", "[(1, {3})]"),
        ('{"a": 1}', '{"a": 2}'),
        ('{"a": 1}', '{"b": 1}'),
        ("b'x'", "'x'"),
        ("StructType([StructField('a', LongType())])", "StructType([StructField('b', LongType())])"),
        ("StructType([StructField('a', LongType())])", "StructType([StructField('a', StringType())])"),
    ],
)
def test_values_of_many_kinds_count(before, after):
    types = ("import datetime", "import datetime\nfrom pyspark.sql.types import *")

    def of(value: str) -> str:
        return fingerprint(types, ("LIMIT = 15", f"LIMIT = {value}"))

    assert of(before) == of(before)
    assert of(before) != of(after)


@pytest.mark.parametrize("exchange", ["pipelined", "cached"])
def test_what_is_not_stored_counts_for_its_readers(exchange):
    mode = ("@pipeline.source", f'@pipeline.source(exchange="{exchange}")')
    change = ('"data/flights"', '"data/other"')
    assert fingerprint(mode, change) != fingerprint(mode)
    assert fingerprint(mode, change, stage="report") == fingerprint(mode, stage="report")


def test_captured_variables_count():
    def pipeline_for(year, helper) -> str:
        pipeline = Pipeline("p")
        pipeline.source(name="flights")(lambda spark: helper(spark, year))
        pipeline.sink("out", name="report")(lambda flights: flights)
        return stage_fingerprint(pipeline.build(), "flights")

    def one(spark, year): ...

    def other(spark, year):
        return year

    assert pipeline_for(2013, one) == pipeline_for(2013, one)
    assert pipeline_for(2013, one) != pipeline_for(2014, one)
    assert pipeline_for(2013, one) != pipeline_for(2013, other)


def test_a_decorated_function_is_looked_through():
    decorator = dedent("""
        import functools
        def traced(fn):
            @functools.wraps(fn)
            def call(*args, **kwargs):
                return fn(*args, **kwargs)
            return call
        @traced
        def is_late""")
    change = ("\ndef is_late", decorator)
    inside = ("above(minutes, LIMIT)", "above(minutes, -LIMIT)")
    assert fingerprint(change, inside) != fingerprint(change)


@pytest.mark.parametrize("value", ["object()", "[object()]", "print", "datetime", "SimpleNamespace(a=object())"])
def test_objects_with_an_address_do_not_count(value):
    change = ("LIMIT = 15", f"from types import SimpleNamespace\nLIMIT = {value}")
    assert fingerprint(change) == fingerprint(change)


@pytest.mark.parametrize(
    ("before", "after"),
    [("textwrap.dedent", "textwrap.indent"), ("collections.Counter", "collections.OrderedDict")],
)
def test_code_of_other_modules_does_not_count(before, after):
    def of(value: str) -> str:
        return fingerprint(("LIMIT = 15", f"import collections, textwrap\nLIMIT = {value}"))

    assert of(before) == of(after)


def test_methods_that_are_no_functions_are_passed_over():
    change = ("factor = 2", "factor = 2\n    size = staticmethod(len)")
    assert fingerprint(change) == fingerprint(change)


def test_functions_that_call_each_other_have_a_fingerprint():
    change = ("return minutes > limit", "return is_late(minutes)")
    assert fingerprint(change) != fingerprint()


def test_a_stage_that_does_not_exist_has_none():
    with pytest.raises(KeyError, match="has no stage 'missing'"):
        stage_fingerprint(three_stages().build(), "missing")


HELD = """
import argparse, dataclasses, functools, sys, types
from rekindle.pipeline import Pipeline

pipeline = Pipeline("daily")


@dataclasses.dataclass(frozen=True)
class Settings:
    limit: int
    inner: object = None


def below(df, limit):
    return df.where(df.x < limit)


HELD = {held}


@pipeline.source
def by(spark):
    return spark.range(10).where(str(HELD)).where({argument})


pipeline.sink("out", name="out")(lambda by: by)
"""


@pytest.mark.parametrize(
    "held",
    [
        "argparse.Namespace(day='2024-01-0{}')",
        "types.SimpleNamespace(day='2024-01-0{}')",
        "Settings({})",
        "Settings(1, Settings({}))",
        "functools.partial(below, limit={})",
        "{{'rule': lambda df: df.where('x < {}')}}",
        "[types.SimpleNamespace(day={})]",
    ],
)
def test_what_settings_objects_partials_and_tables_hold_counts(held):
    def of(value: int) -> str:
        source = HELD.replace("{held}", held.format(value)).replace("{argument}", "'true'")
        return stage_fingerprint(load(source).build(), "by")

    assert of(1) == of(1)
    assert of(1) != of(2)


def test_the_programs_arguments_count_where_a_function_names_them(monkeypatch):
    def of(argument: str, *argv: str) -> str:
        monkeypatch.setattr(sys, "argv", ["main.py", *argv])
        return stage_fingerprint(load(HELD.replace("{held}", "1").replace("{argument}", argument)).build(), "by")

    assert of("sys.argv[1]", "a") == of("sys.argv[1]", "a") != of("sys.argv[1]", "b")
    assert of("'true'", "a") == of("'true'", "b")


def test_what_holds_itself_has_a_fingerprint():
    source = HELD.replace("{held}", "types.SimpleNamespace(day=1); HELD.me = HELD").replace("{argument}", "'true'")
    assert stage_fingerprint(load(source).build(), "by")


def test_of_a_settings_object_only_what_some_function_reads_counts():
    def of(attribute: str, started: int) -> str:
        held = f"types.SimpleNamespace(path='a', started={started})"
        source = HELD.replace("{held}", held).replace("str(HELD)", f"HELD.{attribute}").replace("{argument}", "'true'")
        return stage_fingerprint(load(source).build(), "by")

    assert of("path", 1) == of("path", 2)
    assert of("started", 1) != of("started", 2)


@pytest.mark.parametrize("kind", ["partial", "an object that can be called", "a class"])
def test_a_function_of_another_kind_has_a_fingerprint_of_what_it_holds(kind):
    def of(value: int) -> str:
        class Adder:
            step = value

            def __init__(self) -> None:
                self.value = value

            def __call__(self, number: int) -> int:
                return number + self.value

        made = {"partial": partial(max, value), "an object that can be called": Adder(), "a class": Adder}
        return function_fingerprint(made[kind])

    assert of(1) == of(1)
    assert of(1) != of(2)


def test_a_decorator_of_another_module_does_not_hide_what_it_wraps():
    """As one that sets `__wrapped__` by hand, and leaves its own module's name."""

    def of(body: str) -> str:
        stage = load(HELD.replace("{held}", "1").replace("{argument}", body)).build().stage("by").fn

        def wrapper(spark: object) -> object:
            return stage(spark)

        vars(wrapper)["__wrapped__"] = stage
        return function_fingerprint(wrapper)

    assert of("'true'") == of("'true'")
    assert of("'true'") != of("'false'")
