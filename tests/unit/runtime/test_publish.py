"""Publishing: what is at a sink's path is replaced whole, by a driver that may, and nothing is left beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet
import pytest

from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import Fenced, InputLost, PipelineMisuse, StoreFull
from rekindle.runtime.manifest import Manifest, StoredFile
from rekindle.runtime.publish import check_target, check_targets_apart, publish
from rekindle.runtime.store import Store

SCHEMA = '{"type":"struct","fields":[{"name":"a b","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(FileSink(str(tmp_path / "out"), mode="overwrite"), partitions=2, name="b")(lambda a: a)
    return pipeline.build().stage("b")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


def manifests(store: Store, content: str) -> list[Manifest]:
    made = []
    for partition in range(2):
        store.put_if_absent(f"data/{content}-{partition}.parquet", content.encode())
        files = (StoredFile(f"data/{content}-{partition}.parquet", len(content), None),)
        made.append(Manifest("b", partition, 1, 0, "w", 1, len(content), None, files, 0.0, 0.0))
    return made


def told(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.glob("part-*")}


def test_what_was_there_is_replaced_whole(stage, store, tmp_path):
    for run in ("first", "second"):
        assert publish(stage, store, manifests(store, run), run, schema=SCHEMA, fence=lambda: None) == 2
        assert told(tmp_path / "out") == {run}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "store"}


@pytest.mark.requirement("S7-17")
def test_a_driver_whose_successor_has_published_replaces_nothing(stage, store, tmp_path):
    def overtaken() -> None:
        publish(stage, store, manifests(store, "newer"), "newer", schema=SCHEMA, fence=lambda: None)
        raise Fenced("another driver has taken this store", remedy="end this process")

    with pytest.raises(Fenced):
        publish(stage, store, manifests(store, "older"), "older", schema=SCHEMA, fence=overtaken)
    assert told(tmp_path / "out") == {"newer"}


def test_what_a_killed_driver_left_is_taken_away_by_the_next(stage, store, tmp_path, monkeypatch):
    """Killed: nothing after the renaming runs any more."""
    publish(stage, store, manifests(store, "first"), "first", schema=SCHEMA, fence=lambda: None)
    with monkeypatch.context() as killed:
        killed.setattr("rekindle.runtime.publish.remove", lambda path: None)
        publish(stage, store, manifests(store, "second"), "second", schema=SCHEMA, fence=lambda: None)
    assert len(list(tmp_path.glob(".out.rekindle-*-old"))) == 1
    publish(stage, store, manifests(store, "second"), "second", schema=SCHEMA, fence=lambda: None)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "store"}
    assert told(tmp_path / "out") == {"second"}


@pytest.mark.requirement("S7-17")
def test_a_result_that_was_made_again_after_it_was_published_replaces_the_first(stage, store, tmp_path):
    """A driver is lost, or a second sink cannot be published, and parts are lost or a rerun is asked for."""
    publish(stage, store, manifests(store, "first"), "run", schema=SCHEMA, fence=lambda: None)
    publish(stage, store, manifests(store, "again"), "run", schema=SCHEMA, fence=lambda: None)
    assert told(tmp_path / "out") == {"again"}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "store"}


@pytest.mark.requirement("S7-17")
def test_a_driver_that_wakes_while_its_successor_gathers_touches_nothing_of_it(stage, store, tmp_path):
    """Of the same run: the first has all files together and finds at the fence that it was overtaken."""
    woken: list[str] = []

    def wake() -> None:
        if woken:
            raise Fenced("another driver has taken this store", remedy="end this process")
        woken.append("the successor, its files together")
        with pytest.raises(Fenced):
            publish(stage, store, manifests(store, "zombie"), "run", schema=SCHEMA, fence=wake)

    publish(stage, store, manifests(store, "newer"), "run", schema=SCHEMA, fence=wake)
    assert told(tmp_path / "out") == {"newer"}
    assert len(list((tmp_path / "out").glob("part-*"))) == 2
    assert {path.read_text() for path in (tmp_path / "store" / "data").glob("newer-*")} == {"newer"}


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("run", ["older", "newer"])
def test_a_driver_that_sleeps_behind_the_fence_puts_back_what_its_successor_published(stage, store, tmp_path, run):
    def slept() -> None:
        publish(stage, store, manifests(store, "newer"), run, schema=SCHEMA, fence=lambda: None)

    publish(stage, store, manifests(store, "first"), "first", schema=SCHEMA, fence=lambda: None)
    with pytest.raises(Fenced, match=r"sink b: .*out was published by another driver meanwhile"):
        publish(stage, store, manifests(store, "older"), "older", schema=SCHEMA, fence=slept)
    assert told(tmp_path / "out") == {"newer"}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "store"}


def test_a_path_below_a_file_is_an_error_with_a_remedy(store, tmp_path):
    (tmp_path / "file").write_text("in the way")
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(FileSink(str(tmp_path / "file" / "out")), partitions=2, name="b")(lambda a: a)
    stage = pipeline.build().stage("b")
    with pytest.raises(StoreFull, match=r"(?s)cannot publish to .*file/out.*only publishing is repeated"):
        publish(stage, store, manifests(store, "new"), "run", schema=SCHEMA, fence=lambda: None)


def test_a_file_is_never_fetched_over_another(store, tmp_path):
    store.put_if_absent("data/one", b"one")
    store.put_if_absent("data/two", b"two")
    store.storage.fetch("data/one", str(tmp_path / "fetched"))
    with pytest.raises(FileExistsError):
        store.storage.fetch("data/two", str(tmp_path / "fetched"))
    assert store.get("data/one") == b"one"


def test_a_result_without_rows_shows_its_columns(stage, store, tmp_path):
    nothing = [Manifest.of_nothing("b", partition) for partition in range(2)]
    assert publish(stage, store, nothing, "empty", schema=SCHEMA, fence=lambda: None) == 1
    (file,) = (tmp_path / "out").glob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    assert (table.column_names, table.num_rows) == (["a b"], 0)


def test_a_result_without_rows_may_have_times(stage, store, tmp_path):
    nothing = [Manifest.of_nothing("b", partition) for partition in range(2)]
    publish(stage, store, nothing, "empty", schema=SCHEMA.replace('"long"', '"timestamp"'), fence=lambda: None)
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pyarrow.parquet.read_schema(file).field("a b").type == pyarrow.timestamp("us", "UTC")


def test_a_result_that_is_not_whole_is_not_published(stage, store, tmp_path):
    with pytest.raises(InputLost, match="sink b: 1 of 2 manifests are gone"):
        publish(stage, store, manifests(store, "half")[:1], "half", schema=SCHEMA, fence=lambda: None)
    assert not (tmp_path / "out").exists()


def test_a_link_stays_and_the_folder_that_it_points_to_is_replaced(stage, store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "old").write_text("old")
    (tmp_path / "out").symlink_to("elsewhere")
    publish(stage, store, manifests(store, "new"), "run", schema=SCHEMA, fence=lambda: None)
    assert (tmp_path / "out").is_symlink()
    assert told(tmp_path / "elsewhere") == {"new"}
    assert not (tmp_path / "elsewhere" / "old").exists()


def test_where_a_volume_is_mounted_nothing_can_be_replaced_which_is_said_before_any_work(stage, store, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "out")
    with pytest.raises(PipelineMisuse, match=r"(?s)sink b: .*/out is where a volume is mounted.*below it.*/out/b"):
        check_target(stage, store, "run")


def test_what_is_published_is_on_the_disk_before_it_stands_there(stage, store, tmp_path, monkeypatch):
    flushed: list[str] = []

    def note(handle: int) -> None:
        assert not (tmp_path / "out").exists() or flushed[-1].endswith("-new")
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))

    made = manifests(store, "new")
    monkeypatch.setattr("os.fsync", note)
    publish(stage, store, made, "run", schema=SCHEMA, fence=lambda: None)
    names = [Path(path).name for path in flushed]
    assert names[:-2] == ["_SUCCESS", "part-00000-000.parquet", "part-00001-000.parquet"]
    assert names[-2].startswith(".out.rekindle-")
    assert Path(flushed[-1]) == tmp_path


@pytest.mark.parametrize("second", ["link", "link/below"])
def test_two_sinks_whose_folders_meet_through_a_link_are_refused(second, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(FileSink(str(tmp_path / "out")), name="b")(lambda a: a)
    pipeline.sink(FileSink(str(tmp_path / second)), name="c")(lambda a: a)
    with pytest.raises(PipelineMisuse, match="sinks b and c lie one in the other"):
        check_targets_apart(pipeline.build().stages)
