"""Each thing that can be wrong with a pipeline, and the words it is said in."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from rekindle.pipeline import FileSink, Pipeline, PipelineError
from tests.unit.pipeline.helpers import complaint, one_source, three_stages


def test_an_error_has_its_stage_its_place_and_its_remedy():
    pipeline = one_source()

    @pipeline.sink("out")
    def report(fligts): ...

    with pytest.raises(PipelineError) as caught:
        pipeline.build()
    line = report.__code__.co_firstlineno
    assert caught.value.stage == "report"
    assert caught.value.remedy == "did you mean 'flights'?"
    assert str(caught.value) == (
        f"sink 'report' (test_build_errors.py line {line}) reads 'fligts', which no stage makes\n"
        "-> did you mean 'flights'?"
    )
    assert isinstance(caught.value, ValueError)


# -- the pipeline as a whole ---------------------------------------------------------------------------


def test_no_stages():
    assert complaint(Pipeline("delays")) == (
        "pipeline 'delays' has no stages\n"
        "-> declare functions with @pipeline.source, @pipeline.stage and @pipeline.sink before build"
    )


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "two words", 7])
def test_a_pipeline_name_that_is_no_file_name(name):
    assert complaint(Pipeline(name)) == (
        f"pipeline {name!r} has a name that cannot be part of a file name\n"
        "-> use letters, digits, '.', '_' and '-', such as Pipeline('flight-delays')"
    )


@pytest.mark.parametrize("count", [0, -1, True, 2.5, "8"])
def test_default_partitions_that_are_no_number_of_partitions(count):
    assert complaint(Pipeline("delays", default_partitions=count)) == (
        f"pipeline 'delays' has default_partitions={count!r}\n-> default_partitions is a whole number of at least 1"
    )


# -- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["daily-delays", "2013", "a b", "", "lambda", 7])
def test_a_name_that_no_parameter_can_have(name):
    assert complaint(three_stages(name=name)) == (
        f"stage {name!r} has a name that no parameter can have\n"
        "-> a stage's name is how others read it: use letters, digits and _, such as name='daily_delays'"
    )


def test_a_lambda_needs_a_name():
    pipeline = one_source()
    pipeline.sink("out")(lambda flights: flights)
    assert complaint(pipeline).startswith("sink '<lambda>' has a name that no parameter can have\n")


def test_the_name_of_the_session():
    assert complaint(three_stages(name="spark")) == (
        "stage 'spark' has the name of the parameter that gets the SparkSession\n"
        "-> give the function another name, or the decorator name=..."
    )


def test_a_name_used_twice():
    pipeline = three_stages()
    pipeline.stage(name="flights")(lambda delayed: delayed)
    with pytest.raises(PipelineError, match=r"the name of another source \(helpers.py line \d+\)"):
        pipeline.build()
    assert complaint(pipeline) == (
        "stage 'flights' has the name of another source\n"
        "-> rename one of the functions, or give one of the decorators name=..."
    )


# -- functions -----------------------------------------------------------------------------------------


def test_something_that_is_no_function():
    pipeline = one_source()
    pipeline.sink("out", name="report")(len)  # type: ignore[type-var]
    assert complaint(pipeline) == (
        "sink 'report' (no function) is a builtin_function_or_method\n-> decorate a function that returns a DataFrame"
    )


def test_coroutines_and_generators():
    async def later(flights): ...

    def many(flights):
        yield flights

    async def many_later(flights):
        yield flights

    fns: tuple[Any, ...] = (later, many, many_later)
    for fn in fns:
        pipeline = one_source()
        pipeline.sink("out", name="report")(fn)
        assert complaint(pipeline) == (
            "sink 'report' is a coroutine or a generator\n-> write a plain function that returns one DataFrame"
        )


def test_star_parameters():
    pipeline = one_source()
    pipeline.sink("out", name="report")(lambda *inputs: inputs)
    assert complaint(pipeline) == ("sink 'report' takes *inputs\n-> name each stage it reads as a parameter of its own")
    pipeline = one_source()
    pipeline.sink("out", name="report")(lambda flights, **others: flights)
    assert complaint(pipeline) == (
        "sink 'report' takes **others\n-> name each stage it reads as a parameter of its own"
    )


def test_positional_only_parameters():
    pipeline = one_source()
    pipeline.sink("out", name="report")(lambda flights, /: flights)
    assert complaint(pipeline) == (
        "sink 'report' takes 'flights' by position only\n-> inputs are passed by name: remove the /"
    )


def test_a_source_that_reads_a_stage():
    pipeline = one_source()
    pipeline.source(name="delayed")(lambda flights: flights)
    assert complaint(pipeline) == (
        "source 'delayed' reads 'flights', and a source reads no stage\n"
        "-> declare it with @pipeline.stage, or take only 'spark'"
    )


@pytest.mark.parametrize("role", ["stage", "sink"])
def test_a_stage_that_reads_nothing(role):
    pipeline = one_source()
    decorator = pipeline.stage if role == "stage" else pipeline.sink("out")
    decorator(nothing)
    assert complaint(pipeline) == (
        f"{role} 'nothing' reads no stage\n"
        "-> declare what reads outside data with @pipeline.source, and name it as a parameter here"
    )


def nothing(spark): ...


# -- type hints ----------------------------------------------------------------------------------------


def counted(flights) -> int:
    return 7


def given_an_int(flights: int): ...


def in_pandas(flights) -> pd.DataFrame: ...


def without_result(flights) -> None: ...


def wrong_session(flights, spark: dict): ...


class Column:
    __module__ = "pyspark.sql.column"


def a_column(flights) -> Column: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("fn", "problem", "remedy"),
    [
        (counted, "has the type hint int for the result", "it is a pyspark.sql.DataFrame"),
        (
            given_an_int,
            "has the type hint int for parameter 'flights'",
            "it is a pyspark.sql.DataFrame",
        ),
        (in_pandas, "has the type hint pd.DataFrame for the result", "it is a pyspark.sql.DataFrame"),
        (without_result, "has the type hint None for the result", "it is a pyspark.sql.DataFrame"),
        (a_column, "has the type hint Column for the result", "it is a pyspark.sql.DataFrame"),
        (wrong_session, "has the type hint dict for parameter 'spark'", "it is a pyspark.sql.SparkSession"),
    ],
)
def test_type_hints_that_cannot_be_right(fn, problem, remedy):
    pipeline = one_source()
    pipeline.sink("out", name="report")(fn)
    assert complaint(pipeline) == f"sink 'report' {problem}\n-> {remedy}"


def test_a_hint_that_is_a_class_is_judged_like_its_name():
    def report(flights): ...

    report.__annotations__["return"] = int
    pipeline = one_source()
    pipeline.sink("out")(report)
    assert complaint(pipeline) == (
        "sink 'report' has the type hint int for the result\n-> it is a pyspark.sql.DataFrame"
    )


class DataFrame:
    """Stands in for PySpark's, which unit tests do without."""

    __module__ = "pyspark.sql.dataframe"


