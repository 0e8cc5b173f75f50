"""A Delta table has each run once, whoever asks for its commit, and as often as that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from rekindle.connectors.delta import Delta

SCHEMA = StructType().add("n", "long").add("word", "string")


def writer(path: object, version: int = 1, *, overwrite: bool = False, **more: str) -> Any:
    options = {"path": str(path), "txnAppId": "store/out", "txnVersion": str(version), **more}
    return Delta(options).writer(SCHEMA, overwrite)


def write(made: Any, *numbers: int) -> Any:
    """By a copy of the writer, as an executor has it; one batch for each number."""
    loads: Any = cloudpickle.loads
    batches = [pyarrow.RecordBatch.from_pydict({"n": [n], "word": [str(n)]}) for n in numbers]
    return loads(cloudpickle.dumps(made)).write(iter(batches))


def rows(path: Path) -> list[int]:
    import pyarrow.parquet

    return sorted(
        n
        for file in DeltaTable(str(path)).file_uris()
        for n in pyarrow.parquet.read_table(file).column("n").to_pylist()
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_nothing_is_in_the_table_before_the_commit_and_all_is_after_it(table):
    made = writer(table)
    messages = [write(made, 1, 2), write(made), write(made, 3)]
    assert not DeltaTable.is_deltatable(str(table))
    made.commit(messages)
    assert rows(table) == [1, 2, 3]
    assert DeltaTable(str(table)).transaction_version("store/out") == 1


@pytest.mark.requirement("S5-8")
def test_a_commit_that_is_asked_for_again_changes_nothing(table):
    made = writer(table)
    messages = [write(made, 1), write(made, 2)]
    made.commit(messages)
    version = DeltaTable(str(table)).version()
    writer(table).commit(messages)
    writer(table).commit([write(made, 7)])  # parts of it were made again meanwhile
    assert (rows(table), DeltaTable(str(table)).version()) == ([1, 2], version)


@pytest.mark.requirement("S5-8")
def test_of_two_drivers_that_commit_at_the_same_instant_one_is_refused(table, monkeypatch):
    """Both have looked before either has committed."""
    DeltaTable.create(str(table), pyarrow.schema([("n", pyarrow.int64()), ("word", pyarrow.string())]))
    looked = iter([DeltaTable(str(table)), DeltaTable(str(table))])
    monkeypatch.setattr(DeltaTable, "create", lambda *args, **more: next(looked))
    one, other = writer(table), writer(table)
    one.commit([write(one, 1)])
    with pytest.raises(Exception, match="Concurrent transaction"):
        other.commit([write(other, 1)])
    assert rows(table) == [1]


def test_a_relative_path_is_the_driver_s_wherever_a_task_runs(tmp_path, monkeypatch):
    for place in ("driver", "executor"):
        (tmp_path / place).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    made = writer("table")
    monkeypatch.chdir(tmp_path / "executor")
    messages = [write(made, 1)]
    monkeypatch.chdir(tmp_path / "driver")
    made.commit(messages)
    assert rows(tmp_path / "driver" / "table") == [1]


def test_a_file_that_the_driver_does_not_see_is_not_committed(table):
    made = writer(table)
    messages = [write(made, 1), write(made, 2)]
    (table / messages[0].path).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{messages[0].path} is not here.*all executors reach"):
        made.commit(messages)
    assert rows(table) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_next_run_appends_or_replaces(table, overwrite):
    for version in (1, 2):
        made = writer(table, version, overwrite=overwrite)
        made.commit([write(made, version)])
    assert rows(table) == ([2] if overwrite else [1, 2])


@pytest.mark.requirement("S5-13")
def test_what_has_lost_leaves_no_file(table):
    made = writer(table)
    won, lost = write(made, 1), write(made, 1)
    made.commit([won])
    made.abort([lost, lost, write(made)])
    assert [path.name for path in table.glob("*.parquet")] == [won.path]
    assert rows(table) == [1]


def test_an_attempt_that_fails_while_it_writes_leaves_no_file(table):
    def batches() -> Any:
        yield pyarrow.RecordBatch.from_pydict({"n": [1]})
        raise EOFError("the task has ended")

    with pytest.raises(EOFError):
        writer(table).write(batches())
    assert list(table.glob("*.parquet")) == []


def test_a_table_that_the_rows_do_not_fit_is_refused_before_anything_is_written(tmp_path):
    write_deltalake(str(tmp_path / "other"), pyarrow.table({"n": ["x"]}))
    with pytest.raises(ValueError, match=r"has the columns n string, and the sink n long, word string"):
        writer(tmp_path / "other")
    write_deltalake(str(tmp_path / "parts"), pyarrow.table({"n": [1], "word": ["a"]}), partition_by=["word"])
    with pytest.raises(ValueError, match="is partitioned by word"):
        writer(tmp_path / "parts")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=rf"{tmp_path}/file cannot be looked at"):
        writer(tmp_path / "file")


def test_options_that_are_none_are_named(tmp_path):
    with pytest.raises(ValueError, match="no option 'mode'"):
        writer(tmp_path, mode="append")
    with pytest.raises(ValueError, match="needs the option 'path'"):
        writer("")


def test_a_table_may_have_times(table):
    at = pyarrow.array([0], pyarrow.timestamp("us", "UTC"))
    made = Delta({"path": str(table)}).writer(StructType().add("at", "timestamp"), False)
    made.commit([made.write(iter([pyarrow.RecordBatch.from_arrays([at], ["at"])]))])
    found = DeltaTable(str(table))
    assert str(found.schema().fields[0].type.type) == "timestamp"
    assert found.file_uris()
