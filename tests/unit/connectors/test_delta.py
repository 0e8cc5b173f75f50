"""A Delta table has each run once, whoever asks for its commit, and as often as that is."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.delta import Delta
from rekindle.connectors.delta_files import write_files


def schema(**columns: str) -> StructType:
    found = StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


SCHEMA = schema(n="long", word="string")


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
    (table / messages[0].place).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{messages[0].place} is not here.*all executors reach"):
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
    assert [path.name for path in table.glob("*.parquet")] == [won.place]
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
    with pytest.raises(ValueError, match="is partitioned by word, and the option 'partitionBy' says n: leave it out"):
        writer(tmp_path / "parts", partitionBy="n")
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


def actions(table: Path) -> Any:
    """What the log says of each file."""
    return pyarrow.table(DeltaTable(str(table)).get_add_actions(flatten=True))


def values(table: Path, column: str) -> list[Any]:
    """Of a partition column, in each file."""
    return list(actions(table).column(f"partition.{column}").to_pylist())


class TestPartitioned:
    """By text, a truth value, a date and a whole number, each of which may be null."""

    SCHEMA = schema(n="long", word="string", good="boolean", day="date", year="integer")
    DAY = datetime.date(2020, 2, 29)
    ROWS: ClassVar[list[tuple[Any, ...]]] = [
        (1, "a/b", True, DAY, 2020),
        (2, "x y%=", False, None, -1),
        (3, "ü", None, DAY, None),
        (4, None, True, DAY, 2020),
        (5, "a/b", True, DAY, 2020),
    ]

    def made(self, path: Path, by: str = "word,good, day ,year", **more: str) -> Any:
        return Delta({"path": str(path), "partitionBy": by, **more}).writer(self.SCHEMA, False)

    def written(self, made: Any) -> Any:
        names = self.SCHEMA.names
        of = arrow_schema(self.SCHEMA)
        return made.write(
            iter([pyarrow.RecordBatch.from_pylist([dict(zip(names, row, strict=True))], of) for row in self.ROWS])
        )

    def test_rows_come_back_as_they_were(self, table):
        made = self.made(table)
        made.commit([self.written(made)])
        found = DeltaTable(str(table))
        assert found.metadata().partition_columns == ["word", "good", "day", "year"]
        assert len(found.file_uris()) == 4
        rows = found.to_pyarrow_table(columns=self.SCHEMA.names).sort_by("n").to_pylist()
        assert [tuple(row.values()) for row in rows] == self.ROWS

    def test_the_log_has_the_value_of_each_file(self, table):
        made = self.made(table)
        made.commit([self.written(made)])
        assert values(table, "word").count("a/b") == 1
        assert values(table, "day").count(self.DAY) == 3

    @pytest.mark.requirement("S5-13")
    def test_what_has_lost_leaves_nothing(self, table):
        made = self.made(table)
        won, lost = self.written(made), self.written(made)
        made.commit([won])
        made.abort([lost, lost])
        assert sorted(path.name for path in table.iterdir()) == ["_delta_log", won.place]
        assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 5

    def test_a_table_that_is_there_is_written_as_it_is_partitioned(self, table):
        DeltaTable.create(str(table), arrow_schema(self.SCHEMA), partition_by=["year"])
        made = self.made(table, "")
        made.commit([self.written(made)])
        assert values(table, "year").count(2020) == 1

    def test_an_attempt_that_fails_while_it_writes_leaves_nothing(self, table):
        def batches() -> Any:
            for n in range(200):
                yield pyarrow.RecordBatch.from_pylist([{"n": n, "word": "a"}], arrow_schema(SCHEMA))
            raise EOFError("the task has ended")

        with pytest.raises(EOFError):
            writer(table, partitionBy="word").write(batches())
        assert list(table.rglob("*.parquet")) == []

    @pytest.mark.parametrize(
        ("by", "said"),
        [
            ("words", "names 'words', and the columns are n, word, at"),
            ("at", "names at, a column of timestamp.*: name one of text, whole numbers"),
            ("word, word", "is word, word: name some of the columns, each once"),
        ],
    )
    def test_columns_that_make_no_folders_are_named(self, table, by, said):
        with pytest.raises(ValueError, match=said):
            Delta({"path": str(table), "partitionBy": by}).writer(
                schema(n="long", word="string", at="timestamp"), False
            )
        with pytest.raises(ValueError, match="is n: name some"):
            Delta({"path": str(table), "partitionBy": "n"}).writer(schema(n="long"), False)


class TestStatistics:
    def stats(self, table: Path, **columns: Any) -> dict[str, Any]:
        data = pyarrow.table(columns)
        added = write_files(str(table), [], iter(data.to_batches(max_chunksize=1)))
        return dict(json.loads(added.files[0].stats))

    def test_whole_numbers_dates_and_short_texts_have_bounds_and_all_have_nulls(self, table):
        day = datetime.date(2020, 2, 29)
        found = self.stats(table, n=[3, None, -1], word=["b", "a", None], day=[day, None, None], x=[0.5, None, 1.0])
        assert found == {
            "numRecords": 3,
            "minValues": {"n": -1, "word": "a", "day": "2020-02-29"},
            "maxValues": {"n": 3, "word": "b", "day": "2020-02-29"},
            "nullCount": {"n": 1, "word": 1, "day": 2, "x": 1},
        }

    def test_what_cannot_be_bound_exactly_has_no_bounds(self, table):
        at = pyarrow.array([1], pyarrow.timestamp("us", "UTC"))
        found = self.stats(table, long=["x" * 33], at=at, good=[True], nested=[{"n": 1}], many=[[1]])
        assert (found["minValues"], found["maxValues"]) == ({}, {})
        assert found["nullCount"] == {"long": 0, "at": 0, "good": 0}

    def test_a_column_without_values_has_no_bounds(self, table):
        assert self.stats(table, n=pyarrow.array([None, None], pyarrow.int64())) == {
            "numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"n": 2}
        }  # fmt: skip

    def test_the_log_has_them(self, table):
        for version, n in enumerate((1, 100)):
            made = writer(table, version)
            made.commit([write(made, n)])
        assert sorted(actions(table).column("min.n").to_pylist()) == [1, 100]