class ClassicDataFrame(DataFrame):
    __module__ = "pyspark.sql.classic.dataframe"


def right(flights: DataFrame, spark: SparkSession) -> DataFrame:  # type: ignore[name-defined]  # noqa: F821
    return flights


def derived(flights: ClassicDataFrame) -> object: ...


def vague(flights: Any, spark: Any) -> DataFrame | None: ...


def only_for_type_checkers(flights: sql.DataFrame) -> sql.DataFrame: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("fn", [right, derived, vague, only_for_type_checkers])
def test_type_hints_that_may_be_right(fn):
    pipeline = one_source()
    pipeline.sink("out", name="report")(fn)
    assert pipeline.build().stage("report").fn is fn


# -- options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["pointwise", "speculation"])
def test_flags_that_are_no_flags(option):
    assert complaint(three_stages(**{option: "no"})) == (
        f"stage 'delayed' has {option}='no'\n-> {option} is True or False"
    )


def test_determinism_that_is_no_answer():
    assert complaint(three_stages(deterministic="maybe")) == (
        "stage 'delayed' has deterministic='maybe'\n-> it is True, False, or None to go by the digests of the results"
    )


@pytest.mark.parametrize("keys", [(), [""], 7, ["carrier", 7]])
def test_keys_that_are_no_columns(keys):
    shown = tuple(keys) if isinstance(keys, list | tuple) else keys
    assert complaint(three_stages(partition_by=keys)) == (
        f"stage 'delayed' has partition_by={shown!r}\n"
        "-> name one or more columns of its result, such as partition_by='carrier'; "
        "compute an expression as a column first"
    )


