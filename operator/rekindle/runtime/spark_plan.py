"""What Spark has planned: shuffles and exchanges, and what was decided on the way."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rekindle.pipeline.fingerprint import function_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OURS = "rekindle"
"""The name of an RDD of rows that were stored or cached here."""

_PLACES = ("spark.sql.warehouse.dir",)
_TIME_ZONE = "spark.sql.session.timeZone"
_RUNS_PYTHON = re.compile("Python|InPandas|InArrow|UDTF")
_PLAN_TREE = re.compile(r"^[ :+\-*]*(\(\d+\) )?")
_EXCHANGE = re.compile(r"(Exchange|CartesianProduct|Coalesce)\b|ShuffleExchange|CoalesceExec")


def settings_of(frame: DataFrame) -> dict[str, str]:
    """Spark SQL's settings that a job over `frame` needs as local properties: there tasks look for them."""
    settings = frame.sparkSession.conf.getAll
    return {str(key): str(value) for key, value in settings.items() if str(key).startswith("spark.sql.")}


def shuffles_of(jrdd: Any) -> list[Any]:
    """Spark's shuffle dependencies in the lineage of a Java RDD, nearest first. Empty: no map side.

    Does not look behind persisted RDDs: their shuffles belong to the stage that made them.
    """
    return list(_shuffle_dependencies(jrdd, beyond=True))


def read_shuffles_of(jrdd: Any) -> list[Any]:
    """The shuffle dependencies that the tasks of a Java RDD read themselves."""
    return list(_shuffle_dependencies(jrdd, beyond=False))


def feeding_shuffles(dependencies: Iterable[Any]) -> dict[int, tuple[int, ...]]:
    """[shuffle -> the shuffles that its map tasks read], of those that read one."""
    read = {int(one.shuffleId()): shuffle_ids(read_shuffles_of(one.rdd())) for one in dependencies}
    return {shuffle: ids for shuffle, ids in read.items() if ids}


def shuffle_ids(dependencies: Iterable[Any]) -> tuple[int, ...]:
    """Ids of their shuffles, each once."""
    return tuple(dict.fromkeys(int(one.shuffleId()) for one in dependencies))


def reads_beside_shuffle(plan: str) -> bool:
    """Whether a physical plan has rows that come to its tasks other than by files and shuffles: by broadcast or a
    subquery. What they are may differ from one plan to the next, and no map output shows it."""
    return any(mark in plan for mark in ("BroadcastExchange", "Subquery", "ReusedExchange"))


def plan_values(frame: DataFrame, settings: Mapping[str, str]) -> str:
    """A digest of what was decided when `frame` was planned: values of the function's own, the time, seeds, settings,
    and what its Python functions have captured, as far as a fingerprint of code goes.

    Equal for equal programs in every driver. Columns have other ids each time. Seeds are left out where they only
    decide over rows of one partition.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    text = re.sub(r"#\d+L?", "#", _whole_text(plan))
    if "Join" not in text and "subquery" not in text:
        text = re.sub(r"\b(rand|randn|uuid|shuffle)\((.*?)-?\d*\)", r"\1(\2)", text)
        text = re.sub(r"(Sample .*, )-?\d+$", r"\1", text, flags=re.MULTILINE)
    said = {key: value for key, value in settings.items() if key not in _PLACES}
    said[_TIME_ZONE] = str(frame.sparkSession.conf.get(_TIME_ZONE))
    functions = [function_fingerprint(function) for function in _python_functions(plan)]
    rows = [str(node.data().mkString(",")) for node in _below(plan) if _class_of(node) == "LocalRelation"]
    return hashlib.sha256(json.dumps([text, sorted(said.items()), functions, rows]).encode()).hexdigest()[:32]


def reads_own_rows(frame: DataFrame) -> bool:
    """Whether a plan has rows that the stage's function made itself, of which nobody can tell whether they are the
    same when it makes them again."""
    nodes = _below(frame._jdf.queryExecution().optimizedPlan())
    return any(_class_of(node) == "LogicalRDD" and str(node.rdd().name()) != OURS for node in nodes)


def _python_functions(plan: Any) -> Iterator[Any]:
    """The Python functions in a logical plan, in their order."""
    for node in _below(plan):
        if _RUNS_PYTHON.search(_class_of(node)):
            expressions = node.expressions()
            for position in range(expressions.size()):
                yield from map(_function_of, filter(_is_python, _below(expressions.apply(position))))


def _below(node: Any) -> Iterator[Any]:
    """A node of a tree of Spark's, and all below it."""
    yield node
    children = node.children()
    for position in range(children.size()):
        yield from _below(children.apply(position))


def _class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_python(expression: Any) -> bool:
    return _class_of(expression).startswith("Python")


def _function_of(expression: Any) -> Any:
    """None where it cannot be had: one of megabytes is a broadcast."""
    text = str(expression.func().command().mkString(","))
    try:
        return pickle.loads(bytes(int(byte) & 0xFF for byte in text.split(",")))[0]
    except Exception:
        return None


def _whole_text(plan: Any) -> str:
    """A plan as Spark prints it, with all of its columns."""
    from py4j.protocol import Py4JError

    how = (True, False, 2**31 - 1, False)
    try:
        return str(plan.treeString(*how, False))
    except Py4JError:  # Spark 4.0 has one parameter less
        return str(plan.treeString(*how))


def has_barrier(jrdd: Any, shuffles: Iterable[Any]) -> bool:
    """Whether tasks of a Java RDD, or of what it shuffles, run in barrier mode: all at once, or none."""
    return any(bool(rdd.isBarrier()) for rdd in (jrdd, *(one.rdd() for one in shuffles)))


def _shuffle_dependencies(jrdd: Any, *, beyond: bool) -> Iterator[Any]:
    seen: set[int] = set()
    pending = [jrdd]
    while pending:
        rdd = pending.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        dependencies = rdd.dependencies()
        for position in range(dependencies.size()):
            dependency = dependencies.apply(position)
            is_shuffle = dependency.getClass().getSimpleName() == "ShuffleDependency"
            if is_shuffle:
                yield dependency
            if beyond or not is_shuffle:
                pending.append(dependency.rdd())


def exchanges_in_plan(frame: DataFrame) -> list[str]:
    """The exchanges (other than broadcasts) of the physical plan, as Spark prints them."""
    lines = frame._jdf.queryExecution().executedPlan().toString().splitlines()
    return [node for node in (_PLAN_TREE.sub("", line) for line in lines) if _EXCHANGE.match(node)]
