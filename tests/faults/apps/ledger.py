"""Numbers that are read by splits and written by a Python DataSource: its tasks stage files, and its commit says in a
ledger which of them count.

Arguments: how the sink takes them, "pointwise" or "keyed"; what happens on the way, with commas between; whether the
table "knows" its commits again or "forgets" them; seconds that each split and each partition take; the store; a folder
with `marks`, `staged` and `table/ledger`. What may happen:

    node     the first node dies when it has made a partition
    driver   it dies when two partitions are made
    commit   the driver dies in it, when all is done
    loser    the first attempt at partition 0 ends just after its copy
    gone     the table is, as its commit begins
    nothing  of these

A fault is asked for by a file in `marks`, called `node`, `driver` or `commit`, and is done when that is removed.
"""

import json
import os
import sys
import time
import uuid
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from rekindle.pipeline import DataSourceSink, Pipeline

HOW, HAPPENS, KNOWS, SECONDS, STORE, OUT = sys.argv[1:]
SPLITS, ROWS, PARTITIONS = 12, 50, 5
FIRST_NODE = "127.0.0.2"


class Numbers(DataSource):
    """Whole numbers."""

    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "n BIGINT"

    def reader(self, schema):
        return NumbersReader(float(self.options["seconds"]))


class NumbersReader(DataSourceReader):
    def __init__(self, seconds):
        self.seconds = seconds

    def partitions(self):
        return [InputPartition(number) for number in range(SPLITS)]

    def read(self, partition):
        time.sleep(self.seconds)
        for n in range(ROWS):
            yield (ROWS * partition.value + n,)


class Story:
    """What has happened, and what is to happen."""

    def __init__(self, happens, store, out):
        self.happens, self.store, self.out, self.marks = happens, store, out, out / "marks"

    def note(self, **what):
        with open(self.out / "diary", "a") as diary:
            diary.write(json.dumps(what) + "\n")

    def made(self):
        """The sink's partitions of which there are manifests."""
        found = self.store.glob("runs/*/stages/written/manifests/*.json")
        return sorted({int(path.name[1:6]) for path in found})

    def before_write(self):
        """Let partitions be made one at a time, as far as something is to happen in between."""
        asker = False
        if "node" in self.happens:
            on_it = os.environ["SPARK_LOCAL_IP"] == FIRST_NODE
            if on_it and self.is_first("on-the-node"):
                return
            self.wait_until(lambda: len(self.made()) >= 1)
            asker = not on_it and self.ask("node")
            self.wait_until(lambda: not on_it)  # to be ended with it
        if "driver" in self.happens and not asker:
            self.wait_until(lambda: len(self.made()) >= 2)
            self.ask("driver")

    def after_write(self, partition):
        if "loser" in self.happens and partition == 0 and self.is_first("loser"):
            self.wait_until(lambda: 0 in self.made())

    def ask(self, fault):
        """Have it done, or wait until it is. Whether this is who has asked."""
        asker = self.is_first(f"{fault}-asker")
        if asker:
            self.note(asked=fault, made=self.made())
            (self.marks / fault).touch()
            (self.marks / f"{fault}-asked").touch()
        self.wait_until(lambda: (self.marks / f"{fault}-asked").exists() and not (self.marks / fault).exists())
        return asker

    def is_first(self, mark):
        try:
            (self.marks / mark).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def wait_until(self, holds):
        end = time.monotonic() + 100
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError("what was to happen has not")
            time.sleep(0.02)


class Ledger(DataSource):
    """A table of files, which count if the ledger has their names."""

    supports_concurrent_execution_attempts = True
    idempotent_commit = KNOWS == "knows"

    @classmethod
    def name(cls):
        return "ledger"

    def writer(self, schema, overwrite):
        options = self.options
        story = Story(options["happens"].split(","), Path(options["store"]), Path(options["path"]))
        commit_as = [options["txnAppId"], options["txnVersion"]] if self.idempotent_commit else None
        return LedgerWriter(story, float(options["seconds"]), commit_as)


class LedgerWriter(DataSourceWriter):
    def __init__(self, story, seconds, commit_as):
        self.story, self.seconds, self.commit_as = story, seconds, commit_as

    def write(self, iterator):
        rows, context = [row.n for row in iterator], TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        time.sleep(self.seconds)
        self.story.before_write()
        name = f"{partition}-{uuid.uuid4().hex}"
        (self.story.out / "staged" / name).write_text(json.dumps(rows))
        self.story.note(wrote=partition, name=name, host=os.environ["SPARK_LOCAL_IP"])
        self.story.after_write(partition)
        return Staged(name)

    def commit(self, messages):
        table = self.story.out / "table"
        if "loser" in self.story.happens:
            self.story.wait_until((self.story.marks / "aborted").exists)
        if "gone" in self.story.happens and self.story.is_first("gone"):
            table.rename(table.with_name("elsewhere"))
        with open(table / "ledger", "r+") as ledger:
            known = self.commit_as is not None and any(json.loads(line)["as"] == self.commit_as for line in ledger)
            if not known:
                ledger.seek(0, os.SEEK_END)
                ledger.write(json.dumps({"as": self.commit_as, "names": [one.name for one in messages]}) + "\n")
        self.story.note(committed=len(messages), known=known)
        if "commit" in self.story.happens:
            self.story.ask("commit")

    def abort(self, messages):
        for one in messages:
            (self.story.out / "staged" / one.name).unlink()
            self.story.note(aborted=one.name)
        (self.story.marks / "aborted").touch()


class Staged(WriterCommitMessage):
    def __init__(self, name):
        self.name = name


pipeline = Pipeline("ledger")
pipeline.read("numbers", Numbers, options={"seconds": SECONDS}, partitions=PARTITIONS)
options = {"happens": HAPPENS, "seconds": SECONDS, "store": STORE, "path": OUT}
keyed = {"partition_by": "n", "partitions": PARTITIONS}


@pipeline.sink(DataSourceSink(Ledger, options), **({"pointwise": True} if HOW == "pointwise" else keyed))
def written(numbers: DataFrame) -> DataFrame:
    """The numbers."""
    return numbers


if __name__ == "__main__":
    pipeline.run()
