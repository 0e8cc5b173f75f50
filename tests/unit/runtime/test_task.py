"""What executors run, outside Spark: sent by value, and the sums that make a digest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyspark import cloudpickle

from rekindle.runtime.stage_run import by_value
from rekindle.runtime.storage import PosixStorage, S3Storage, Storage
from rekindle.runtime.task import WriterSpec, _sums, make_writer

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
    spec = WriterSpec(storage, "stage", "writer", "manifests", ("data",), "parquet", ("a",), hashed=True)
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
