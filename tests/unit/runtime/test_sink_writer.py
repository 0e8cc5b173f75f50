"""The rows of a sink's partition in a writer's hands: one message counts, what has lost is aborted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rekindle.runtime import sink_writer, task
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.sink_writer import SinkWriter, read_message
from rekindle.runtime.task import WriterSpec, write_partition

SCHEMA = StructType().add("n", "long").add("word", "string")
BATCHES = [
    pyarrow.RecordBatch.from_pydict({"c0": [1, 2], "c1": ["a", None]}),
    pyarrow.RecordBatch.from_pydict({"c0": [3], "c1": ["c"]}),
]
ABORTED: list[str] = []
MEANWHILE: list[Callable[[], None]] = []


class Wrote(WriterCommitMessage):
    def __init__(self, what: str) -> None:
        self.what = what


class Writer(DataSourceWriter):
    """Its message has the rows, and `name`."""

    def __init__(self, name: str, returns: Any = None) -> None:
        self.name, self.returns = name, returns

    def write(self, iterator: Iterator[Any]) -> Any:
        rows = [tuple(row) for row in iterator]
        if MEANWHILE:
            MEANWHILE.pop()()
        return Wrote(f"{self.name}: {rows}") if self.returns is None else self.returns

    def abort(self, messages: list[Any]) -> None:
        ABORTED.extend(one.what.partition(":")[0] for one in messages)


class FirstBatchOnly(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        return Wrote(str(next(iterator).column_names))


@pytest.fixture(autouse=True)
def forget() -> None:
    ABORTED.clear()
    MEANWHILE.clear()


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """As partition 2 of a job, which has been given all of its rows."""
    context = SimpleNamespace(partitionId=lambda: 2, taskAttemptId=lambda: 7, getLocalProperty=lambda name: None)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    monkeypatch.setattr(task, "_check_whole", lambda: None)


def spec(folder: Any, writer: Any) -> WriterSpec:
    sent = SinkWriter(cloudpickle.dumps(writer), SCHEMA.json())
    store = PosixStorage(str(folder))
    store.prepare()
    return WriterSpec(store, "s", "w", "m", ("data",), "parquet", ("n", "word"), signature=None, sink=sent)


def test_rows_have_the_names_and_types_of_the_schema(tmp_path, in_task):
    manifest = json.loads(write_partition(spec(tmp_path, Writer("one")), iter(BATCHES)))
    assert read_message(manifest["message"]).what == "one: [(1, 'a'), (2, None), (3, 'c')]"
    assert (manifest["rows"], manifest["files"], ABORTED) == (3, [], [])


def test_rows_that_a_writer_leaves_out_are_counted_all_the_same(tmp_path, in_task):
    manifest = json.loads(write_partition(spec(tmp_path, FirstBatchOnly()), iter(BATCHES)))
    assert (manifest["rows"], read_message(manifest["message"]).what) == (3, "['n', 'word']")


@pytest.mark.requirement("S5-8")
def test_who_has_written_while_another_was_quicker_is_aborted(tmp_path, in_task):
    """Both have written; the manifest is the quicker one's."""
    told = list[str]()
    MEANWHILE.append(lambda: told.append(write_partition(spec(tmp_path, Writer("quick")), iter(BATCHES))))
    told.append(write_partition(spec(tmp_path, Writer("slow")), iter(BATCHES)))
    assert told[0] == told[1]
    assert read_message(json.loads(told[0])["message"]).what.startswith("quick")
    assert ABORTED == ["slow"]


def test_what_was_written_by_a_task_that_was_cut_off_is_aborted(tmp_path, in_task, monkeypatch):
    def cut_off() -> None:
        raise EOFError("the task has ended before its partition did")

    monkeypatch.setattr(task, "_check_whole", cut_off)
    with pytest.raises(EOFError):
        write_partition(spec(tmp_path, Writer("cut")), iter(BATCHES))
    assert ABORTED == ["cut"]
    assert not (tmp_path / "m").exists()


def test_a_message_that_is_none_or_too_long_is_refused(tmp_path, in_task, monkeypatch):
    with pytest.raises(TypeError, match="a list: return a WriterCommitMessage"):
        write_partition(spec(tmp_path, Writer("x", returns=[])), iter(BATCHES))
    monkeypatch.setattr(sink_writer, "MOST_MESSAGE", 10)
    with pytest.raises(ValueError, match="bytes, and may have 10"):
        write_partition(spec(tmp_path, Writer("long")), iter(BATCHES))
    assert ABORTED == ["long"]
