"""Files put beside others: each once, whoever was lost between them."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.stage import Stage
from rekindle.runtime.adding import publish_beside
from rekindle.runtime.errors import Fenced, InputLost, PipelineMisuse, StoreFull
from rekindle.runtime.facts import RunFacts
from rekindle.runtime.manifest import Manifest, StoredFile
from rekindle.runtime.publication import Publication
from rekindle.runtime.publish import check_target, publish
from rekindle.runtime.publisher import Publisher
from rekindle.runtime.store import Store

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("run", "day")],
    }
)


def sink(folder: Path, mode: Any = "append") -> FileSink:
    folder.mkdir(exist_ok=True)
    return FileSink(str(folder / "out"), mode=mode, hive_partitions="day")


def stage_of(to: FileSink) -> Stage:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(to, partitions=2, name="b")(lambda a: a)
    return pipeline.build().stage("b")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


def manifests(store: Store, content: str, digest: str | None = None, attempt: int = 1) -> list[Manifest]:
    """Two partitions with a row of each of two days."""
    made = []
    for partition in range(2):
        files = []
        for day in ("day=1", "day=2"):
            name = f"data/{content}-{attempt}-{partition}-{day}.parquet"
            if not (Path(store.folder or "") / name).exists():
                sunk = pyarrow.BufferOutputStream()
                pyarrow.parquet.write_table(pyarrow.table({"run": [f"{content}-{partition}"]}), sunk)
                store.put_if_absent(name, sunk.getvalue().to_pybytes())
            files.append(StoredFile(name, 0, None, None, day))
        made.append(
            Manifest("b", partition, 1, 0, "w", 2, 0, digest and f"{digest}-{partition}", tuple(files), 0.0, 0.0)
        )
    return made


def nothing() -> None: ...


def put(to: FileSink, store: Store, made: list[Manifest], run: str = "run", fence: Callable[[], None] = nothing) -> int:
    return publish_beside(stage_of(to), to, store, made, run, schema=SCHEMA, fence=fence)


def told(folder: Path) -> list[tuple[str, str]]:
    """(day, what each row says) of all files that a reader sees."""
    return sorted(
        (path.parent.name, str(row["run"]))
        for path in folder.glob("day=*/part-*.parquet")
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist()
    )


def rows(*contents: str, days: tuple[str, ...] = ("day=1", "day=2")) -> list[tuple[str, str]]:
    return sorted((day, f"{content}-{partition}") for content in contents for day in days for partition in range(2))


def is_clean(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} <= {"day=1", "day=2", "day=3", "_SUCCESS"}


def test_a_run_adds_to_what_is_there_and_the_same_again_changes_nothing(store, tmp_path):
    assert put(sink(tmp_path), store, manifests(store, "one"), "1") == 4
    assert put(sink(tmp_path), store, manifests(store, "two"), "2") == 4
    there = sorted(tmp_path.rglob("out/*/*"))
    assert put(sink(tmp_path), store, manifests(store, "two"), "2") == 4
    assert sorted(tmp_path.rglob("out/*/*")) == there
    assert told(tmp_path / "out") == rows("one", "two")
    assert is_clean(tmp_path / "out")


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
@pytest.mark.parametrize("after", range(6))
def test_a_driver_that_dies_between_two_renamings_is_followed_by_one_that_finishes_them(store, tmp_path, mode, after):
    put(sink(tmp_path), store, manifests(store, "old"), "old")
    for number in range(2):
        aside = tmp_path / "out" / "day=3" / f"part-{number}.parquet"
        aside.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table({"run": [f"kept-{number}"]}), aside)

    def die() -> None:
        real, left = os.rename, [after]

        def rename(source: Any, target: Any) -> None:
            if not left[0]:
                os._exit(7)
            left[0] -= 1
            real(source, target)

        os.rename = rename  # type: ignore[assignment]
        put(sink(tmp_path, mode), store, made, "run")

    made = manifests(store, "new")
    process = multiprocessing.get_context("fork").Process(target=die)
    process.start()
    process.join(60)
    dies = after < (4 if mode == "append" else 8)
    assert process.exitcode == (7 if dies else 0)
    assert bool(list((tmp_path / "out").glob("_rekindle-*"))) == dies
    put(sink(tmp_path, mode), store, made, "run")
    assert told(tmp_path / "out") == sorted(
        rows("new", *(["old"] if mode == "append" else [])) + rows("kept", days=("day=3",))
    )
    assert is_clean(tmp_path / "out")


@pytest.mark.requirement("S7-17")
def test_what_was_made_again_after_half_of_it_was_seen_takes_the_place_of_it(store, tmp_path):
    """A folder stands where the third file belongs."""
    again = manifests(store, "again")
    put(sink(tmp_path / "elsewhere"), store, again, "run")
    names = sorted(path.relative_to(tmp_path / "elsewhere") for path in tmp_path.glob("elsewhere/out/day=*/part-*"))
    put(sink(tmp_path), store, manifests(store, "first"), "run")
    (tmp_path / names[2] / "full").mkdir(parents=True)
    with pytest.raises(StoreFull, match=r"(?s)sink b: cannot publish to .*out: .*only publishing is repeated"):
        put(sink(tmp_path), store, again, "run")
    (tmp_path / names[2] / "full").rmdir()
    (tmp_path / names[2]).rmdir()
    assert told(tmp_path / "out") == rows("again")[:2], "and none of the first"
    put(sink(tmp_path), store, again, "run")
    assert told(tmp_path / "out") == rows("again")
    assert is_clean(tmp_path / "out")


def test_the_same_rows_by_another_attempt_are_the_same_files(store, tmp_path):
    put(sink(tmp_path), store, manifests(store, "same", "2-a-b"), "run")
    there = {path: path.stat().st_ino for path in tmp_path.rglob("out/day=*/*")}
    put(sink(tmp_path), store, manifests(store, "same", "2-a-b", attempt=2), "run")
    assert {path: path.stat().st_ino for path in tmp_path.rglob("out/day=*/*")} == there


@pytest.mark.requirement("S7-17")
def test_a_driver_that_sleeps_behind_the_fence_changes_nothing_any_more(store, tmp_path):
    """Its successor has published what was made again."""

    def slept() -> None:
        put(sink(tmp_path), store, manifests(store, "newer"), "run")

    with pytest.raises(Fenced, match="is published to by another driver"):
        put(sink(tmp_path), store, manifests(store, "older"), "run", fence=slept)
    assert told(tmp_path / "out") == rows("newer")
    assert is_clean(tmp_path / "out")


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("renamed", range(4))
def test_a_driver_that_sleeps_between_two_renamings_changes_nothing_any_more(store, tmp_path, monkeypatch, renamed):
    real, calls = os.rename, [0]

    def rename(source: Any, target: Any) -> None:
        calls[0] += 1
        if calls[0] == renamed + 1:
            put(sink(tmp_path), store, manifests(store, "newer"), "run")
        real(source, target)

    made = manifests(store, "older")
    monkeypatch.setattr("os.rename", rename)
    with pytest.raises(Fenced):
        put(sink(tmp_path), store, made, "run")
    assert told(tmp_path / "out") == rows("newer")


@pytest.mark.requirement("S7-17")
def test_a_driver_that_may_not_puts_nothing_there(store, tmp_path):
    def fence() -> None:
        raise Fenced("another driver has taken this store", remedy="end this process")

    with pytest.raises(Fenced):
        put(sink(tmp_path), store, manifests(store, "one"), fence=fence)
    assert list((tmp_path / "out").iterdir()) == []


def test_only_folders_that_get_rows_are_replaced(store, tmp_path):
    put(sink(tmp_path), store, manifests(store, "old"), "1")
    some = [replace(one, files=one.files[:1]) for one in manifests(store, "new")]
    put(sink(tmp_path, "overwrite_partitions"), store, some, "2")
    assert told(tmp_path / "out") == sorted(rows("new", days=("day=1",)) + rows("old", days=("day=2",)))


def test_no_rows_change_nothing_and_show_their_columns_where_nothing_is(store, tmp_path):
    none = [Manifest.of_nothing("b", partition) for partition in range(2)]
    assert put(sink(tmp_path), store, none, "empty") == 1
    put(sink(tmp_path), store, none, "empty")
    (file,) = (tmp_path / "out").glob("day=__HIVE_DEFAULT_PARTITION__/part-*.parquet")
    assert pyarrow.parquet.ParquetFile(file).read().to_pydict() == {"run": []}
    put(sink(tmp_path), store, manifests(store, "one"), "1")
    assert put(sink(tmp_path), store, none, "empty again") == 0
    assert told(tmp_path / "out") == rows("one")


def test_what_was_compacted_after_all_of_it_was_there_is_not_added_again(store, tmp_path):
    """By the journal, and by `_SUCCESS` where nobody else has written since."""
    made, notes, to = manifests(store, "one"), list[dict[str, Any]](), sink(tmp_path)
    run = SimpleNamespace(identity="run", store=store, facts=RunFacts(), journal=SimpleNamespace(check_kept=nothing))
    state: Any = SimpleNamespace(open_run=run, manifests=lambda name: made, schemas={"b": SCHEMA}, commits={})
    state.note = lambda note, **more: notes.append({"note": note, **more})
    state.graph = SimpleNamespace(stages=[stage_of(to)])
    publisher = Publisher(state, nothing, lambda now: None)
    publisher.publish_all()
    for path in (tmp_path / "out").glob("day=*/*"):
        path.rename(path.with_name("compacted.parquet"))
    wanted = sorted(tmp_path.rglob("out/day=*/*"))
    publisher.publish_all()
    assert sorted(tmp_path.rglob("out/day=*/*")) == wanted
    (tmp_path / "out" / "_SUCCESS").write_text("")
    ended = notes[-1]["contents"]
    run.facts.publications[("b", to.target)] = Publication(ended)
    publisher.publish_all()
    assert sorted(tmp_path.rglob("out/day=*/*")) == wanted
    run.facts.publications[("b", to.target)] = Publication(ended, 1)
    publisher.publish_all()
    assert len(list(tmp_path.rglob("out/day=*/part-*"))) == 4, "nobody knows of it any more"


def test_what_replaced_the_folder_in_this_run_is_not_added_to_it_again(store, tmp_path):
    """The mode is another when the next driver begins."""
    first, made = sink(tmp_path, "overwrite"), manifests(store, "one")
    publish(stage_of(first), store, made, "run", schema=SCHEMA, fence=nothing)
    put(sink(tmp_path), store, made, "run")
    assert told(tmp_path / "out") == rows("one")


def test_what_was_added_in_this_run_is_not_taken_for_the_whole_folder(store, tmp_path):
    put(sink(tmp_path), store, manifests(store, "old"), "old")
    made = manifests(store, "one")
    put(sink(tmp_path), store, made, "run")
    with pytest.raises(PipelineMisuse, match="exists already"):
        check_target(stage_of(sink(tmp_path, "error")), store, "run")
    again = sink(tmp_path, "overwrite")
    publish(stage_of(again), store, made, "run", schema=SCHEMA, fence=nothing)
    assert told(tmp_path / "out") == rows("one")


def test_a_result_that_is_not_whole_is_not_published(store, tmp_path):
    with pytest.raises(InputLost, match="sink b: 1 of 2 manifests are gone"):
        put(sink(tmp_path), store, manifests(store, "half")[:1])
    assert not (tmp_path / "out").exists()


LAYOUTS = {
    "other column": ("month=1/f.parquet", "'month', and this sink's hive_partitions are 'day': they differ in 'month'"),
    "one more": ("day=1/hour=2/f.parquet", "'day', 'hour', and this sink's hive_partitions are 'day'.* in 'hour'"),
    "none": ("f.parquet", "no columns, and this sink's hive_partitions are 'day': they differ in 'day'"),
    "plain folders": ("new/f.parquet", "'new', and this sink's hive_partitions are 'day'"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_folders_by_other_columns_are_refused_before_any_work(store, tmp_path, case):
    path, message = LAYOUTS[case]
    (tmp_path / "out" / path).parent.mkdir(parents=True)
    (tmp_path / "out" / path).touch()
    with pytest.raises(PipelineMisuse, match=f"sink b: .*out has {path}, so its folders are by {message}"):
        check_target(stage_of(sink(tmp_path)), store, "run")


def test_hidden_files_are_not_looked_at(store, tmp_path):
    for name in ("_committed_1", ".part.crc", "_tmp/f.parquet", "day=1/_x", "day=1/.y"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    check_target(stage_of(sink(tmp_path)), store, "run")


def test_a_file_cannot_be_added_to(store, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(PipelineMisuse, match=r"sink b: .*out is a file"):
        check_target(stage_of(sink(tmp_path)), store, "run")


def test_a_folder_where_a_volume_is_mounted_may_be_added_to(store, tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "out")
    check_target(stage_of(sink(tmp_path)), store, "run")


FOUND = {
    "another type": ({"run": [1]}, "parquet", "column 'run' is bigint there, and string in this result"),
    "another name": ({"Run": ["x"]}, "parquet", "column 'run' is not there, and string in this result"),
    "one more": ({"run": ["x"], "z": ["x"]}, "parquet", "column 'z' is string there, and not in this result"),
    "no parquet": (None, "parquet", "has files that are not parquet: .*day=1/f.parquet cannot be read"),
    "csv": ({"ran": ["x"]}, "csv", "its first line names ran, and this result has run"),
}


@pytest.mark.parametrize("case", FOUND)
def test_files_of_other_columns_are_not_added_to(store, tmp_path, case):
    columns, kind, message = FOUND[case]
    path = tmp_path / "out" / "day=1" / f"f.{kind}"
    path.parent.mkdir(parents=True)
    if columns is None:
        path.write_text("this is none")
    elif kind == "csv":
        path.write_text("ran\nx\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    to: FileSink = replace(sink(tmp_path), format=kind)  # type: ignore[arg-type]
    with pytest.raises(PipelineMisuse, match=f"sink b: .*{message}"):
        put(to, store, manifests(store, "one"))
    assert [one.name for one in (tmp_path / "out").rglob("*") if one.is_file()] == [path.name]
