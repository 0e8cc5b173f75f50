"""What Spark has planned: shuffles and exchanges, and what was decided on the way."""

from __future__ import annotations

import hashlib
import io
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
_MAY_RUN_PYTHON = re.compile("Python|InPandas|InArrow|UDTF|Aggregate|Window")
_PLAN_TREE = re.compile(r"^[ :+\-*]*(\(\d+\) )?")
_EXCHANGE = re.compile(r"(Exchange|CartesianProduct|Coalesce)\b|ShuffleExchange|CoalesceExec")


def settings_of(frame: DataFrame) -> dict[str, str]:
    """Spark SQL's settings that a job over `frame` needs as local properties: there tasks look for them."""
    settings = frame.sparkSession.conf.getAll
    return {str(key): str(value) for key, value in settings.items() if str(key).startswith("spark.sql.")}


def shuffles_of(jrdd: Any) -> list[Any]:
    """Spark's shuffle dependencies in the lineage of a Java RDD, nearest first. Empty: no map side."""
    return list(_shuffle_dependencies(jrdd, beyond=True))


def own_shuffles_of(jrdd: Any) -> list[Any]:
    """Those of them that are not behind rows which were stored or cached here."""
    return list(_shuffle_dependencies(jrdd, beyond=True, stop_at=OURS))


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
    text = re.sub(r"#\d+L?|\bplan_id=\d+", "#", _whole_text(plan))
    text = re.sub(r"\blambda (\w+?)_\d+#", r"lambda \1#", text)  # Spark counts their variables
    if "Join" not in text and "subquery" not in text:
        text = re.sub(r"\b(rand|randn|uuid|shuffle)\((.*?)-?\d*\)", r"\1(\2)", text)
        text = re.sub(r"(Sample .*, )-?\d+$", r"\1", text, flags=re.MULTILINE)
    said = {key: value for key, value in settings.items() if key not in _PLACES}
    said[_TIME_ZONE] = str(frame.sparkSession.conf.get(_TIME_ZONE))
    nodes = [(_class_of(node), node) for node in _nodes(plan)]
    functions = [one for kind, node in nodes if _MAY_RUN_PYTHON.search(kind) for one in _python_functions(node)]
    rows = [str(node.data().mkString(",")) for kind, node in nodes if kind == "LocalRelation"]
    return hashlib.sha256(json.dumps([text, sorted(said.items()), functions, rows]).encode()).hexdigest()[:32]


def reads_own_rows(frame: DataFrame) -> bool:
    """Whether a plan has rows that the stage's function made itself, of which nobody can tell whether they are the
    same when it makes them again."""
    nodes = _nodes(frame._jdf.queryExecution().optimizedPlan())
    return any(_class_of(node) == "LogicalRDD" and str(node.rdd().name()) != OURS for node in nodes)


def _python_functions(node: Any) -> Iterator[str]:
    """Fingerprints of the Python functions that a node of a logical plan calls, in their order."""
    for expression in _elements(node.expressions()):
        yield from map(_fingerprint, filter(_is_python, _below(expression)))


def _nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a logical plan, of its subqueries, and of what it reads from Spark's cache."""
    for node in _below(plan):
        yield node
        for inner in (*_elements(node.subqueries()), *_elements(node.innerChildren())):
            yield from _nodes(inner)


def _below(node: Any) -> Iterator[Any]:
    """A node of a tree of Spark's, of plans or of expressions, and all below it."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(_elements(one.children()))


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(position) for position in range(sequence.size())]


def _class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_python(expression: Any) -> bool:
    return _class_of(expression) in {"PythonUDF", "PythonUDAF", "PythonUDTF"}


def _fingerprint(expression: Any) -> str:
    """Of the function that an expression calls; of its pickled form where it cannot be had from that, as of one of
    megabytes, which is a broadcast."""
    pickled = bytes(int(byte) & 0xFF for byte in str(expression.func().command().mkString(",")).split(","))
    try:
        loaded = _Unpickler(io.BytesIO(pickled)).load()
    except Exception:  # it runs what the program says of its own classes, and a broadcast is not there
        return hashlib.sha256(pickled).hexdigest()
    return function_fingerprint(loaded[0] if isinstance(loaded, tuple) else loaded)


class _Unpickler(pickle.Unpickler):
    """Makes classes of the program anew: cloudpickle would find those that are in use here, and fill them again."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if name in {"_make_skeleton_class", "_make_skeleton_enum"}:
            return lambda *arguments: found(*arguments[:-2], None, arguments[-1])
        return found


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


def _shuffle_dependencies(jrdd: Any, *, beyond: bool, stop_at: str = "") -> Iterator[Any]:
    seen: set[int] = set()
    pending = [jrdd]
    while pending:
        rdd = pending.pop()
        if rdd.id() in seen or (stop_at and str(rdd.name()) == stop_at):
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
