"""A source that is read by splits, one of which takes long, and a sink. Prints whether each number is there once, which
task has read it first, and the report, as JSON.

Arguments: subtasks; splits; seconds that each takes, and that split 0 takes; how: "sleep" (wherever it runs) or "burn"
(CPU, so that it takes longer on a slow node); possibly a folder; a folder of the driver for the sink.

With that folder three tasks must have a split before any is read, and then a fault happens: it is asked for by the file
`fault` in there, and done when that is removed.
"""

import hashlib
import json
import random
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import rekindle
from rekindle.pipeline import FileSink, Pipeline

subtasks, splits = int(sys.argv[1]), int(sys.argv[2])
seconds, long, how, (*meeting, out) = float(sys.argv[3]), float(sys.argv[4]), sys.argv[5], sys.argv[6:]
rows = 10


class Ticks(DataSource):
    """Whole numbers, some in each split. Each time it is asked it names the splits in another order."""

    @classmethod
    def name(cls):
        return "ticks"

    def schema(self):
        return "n BIGINT, split BIGINT, task BIGINT"

    def reader(self, schema):
        return TicksReader(
            {key: self.options.get(key) for key in ("splits", "rows", "seconds", "long", "how", "meeting")}
        )


class TicksReader(DataSourceReader):
    def __init__(self, options):
        self.options = options

    def partitions(self):
        found = [InputPartition(number) for number in range(int(self.options["splits"]))]
        random.shuffle(found)
        return found

    def read(self, partition):
        if self.options["meeting"] is not None:
            self.meet(Path(self.options["meeting"]))
        self.work(float(self.options["long" if partition.value == 0 else "seconds"]))
        context, count = TaskContext.get(), int(self.options["rows"])
        assert context is not None
        for n in range(count):
            yield count * partition.value + n, partition.value, context.taskAttemptId()

    def meet(self, folder):
        context = TaskContext.get()
        assert context is not None
        (folder / f"here-{context.taskAttemptId()}").touch()
        if self.is_first(folder):
            self.wait_until(lambda: len(list(folder.glob("here-*"))) >= 3)
            (folder / "fault").touch()
            self.wait_until(lambda: not (folder / "fault").exists())
            (folder / "go").touch()
        self.wait_until((folder / "go").exists)

    def is_first(self, folder):
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def wait_until(self, holds):
        end = time.monotonic() + 120
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError("waited for the other tasks, or for the fault")
            time.sleep(0.05)

    def work(self, seconds):
        if self.options["how"] == "sleep":
            time.sleep(seconds)
        else:
            for _ in range(int(seconds * 1_000_000)):
                hashlib.sha256(b"rekindle").digest()


pipeline = Pipeline("splits")
options = {"splits": splits, "rows": rows, "seconds": seconds, "long": long, "how": how}
options |= {"meeting": meeting[0]} if meeting else {}
pipeline.read("ticks", Ticks, options=options, partitions=subtasks)


@pipeline.sink(FileSink(out), partition_by="split", partitions=2)
def read(ticks):
    """What was read."""
    return ticks


if __name__ == "__main__":
    spark = rekindle.configure(SparkSession.builder).getOrCreate()
    result = pipeline.run(spark)
    found = pq.read_table(out).to_pylist()
    right = sorted(row["n"] for row in found) == list(range(rows * splits))
    of = {row["split"]: row["task"] for row in found}
    print("report", json.dumps(result.report))
    print("right", json.dumps(right))
    print("shares", json.dumps(sorted(list(of.values()).count(task) for task in set(of.values()))))
    spark.stop()
