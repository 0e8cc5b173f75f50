"""Every file of a store whose run was cut off, damaged in every way: the next driver refuses it, or makes again what
it held, and never takes it for something else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pyarrow
import pyarrow.parquet
import pytest

from rekindle.api.settings import RekindleSettings
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.local.inspect import StoredRun
from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.acting import Actor
from rekindle.runtime.errors import RekindleError
from rekindle.runtime.job_master import JobMaster
from rekindle.runtime.observer import Observer
from rekindle.runtime.open_run import OpenRun, open_run
from rekindle.runtime.state import RunState
from rekindle.runtime.store import Store
from rekindle.runtime.task import WriterSpec, _Rows, _write_files, sealed

T = TypeVar("T")
SCHEMA = '{"type":"struct","fields":[]}'


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_disks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@cache
def graph() -> PipelineGraph:
    """`a` is read by `b`, which has not begun; the sink `c` is stored and not yet published."""
    pipeline = Pipeline("p", default_partitions=2)
    pipeline.source(name="a", partition_by="n")(lambda spark: spark)
    pipeline.stage(name="b", pointwise=True)(lambda a: a)
    pipeline.sink(FileSink("/nowhere/d"), name="d", pointwise=True)(lambda b: b)
    pipeline.sink(FileSink("/nowhere/c", format="csv"), name="c", pointwise=True)(lambda a: a)
    return pipeline.build()


def resumed(store: Store) -> JobMaster:
    """A driver that has looked at what is there; it has no Spark, so nothing is made."""
    built = graph()
    run = open_run(
        store, built, volumes=1, lease_seconds=1.0, history=10, takeover=True, reruns_changed=False, say=lambda _: None
    )
    run.lease.release()
    speculation = SpeculationOptions()
    core = ExecutionGraph(
        to_job_graph(built, speculation),
        speculation=speculation,
        failover=FailoverOptions(),
        blocklist=BlocklistOptions(),
    )
    master = JobMaster.__new__(JobMaster)
    master.state = RunState(built, RekindleSettings(), run, core, None, None, dict(run.facts.schemas), {})  # type: ignore[arg-type]
    master._observer, master._actor, master._attempt = Observer(master.state), Actor(master.state), 1
    master._options = ev.OptionsGiven(speculation, FailoverOptions(), BlocklistOptions(), ())
    master._start()
    return master


def write(run: OpenRun, stage: str, partition: int, rows: list[int]) -> None:
    """What a task writes."""
    layout, file_format = run.layout, "csv" if stage == "c" else "parquet"
    data, storage = layout.data(stage, partition), run.store.storage
    spec = WriterSpec(
        storage, stage, "w", layout.manifests(stage), (data,), file_format, ("n",), signature=None, checked=stage == "c"
    )
    batch = pyarrow.RecordBatch.from_pydict({"n": rows})
    written = _Rows(spec, iter([batch]))
    files = _write_files(spec, partition, f"{data}/.attempt-p{partition:05d}-v0001-x", written)
    count = written.count
    fields = {"format": 1, "stage": stage, "partition": partition, "version": 1, "task": 1, "writer": "w"}
    more = {
        "rows": count,
        "bytes": files[0]["bytes"],
        "digest": None,
        "files": files,
        "seconds": 1.0,
        "finishedAt": 1.0,
    }
    assert storage.put_if_absent(layout.manifest(stage, partition, 1), sealed({**fields, **more}).encode())


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `a` and `c`, whose driver has died."""
    store = Store.at(tmp_path_factory.mktemp("cut-off") / "store")
    master = resumed(store)
    for stage in ("a", "c"):
        master.state.note("StagePlanned", stage=stage, schema=SCHEMA, comparable=False, map_side=stage == "a")
        for partition in range(2):
            write(master.state.open_run, stage, partition, [10 * partition + one for one in range(5)])
        for name in (f"{stage}.map", stage) if stage == "a" else (stage,):
            for vertex in master.state.core.execution_vertices(name):
                attempt = vertex.representative.attempt_id
                master.state.see(ev.AttemptDeployed(attempt, "n1", 1.0), 1.0)
                master.state.see(ev.AttemptFinished(attempt, 2.0, ev.PartitionOutput(5, 100)), 2.0)
        master._flush()
    return Path(store.location)


def accepted(master: JobMaster) -> Iterator[tuple[str, int, bytes]]:
    """Of each partition that counts as finished, what its file holds."""
    state = master.state
    for name in ("a", "c"):
        for partition in set(range(2)) - set(state.core.unfinished(name)):
            manifest = state.current_manifest(name, partition)
            assert manifest is not None
            assert state.core.version(ExecutionVertexID(name, partition)) == manifest.version
            for file in manifest.files:
                yield name, partition, state.open_run.store.get(file.path) or b""