def test_a_key_named_twice():
    assert complaint(three_stages(partition_by=["day", "carrier", "day"])) == (
        "stage 'delayed' names a column twice in partition_by=('day', 'carrier', 'day')\n-> name each column once"
    )


@pytest.mark.parametrize("count", [0, -3, 1.5, True, "4"])
def test_partitions_that_are_no_number_of_partitions(count):
    assert complaint(three_stages(partitions=count)) == (
        f"stage 'delayed' has partitions={count!r}\n-> partitions is a whole number of at least 1"
    )


def test_an_exchange_that_does_not_exist():
    assert complaint(three_stages(exchange="bloking")) == (
        "stage 'delayed' has exchange='bloking'\n-> did you mean 'blocking'? it is one of blocking, pipelined, cached"
    )
    assert complaint(three_stages(exchange="x")) == (
        "stage 'delayed' has exchange='x'\n-> it is one of blocking, pipelined, cached"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"exchange": "pipelined", "partition_by": "carrier"}, "partition_by"),
        ({"exchange": "pipelined", "partitions": 4}, "partitions"),
        ({"exchange": "pipelined", "pointwise": True}, "pointwise=True"),
        ({"exchange": "cached", "pointwise": True}, "pointwise=True"),
    ],
)
def test_a_layout_for_partitions_that_are_not_stored(options, said):
    mode = options["exchange"]
    assert complaint(three_stages(**options)) == (
        f"stage 'delayed' has {said} and exchange={mode!r}, which stores no result partitions\n"
        f"-> remove {said}, or store the result with exchange='blocking'"
    )


# -- pointwise and broadcast ---------------------------------------------------------------------------


def test_pointwise_with_keys():
    assert complaint(three_stages(pointwise=True, partition_by="carrier")) == (
        "stage 'delayed' has pointwise=True and partition_by, which needs an exchange\n"
        "-> remove partition_by (the layout of its input stays), or pointwise"
    )


def test_pointwise_with_partitions():
    assert complaint(three_stages(pointwise=True, partitions=4)) == (
        "stage 'delayed' has pointwise=True and partitions\n-> remove partitions: it has as many as its input"
    )


def test_pointwise_on_two_inputs():
    pipeline = one_source()
    pipeline.source(name="airlines")(lambda spark: spark)
    pipeline.sink("out", name="report", pointwise=True)(lambda flights, airlines: flights)
    assert complaint(pipeline) == (
        "sink 'report' has pointwise=True and reads 'flights' and 'airlines'\n"
        "-> partition i is made from partition i of exactly one input: list the others in broadcast=(...)"
    )


def test_pointwise_on_broadcasts_alone():
    assert complaint(three_stages(pointwise=True, broadcast="flights")) == (
        "stage 'delayed' has pointwise=True and only broadcast inputs\n"
        "-> partition i is made from partition i of exactly one input: list the others in broadcast=(...)"
    )


