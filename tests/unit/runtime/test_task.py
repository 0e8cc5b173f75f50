"""What executors run, outside Spark: sent by value, and the sums that make a digest."""

from __future__ import annotations

import subprocess
import sys

import pyarrow
from pyspark import cloudpickle

from rekindle.runtime.stage_run import by_value
from rekindle.runtime.task import WriterSpec, _sums, make_writer

SPEC = WriterSpec(None, "stage", "writer", "manifests", ("data",), "parquet", ("a",), hashed=True)


def test_the_writer_needs_no_rekindle_where_it_runs(tmp_path):
    (tmp_path / "writer").write_bytes(cloudpickle.dumps(by_value(make_writer(SPEC))))
    program = (
        "import sys, pickle; sys.modules['rekindle'] = None; "
        "writer = pickle.load(open(sys.argv[1], 'rb')); print(writer.__name__)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "writer")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "write"), done.stderr


def test_sums_do_not_depend_on_order_and_one_notices_what_the_other_does_not():
    def sums(values: list[int]) -> tuple[int, int]:
        return _sums(pyarrow.array(values, pyarrow.int64()))

    assert sums([1, -2, 3]) == sums([3, 1, -2])
    first, cancelling = sums([5, 7]), sums([4, 8])
    assert first[0] == cancelling[0]
    assert first[1] != cancelling[1]
