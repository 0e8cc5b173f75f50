"""Sinks whose tasks write by a Python DataSource, which commits what the winners have written."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage

from rekindle.connectors.delta import Delta
from rekindle.pipeline import DataSourceSink
from rekindle.runtime import data_source_sink, publisher
from rekindle.runtime.errors import PipelineFailed
from rekindle.runtime.publication import WriteFailed
from tests.spark.numbers import committed, numbers

EVENS = [0, 2, 4, 6, 8]
COPIES = {
    "speculation.enabled": "true",
    "speculation.sinkEnabled": "true",
    "speculation.baselineLowerBound": "1s",
    "speculation.baselineRatio": "0.5",
}


class Staged(DataSource):
    """Each task writes a file, each commit a list of those that count."""

    supports_concurrent_execution_attempts = True

    @classmethod
    def name(cls) -> str:
        return "staged"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return StagedWriter(Path(self.options["path"]), self.options.get("trouble", ""), self.options)


class KnowsItsCommits(Staged):
    """As a table that keeps in itself what it has committed."""

    idempotent_commit = True


class ByBatches(Staged):
    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return ArrowWriter(Path(self.options["path"]))


class StagedWriter(DataSourceWriter):
    def __init__(self, folder: Path, trouble: str, options: Any) -> None:
        self.folder, self.trouble = folder, trouble
        self.commit_as = (options["txnAppId"], options["txnVersion"]) if "txnAppId" in options else None

    def write(self, iterator: Iterator[Row]) -> Any:
        rows = [row.n for row in iterator]
        if self.trouble == "says nothing":
            return rows
        if self.trouble == "slow" and 0 in rows and self.is_first():
            self.wait_for_the_copy()
        return self.staged(rows)

    def staged(self, rows: list[int]) -> WriterCommitMessage:
        name = uuid.uuid4().hex
        (self.folder / "staged" / name).write_text(json.dumps(rows))
        return File(name)

    def is_first(self) -> bool:
        try:
            os.close(os.open(self.folder / "first", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def wait_for_the_copy(self) -> None:
        for _ in range(600):
            if any("0" in path.read_text() for path in (self.folder / "staged").iterdir()):
                return
            time.sleep(0.1)
        raise TimeoutError("no copy has written")

    def commit(self, messages: list[Any]) -> None:
        if self.trouble == "gone" and not (self.folder / "mended").exists():
            raise OSError("the table is gone")
        name = (
            f"{uuid.uuid4().hex}.json"
            if self.commit_as is None
            else f"{uuid.uuid5(uuid.NAMESPACE_OID, str(self.commit_as))}.json"
        )
        rows = [n for one in messages for n in json.loads((self.folder / "staged" / one.name).read_text())]
        if not (self.folder / name).exists():
            (self.folder / name).write_text(json.dumps(sorted(rows)))
        if self.trouble == "cut off" and not (self.folder / "mended").exists():
            raise OSError("the connection was lost")

    def abort(self, messages: list[Any]) -> None:
        for one in messages:
            (self.folder / "staged" / one.name).unlink()


class ArrowWriter(DataSourceArrowWriter):
    def __init__(self, folder: Path) -> None:
        self.rest = StagedWriter(folder, "", {})

    def write(self, iterator: Iterator[Any]) -> Any:
        return self.rest.staged([n for batch in iterator for n in batch.column("n").to_pylist()])

    def commit(self, messages: list[Any]) -> None:
        self.rest.commit(messages)


class File(WriterCommitMessage):
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table" / "staged").mkdir(parents=True)
    return tmp_path / "table"


def reruns(result: Any) -> dict[str, int]:
    return {stage["name"]: stage["rerun"] for stage in result.report["stages"]}


@pytest.mark.requirement("S5-8")
@pytest.mark.parametrize("source", [Staged, ByBatches], ids=["rows", "batches"])
def test_what_tasks_have_written_is_committed_at_once(spark, tmp_path, table, source):
    result = numbers(DataSourceSink(source, {"path": table})).run(spark, store=tmp_path / "store")
    assert committed(table) == [EVENS]
    assert result.report["sinks"] == [{"stage": "out", "path": f"staged {table}", "files": 0}]
    assert not list((tmp_path / "store").rglob("data/out/**/*.parquet")), "its rows are not stored too"


@pytest.mark.requirement("S5-8")
def test_of_two_attempts_that_write_the_same_one_is_committed(spark, tmp_path, table):
    """The first of them waits for its copy, and ends a moment after it, or is ended."""
    sink = DataSourceSink(Staged, {"path": table, "trouble": "slow"})
    result = numbers(sink).run(spark, store=tmp_path / "store", options=COPIES)
    assert committed(table) == [EVENS]
    (out,) = [stage for stage in result.report["stages"] if stage["name"] == "out"]
    assert out["speculativeEffective"] == 1


def test_a_commit_that_nobody_knows_of_is_not_done_again(spark, tmp_path, table):
    sink = DataSourceSink(Staged, {"path": table, "trouble": "cut off"})
    with pytest.raises(PipelineFailed, match=r"(?s)could not commit to staged.*connection was lost.*look what is"):
        numbers(sink).run(spark, store=tmp_path / "store")
    (table / "mended").touch()
    with pytest.raises(
        PipelineFailed, match=r"(?s)nobody can tell how far it came.*DataSourceSink\(\.\.\., repeatable"
    ):
        numbers(sink).run(spark, store=tmp_path / "store")
    assert committed(table) == [EVENS]


def test_a_commit_that_the_table_knows_is_asked_for_again(spark, tmp_path, table):
    sink = DataSourceSink(KnowsItsCommits, {"path": table, "trouble": "cut off"})
    with pytest.raises(PipelineFailed, match=r"(?s)connection was lost.*only publishing is repeated"):
        numbers(sink).run(spark, store=tmp_path / "store")
    (table / "mended").touch()
    result = numbers(sink).run(spark, store=tmp_path / "store")
    assert (committed(table), reruns(result)) == ([EVENS], {"some": 0, "out": 0})
    numbers(sink).run(spark, store=tmp_path / "store")
    assert committed(table) == [EVENS, EVENS], "another run adds its own"


def test_a_table_that_is_gone_and_comes_back_is_written_without_computing_again(spark, tmp_path, table):
    sink = DataSourceSink(Staged, {"path": table, "trouble": "gone"}, repeatable=True)
    with pytest.raises(PipelineFailed, match=r"(?s)the table is gone.*only publishing is repeated"):
        numbers(sink).run(spark, store=tmp_path / "store")
    assert committed(table) == []
    (table / "mended").touch()
    result = numbers(sink).run(spark, store=tmp_path / "store")
    assert (committed(table), reruns(result)) == ([EVENS], {"some": 0, "out": 0})


def test_a_delta_table_has_the_rows_of_a_run_once(spark, tmp_path, table, monkeypatch):
    """Its first driver is lost behind the commit, and the next one asks for it again."""
    pipeline = numbers(DataSourceSink(Delta, {"path": table}))

    def commit_and_end(*what: Any) -> None:
        data_source_sink.commit(*what)
        raise WriteFailed(ConnectionError("the driver was lost"), has_begun=True)

    monkeypatch.setattr(publisher, "commit", commit_and_end)
    with pytest.raises(PipelineFailed, match="the driver was lost"):
        pipeline.run(spark, store=tmp_path / "store")
    monkeypatch.undo()
    result = pipeline.run(spark, store=tmp_path / "store")
    files = DeltaTable(str(table)).file_uris()
    assert sorted(n for file in files for n in pyarrow.parquet.read_table(file).column("n").to_pylist()) == EVENS
    assert (DeltaTable(str(table)).version(), reruns(result)) == (1, {"some": 0, "out": 0})


def test_a_writer_that_returns_no_message_is_told_so(spark, tmp_path, table):
    sink = DataSourceSink(Staged, {"path": table, "trouble": "says nothing"})
    with pytest.raises(PipelineFailed, match=r"write\(\) returned a list: return a WriterCommitMessage"):
        numbers(sink).run(spark, store=tmp_path / "store")
    assert committed(table) == []


def test_a_sink_whose_options_are_wrong_is_told_as_such_and_not_its_stage(spark, tmp_path):
    sink = DataSourceSink(Delta, {"path": str(tmp_path / "table"), "partitionsBy": "n"})
    with pytest.raises(
        PipelineFailed, match=r"(?s)its sink \S+ raised ValueError.*partitionBy.*mend the sink's options"
    ):
        numbers(sink).run(spark, store=tmp_path / "store")