@pytest.mark.parametrize("mode", ["pipelined", "cached"])
def test_pointwise_on_what_is_not_stored(mode):
    pipeline = three_stages(exchange=mode)
    pipeline.sink("out/copy", name="copy", pointwise=True)(lambda flights: flights)
    pipeline = one_source(exchange=mode)
    pipeline.sink("out", name="report", pointwise=True)(lambda flights: flights)
    assert complaint(pipeline) == (
        f"sink 'report' is pointwise on 'flights', which is {mode}: nothing is stored\n"
        "-> say exchange='blocking' on 'flights', or remove pointwise=True"
    )


def test_broadcast_without_pointwise():
    assert complaint(three_stages(broadcast="flights")) == (
        "stage 'delayed' has broadcast and is not pointwise\n"
        "-> use pyspark.sql.functions.broadcast in the function, or set pointwise=True"
    )


def test_broadcast_of_what_is_no_input():
    assert complaint(three_stages(pointwise=True, broadcast=["airlines"])) == (
        "stage 'delayed' has 'airlines' in broadcast, which is not a parameter\n-> its inputs are flights"
    )


def test_broadcast_of_no_name():
    assert complaint(three_stages(pointwise=True, broadcast=7)) == (
        "stage 'delayed' has broadcast=7\n-> name inputs of the stage, such as broadcast=('airlines',)"
    )


# -- how stages fit together ---------------------------------------------------------------------------


def test_an_input_that_no_stage_makes():
    pipeline = three_stages()
    pipeline.sink("out/more", name="more")(lambda fligts: fligts)
    assert complaint(pipeline) == ("sink 'more' reads 'fligts', which no stage makes\n-> did you mean 'flights'?")
    pipeline = three_stages()
    pipeline.sink("out/more", name="more")(lambda zzz: zzz)
    assert complaint(pipeline) == (
        "sink 'more' reads 'zzz', which no stage makes\n-> the stages are flights, delayed, report, more"
    )


def test_a_parameter_with_a_default_is_an_input_too():
    pipeline = one_source()
    pipeline.sink("out", name="report")(lambda flights, limit=10: flights)
    assert complaint(pipeline).startswith("sink 'report' reads 'limit', which no stage makes\n")


def test_a_cycle_is_told_as_a_path():
    pipeline = one_source()
    pipeline.stage(name="a")(lambda flights, c: c)
    pipeline.stage(name="b")(lambda a: a)
    pipeline.stage(name="c")(lambda b: b)
    pipeline.sink("out", name="report")(lambda c: c)
    assert complaint(pipeline) == (
        "stage 'a' reads its own result: a -> b -> c -> a\n"
        "-> take one of these inputs away; each arrow goes from a result to the stage that reads it"
    )


def test_a_stage_that_reads_itself():
    pipeline = one_source()
    pipeline.stage(name="a")(lambda flights, a: a)
    assert complaint(pipeline).startswith("stage 'a' reads its own result: a -> a\n")


def test_a_sink_that_is_read():
    pipeline = three_stages()
    pipeline.sink("out/more", name="more")(lambda report: report)
    assert complaint(pipeline) == (
        "sink 'more' reads 'report', which is a sink\n"
        "-> move what both need into a @pipeline.stage and read that here and in 'report'"
    )


def test_a_stage_nobody_reads():
    pipeline = three_stages()
    pipeline.stage(name="extra")(lambda flights: flights)
    assert complaint(pipeline) == (
        "stage 'extra' makes a result that no stage reads\n"
        "-> name it as a parameter of another stage, declare it with @pipeline.sink(path), or remove it"
    )


def test_a_pipelined_stage_with_two_readers():
    pipeline = three_stages(exchange="pipelined")
    pipeline.sink("out/more", name="more")(lambda delayed: delayed)
    assert complaint(pipeline) == (
        "stage 'delayed' is pipelined, and 2 stages read it (report, more)\n"
        "-> a pipelined result is computed inside its one reader: "
        "say exchange='blocking' to store it or exchange='cached' to persist it"
    )


# -- sinks ---------------------------------------------------------------------------------------------