def rows_as_spark_reads_them(content: bytes) -> list[int] | None:
    """None where a page is not what was written: then the reader's task fails, and the partition is made again."""
    try:
        return list(
            pyarrow.parquet.read_table(pyarrow.BufferReader(content), page_checksum_verification=True)["n"].to_pylist()
        )
    except (OSError, ValueError, pyarrow.ArrowException):
        return None


def flipped(step: int) -> Callable[[bytes], Iterator[bytes]]:
    def changes(content: bytes) -> Iterator[bytes]:
        for place in range(0, len(content), step):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            yield bytes(changed)

    return changes


def lengthened_or_cut(content: bytes) -> Iterator[bytes]:
    yield from (content[: len(content) * part // 4] for part in range(4))
    yield from (content[:-1], content + b"\n", content + b"\0", content + content, b"\0" * len(content))


def attempted(do: Callable[[], T]) -> tuple[RekindleError | None, T | None]:
    """What `do` raises or returns."""
    try:
        return None, do()
    except RekindleError as error:
        return error, None


def check(folder: Path, cut_off: Path, name: str, content: bytes | None) -> str:
    """The store with `name` replaced (None: removed), gone on with; "refused", "lost" or "kept"."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(cut_off, folder)
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    store = Store.at(folder)
    for look in (lambda: StoredRun.find(store).overview(), lambda: StoredRun.find(store).files("a")):
        error, _ = attempted(look)
        assert error is None or error.remedy
    error, master = attempted(lambda: resumed(store))
    if master is None:
        assert error is not None
        assert error.remedy
        assert content is None or Path(name).name in error.message
        return "refused"
    found = 0
    for stage, partition, data in accepted(master):
        found += 1
        if stage == "c":
            assert data == b'"n"\n' + b"".join(b"%d\n" % (10 * partition + one) for one in range(5)), name
        else:
            rows = rows_as_spark_reads_them(data)
            assert rows is None or rows == [10 * partition + one for one in range(5)], name
    return "kept" if found == 4 else "lost"


FILES = ["rekindle.json", "lease.json", "journal/00000002.jsonl", "journal/00000004.jsonl"]
FILES += [f"{stage}/manifests/p0000{partition}-v0001.json" for stage in ("a", "c") for partition in range(2)]
FILES += ["data/a/*/*", "data/c/*/*"]


def first_match(cut_off: Path, file: str) -> str:
    return str(sorted(path for path in cut_off.rglob(file) if path.is_file())[0].relative_to(cut_off))


def test_an_undamaged_store_is_gone_on_with_and_nothing_is_made_again(tmp_path, cut_off):
    name = first_match(cut_off, "rekindle.json")
    assert check(tmp_path / "store", cut_off, name, (cut_off / name).read_bytes()) == "kept"


@pytest.mark.requirement("S7-3", "S7-14")
@pytest.mark.parametrize("file", FILES)
def test_no_damage_to_a_file_makes_a_wrong_answer_or_a_traceback(tmp_path, cut_off, file):
    name = first_match(cut_off, file)
    content = (cut_off / name).read_bytes()
    for change in (*flipped(len(content) // 6)(content), *lengthened_or_cut(content)):
        if change != content:
            check(tmp_path / "store", cut_off, name, change)


@pytest.mark.requirement("S7-3", "S7-14")
def test_no_file_that_is_gone_makes_a_wrong_answer_or_a_traceback(tmp_path, cut_off):
    names = [str(path.relative_to(cut_off)) for path in sorted(cut_off.rglob("*")) if path.is_file()]
    ends = {name: check(tmp_path / "store", cut_off, name, None) for name in names}
    assert {end for name, end in ends.items() if "/data/" in name or "/stages/" in name} == {"lost"}
    *older, newest = sorted(name for name in names if "/journal/" in name)
    assert {ends[name] for name in older} == {"refused"}
    assert ends[newest] == "lost"  # with the schema of `c`


@pytest.mark.requirement("S7-3", "S7-14")
def test_no_two_files_that_are_exchanged_make_a_wrong_answer(tmp_path, cut_off):
    for folder in ("data/*/*/*", "manifests/*"):
        names = sorted(path for path in cut_off.rglob(folder) if path.is_file())
        assert len(names) == 4
        for one, other in zip(names, names[1:] + names[:1], strict=True):
            name = str(one.relative_to(cut_off))
            assert check(tmp_path / "store", cut_off, name, other.read_bytes()) == "lost"


@pytest.mark.requirement("S7-17")
def test_a_stage_that_was_stored_before_the_journal_had_its_schema_is_made_again(tmp_path):
    """Its driver was killed between the submission of a job and the note of it, and the executors went on."""
    store = Store.at(tmp_path / "store")
    master = resumed(store)
    for partition in range(2):
        write(master.state.open_run, "a", partition, [partition])
    state = resumed(store).state
    assert state.core.unfinished("a") == (0, 1)
    assert state.versions()["a"] == (2, 2)
