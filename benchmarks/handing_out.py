"""What it costs to hand out splits one at a time: 10,000 of them to 64 readers, by the driver's endpoint.

    python benchmarks/handing_out.py             three rounds, half a minute each
    python benchmarks/handing_out.py --rounds 9

No Spark: readers are threads of eight processes that talk to the endpoint as executors do, and sleep as long as they
would read. The driver's side is that of a run, with a real journal in a folder.

    known beforehand    each reader has its share of the splits; what the others are set beside
    handed out          each asks for a split when it has read the last one
    at once             nobody sleeps: how many splits are handed out in a second, and how long an answer takes

Results go to .build/bench/handing_out.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.on_kubernetes.command_line import positive
from benchmarks.results import ResultsFile, Run, markdown, ratio, spread
from rekindle.core.ranges import runs_of
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.journal import Journal, note
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.sources import Listening, SourceReads
from rekindle.runtime.split_reader import SourceSpec, SplitClient
from rekindle.runtime.store import Store

SPLITS, READERS, PROCESSES = 10_000, 64, 8
SECONDS = 0.1
"""That a reader sleeps for a split."""

_FOLDER = Path(__file__).resolve().parents[1] / ".build" / "bench"
_START_SECONDS = 3.0
BEFOREHAND, HANDED_OUT, AT_ONCE = "known beforehand", "handed out", "at once"


class Ticks(DataSource):
    """Nobody reads it here."""

    def schema(self) -> StructType:
        return StructType().add("n", "long")

    def reader(self, schema: StructType) -> DataSourceReader:
        return TicksReader()


class TicksReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(SPLITS)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError


@contextmanager
def driver(folder: Path) -> Iterator[tuple[SourceSpec, Path]]:
    """A driver's side, with the thread that writes its journal: how readers reach it, and its journal's folder."""
    pipeline = Pipeline("handing-out")
    pipeline.read("ticks", Ticks, partitions=READERS)
    pipeline.sink(FileSink(str(folder / "out")), name="out")(lambda ticks: ticks)
    stage = pipeline.build().stage("ticks")
    store, layout, wake, over = Store.at(folder / "store").prepare(), RunLayout(1), threading.Event(), threading.Event()
    journal = Journal(store, layout, "benchmark")
    local = Listening("127.0.0.1", 0, "127.0.0.1")
    reads = SourceReads({"ticks": "first"}, store, layout, {}, local, lambda stage: True, wake.set)

    def write() -> None:
        while not over.is_set():
            wake.wait(0.25)
            wake.clear()
            if found := list(reads.to_settle()):
                numbers = ((one.subtask, runs_of(one.splits)) for one in found)
                records = [note(time.time(), "SplitsSettled", stage="ticks", subtask=i, splits=n) for i, n in numbers]
                journal.append(records)
                reads.settled(found)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield reads.spec(stage)[0], Path(folder / "store" / layout.journal)
    finally:
        over.set()
        writer.join()
        reads.close()


def read(spec: SourceSpec | None, reader: int, begin: float, seconds: float) -> tuple[float, int, list[float]]:
    """One reader: when it ended, how many splits it has read, and how long it waited for each."""
    time.sleep(max(0.0, begin - time.time()))
    waited = []
    if spec is None:
        count = len(range(reader, SPLITS, READERS))
        for _ in range(count):
            time.sleep(seconds)
        return time.time(), count, []
    client = SplitClient(spec, reader, 1, task=reader)
    asked = time.perf_counter()
    for _ in client.splits():
        waited.append(time.perf_counter() - asked)
        time.sleep(seconds)
        asked = time.perf_counter()
    client.close("finished")
    return time.time(), len(waited), waited


def read_several(spec: SourceSpec | None, readers: range, begin: float, seconds: float) -> list[Any]:
    """The readers of one process."""
    with ThreadPoolExecutor(len(readers)) as threads:
        return list(threads.map(lambda reader: read(spec, reader, begin, seconds), readers))


def once(contender: str, number: int) -> Run:
    """All readers, from the first split to the end of the last reader."""
    seconds = 0.0 if contender == AT_ONCE else SECONDS
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        driver(Path(folder)) as (spec, journal),
        ProcessPoolExecutor(PROCESSES, spawn) as processes,
    ):
        begin = time.time() + _START_SECONDS
        shares = [range(first, READERS, PROCESSES) for first in range(PROCESSES)]
        known = spec if contender != BEFOREHAND else None
        asked = [processes.submit(read_several, known, share, begin, seconds) for share in shares]
        found = [one for share in asked for one in share.result()]
        written = sum(path.stat().st_size for path in journal.glob("*.jsonl")) if journal.exists() else 0
    assert sum(count for _, count, _ in found) == SPLITS
    took = max(ended for ended, _, _ in found) - begin
    waits = sorted(wait for _, _, waited in found for wait in waited)
    details: dict[str, Any] = {"journal_bytes_per_split": written / SPLITS, "splits_per_second": SPLITS / took}
    if waits:
        details |= {"median_ms": waits[len(waits) // 2] * 1e3, "p99_ms": quantiles(waits, n=100)[98] * 1e3}
    return Run(contender, number, took, details=details)


def measure(rounds: int) -> list[Run]:
    """All of them in turns; saved as soon as they are there."""
    found: list[Run] = []
    results = ResultsFile(_FOLDER / "handing_out.json")
    for number in range(1, rounds + 1):
        for contender in (BEFOREHAND, HANDED_OUT, AT_ONCE):
            found.append(once(contender, number))
            results.save("handing-out", {"cores": os.cpu_count()}, found)
            told = ", ".join(f"{name} {value:.1f}" for name, value in found[-1].details.items())
            print(f"round {number}  {contender}: {found[-1].seconds:.2f} s, {told}", flush=True)
    return found


def table(found: Sequence[Run]) -> str:
    """A line for each contender."""
    columns = ("splits_per_second", "median_ms", "p99_ms", "journal_bytes_per_split")

    def told(contender: str, name: str) -> object:
        return spread([run for run in found if name in run.details], contender, lambda run: float(run.details[name]))

    rows = [
        (
            contender,
            spread(found, contender),
            ratio(found, contender, BEFOREHAND) if contender == HANDED_OUT else None,
            *(told(contender, name) for name in columns),
        )
        for contender in (BEFOREHAND, HANDED_OUT, AT_ONCE)
    ]
    return markdown(("", "seconds", "times the first", *(name.replace("_", " ") for name in columns)), rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive, default=3, help="how often each is done (default: %(default)s)")
    print(f"\n{table(measure(parser.parse_args().rounds))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