def test_a_sink_without_a_place():
    pipeline = one_source()
    pipeline.sink(report)  # type: ignore[arg-type]
    assert complaint(pipeline) == ("sink 'report' says not where to\n-> @pipeline.sink('out/report') names a folder")


def report(flights): ...


def test_a_sink_that_is_none():
    pipeline = one_source()
    pipeline.sink(7)(report)  # type: ignore[arg-type]
    assert complaint(pipeline) == (
        "sink 'report' goes to 7, which is no sink\n-> give it a path, a FileSink, a SparkSink or a DataSourceSink"
    )


def test_a_sink_with_an_empty_path():
    pipeline = one_source()
    pipeline.sink("")(report)
    assert complaint(pipeline) == "sink 'report' has an empty path\n-> name a folder, such as 'out/report'"


@pytest.mark.parametrize(
    ("sink", "problem", "remedy"),
    [
        (FileSink("out", format="json"), "format='json'", "parquet or csv"),  # type: ignore[arg-type]
        (
            FileSink("out", mode="ignore"),  # type: ignore[arg-type]
            "mode='ignore'",
            "error or overwrite or append or overwrite_partitions",
        ),
    ],
)
def test_a_file_sink_with_an_option_that_does_not_exist(sink, problem, remedy):
    pipeline = one_source()
    pipeline.sink(sink)(report)
    assert complaint(pipeline) == f"sink 'report' has a FileSink with {problem}\n-> it is {remedy}"


HIVE_PARTITIONS = {
    "no name": (FileSink("out", hive_partitions=7), "a FileSink with hive_partitions=7"),  # type: ignore[arg-type]
    "empty": (FileSink("out", hive_partitions=("day", "")), "a FileSink with hive_partitions=('day', '')"),
    "twice": (FileSink("out", hive_partitions=("day", "Day")), "a FileSink whose hive_partitions name 'Day' twice"),
    "hidden": (FileSink("out", hive_partitions=".day"), "a FileSink with hive_partitions '.day': readers pass over"),
    "none": (FileSink("out", mode="overwrite_partitions"), 'a FileSink with mode="overwrite_partitions" and no hive'),
}


@pytest.mark.parametrize("case", HIVE_PARTITIONS)
def test_columns_that_cannot_be_folders(case):
    sink, problem = HIVE_PARTITIONS[case]
    pipeline = one_source()
    pipeline.sink(sink)(report)
    assert complaint(pipeline).startswith(f"sink 'report' has {problem}")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/out/report", "/out/report"),
        ("/out/report", "/out//x/../report/"),
        ("file:///out/report", "/out/report"),
        ("s3a://bucket/report", "s3a://bucket/report/"),
    ],
)
def test_two_sinks_to_one_path(first, second):
    pipeline = one_source()
    pipeline.sink(first)(report)
    pipeline.sink(second, name="again")(report)
    target = FileSink(second).target
    assert complaint(pipeline) == (
        f"sink 'again' writes to the same path as sink 'report' ({target})\n-> give each sink a folder of its own"
    )


@pytest.mark.parametrize(("first", "second"), [("/out", "/out/report"), ("/out/report", "/out"), ("/", "/o")])
def test_a_sink_inside_another(first, second):
    pipeline = one_source()
    pipeline.sink(first)(report)
    pipeline.sink(second, name="again")(report)
    assert complaint(pipeline) == (
        f"sink 'again' writes inside or around the path of sink 'report' ({second})\n"
        "-> give each sink a folder of its own"
    )


def test_sinks_side_by_side():
    pipeline = one_source()
    pipeline.sink("/out/report")(report)
    pipeline.sink("/out/report2", name="again")(report)
    assert len(pipeline.build().stages) == 3


# -- streams -------------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-9")
def test_a_streaming_source_with_speculation():
    assert complaint(one_source(streaming=True)) == (
        "source 'flights' is a streaming source, and streams are not speculated\n"
        "-> say speculation=False; only bounded stages can have a second attempt"
    )
