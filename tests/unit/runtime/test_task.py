"""What executors run, outside Spark: sent by value, and the sums that make a digest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pyspark import cloudpickle

from rekindle.runtime.by_value import by_value
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.s3_storage import S3Storage
from rekindle.runtime.storage import Storage
from rekindle.runtime.task import WriterSpec, _FileSink, _Rows, _sums, _write_files, make_writer

STORAGES: dict[str, Callable[[Path], Storage]] = {
    "folder": lambda folder: PosixStorage(str(folder)),
    "bucket": lambda folder: S3Storage("b", "x", (("endpoint", "http://127.0.0.1:1"), ("region", "r")), patience=0.0),
}
PROGRAM = """
import pickle, sys
sys.modules["rekindle"] = None
writer, storage = pickle.load(open(sys.argv[1], "rb"))
try:
    with storage.writing("data/file") as path, open(path, "wb") as file:
        file.write(b"rows")
    print(writer.__name__, storage.put_if_absent("manifest", b"1"), storage.get("data/file"))
except ConnectionError as error:
    print(writer.__name__, type(error).__name__)
"""


@pytest.mark.parametrize(("place", "says"), [("folder", "write True b'rows'"), ("bucket", "write BucketError")])
def test_the_writer_and_its_storage_need_no_rekindle_where_they_run(tmp_path, place, says):
    storage = STORAGES[place](tmp_path / "store")
    storage.prepare()
    spec = WriterSpec(storage, "stage", "writer", "manifests", ("data",), "parquet", ("a",), signature="x")
    (tmp_path / "sent").write_bytes(cloudpickle.dumps((by_value(make_writer(spec)), storage)))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "sent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, says), done.stderr


def test_sums_do_not_depend_on_order_and_one_notices_what_the_other_does_not():
    def sums(values: list[int]) -> tuple[int, int]:
        return _sums(pyarrow.array(values, pyarrow.int64()))

    assert sums([1, -2, 3]) == sums([3, 1, -2])
    first, cancelling = sums([5, 7]), sums([4, 8])
    assert first[0] == cancelling[0]
    assert first[1] != cancelling[1]


@pytest.mark.requirement("S7-7")
def test_a_digest_tells_rows_and_columns_apart_also_where_there_is_no_row(tmp_path):
    def digest(signature: str | None, *batches: list[int]) -> str | None:
        columns = ("n",)
        spec = WriterSpec(PosixStorage(str(tmp_path)), "s", "w", "m", ("data",), "parquet", columns, signature)
        made = [pyarrow.RecordBatch.from_pydict({"c0": rows, "c1": rows}) for rows in batches]
        rows = _Rows(spec, iter(made))
        _write_files(spec, 0, "data", rows)
        return rows.digest

    assert digest("x", [1, 2], [3]) == digest("x", [3, 2, 1])
    assert digest("x", [1, 2]) != digest("y", [1, 2])
    assert digest("x") == digest("x", []) != digest("y")
    assert digest(None, [1]) is None


def test_floating_columns_have_no_statistics_and_dictionaries_and_all_others_have(tmp_path):
    """NaN is missing in pyarrow's statistics: a filter for what is greater than 5 would pass over it."""
    kinds = {"a.b": pyarrow.int32(), "x": pyarrow.float64()}
    nested = {
        "s": pyarrow.struct([("y", pyarrow.float32()), ("q", pyarrow.list_(pyarrow.string()))]),
        "m": pyarrow.map_(pyarrow.string(), pyarrow.struct([("z", pyarrow.float64()), ("w", pyarrow.int8())])),
    }
    row = {"a.b": 1, "x": float("nan"), "s": {"y": 1.0, "q": ["t"]}, "m": [("k", {"z": 1.0, "w": 1})]}
    storage = PosixStorage(str(tmp_path))
    spec = WriterSpec(storage, "stage", "writer", "manifests", ("data",), "parquet", tuple(row), signature=None)
    with _FileSink(spec, 0, "data") as sink:
        sink.write(pyarrow.RecordBatch.from_pylist([row, row], pyarrow.schema(kinds | nested)))
        (file,) = sink.close()
    group = pyarrow.parquet.ParquetFile(tmp_path / file["path"]).metadata.row_group(0)
    columns = [group.column(position) for position in range(group.num_columns)]
    bare = {column.path_in_schema for column in columns if not column.is_stats_set and not column.has_dictionary_page}
    full = {column.path_in_schema for column in columns if column.is_stats_set and column.has_dictionary_page}
    assert bare == {"x", "s.y", "m.key_value.value.z"}
    assert full == {"a.b", "s.q.list.element", "m.key_value.key", "m.key_value.value.w"}


def test_rows_of_one_folder_are_one_file_which_has_not_the_columns_that_name_it(tmp_path):
    """Batches end anywhere."""
    storage = PosixStorage(str(tmp_path))
    columns = ("n", "year", "word")
    spec = WriterSpec(storage, "s", "w", "m", ("data",), "parquet", columns, signature=None, folders=2)
    given = [(1, None, None), (2, None, None), (3, None, "a"), (4, "2013", "a"), (5, "2013", "a"), (6, "2013", "b/c")]
    wanted = {"__HIVE_DEFAULT_PARTITION__/word=__HIVE_DEFAULT_PARTITION__": [1, 2]}
    wanted |= {"__HIVE_DEFAULT_PARTITION__/word=a": [3], "2013/word=a": [4, 5], "2013/word=b%2Fc": [6]}
    types = pyarrow.schema({"n": pyarrow.int64(), "year": pyarrow.string(), "word": pyarrow.string()})
    for size in range(1, 7):
        batches = [
            pyarrow.RecordBatch.from_pylist(
                [dict(zip(columns, row, strict=True)) for row in given[at : at + size]], types
            )
            for at in range(0, 6, size)
        ]
        files = _write_files(spec, 0, f"data/{size}", _Rows(spec, iter(batches)))
        found = {
            file["folder"]: pyarrow.parquet.ParquetFile(tmp_path / file["path"]).read().to_pydict() for file in files
        }
        assert found == {f"year={folders}": {"n": rows} for folders, rows in wanted.items()}
        assert len(files) == 4


def test_what_a_worker_has_imported_is_not_gone_through_for_garbage_after_each_task():
    """Once for each worker: what later tasks leave is still collected."""
    program = """
import gc, weakref, pyarrow.parquet
from rekindle.runtime import task

class Kept: pass

task._leave_modules_alone()
frozen = gc.get_freeze_count()
assert frozen > 10_000 > len(gc.get_objects()), frozen
garbage = Kept(); garbage.me = garbage
seen = weakref.ref(garbage)
del garbage
task._leave_modules_alone()
assert gc.get_freeze_count() <= frozen
gc.collect()
assert seen() is None
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
