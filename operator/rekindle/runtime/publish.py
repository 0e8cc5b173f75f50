"""Sinks: making the admitted result visible, once, at the end of the run.

Until the whole pipeline has finished nothing is visible at a sink's path, for a restart could still replace
any part of it (S7-5). Then the files of the winning attempts are linked (or copied, where the path is on
another file system) into a folder beside the target, which is renamed into place with a `_SUCCESS` file that
says what it holds. Publishing the same again, after a driver was lost half-way, finds that file and does nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from rekindle.pipeline.sinks import FileSink, WrittenElsewhere
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import Fenced, InputLost, PipelineMisuse, StoreFull
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.placing import fetch, flush_all, flush_folder, left_behind, remove, write_nothing
from rekindle.runtime.sink_folder import SUCCESS, check_layout, contents_of, folder_of, published
from rekindle.runtime.store import Store, is_url


def sink_of(stage: Stage) -> FileSink | None:
    """The stage's file sink, None for a stage without one.

    Raises PipelineMisuse for a sink that is none of ours, or a path that is no folder.
    """
    if stage.sink is None or isinstance(stage.sink, WrittenElsewhere):
        return None
    if not isinstance(stage.sink, FileSink):
        raise PipelineMisuse(
            f"stage {stage.name}: sinks of type {type(stage.sink).__name__} cannot be written",
            remedy="use FileSink, SparkSink or DataSourceSink",
            stage=stage.name,
        )
    if is_url(stage.sink.target):
        raise PipelineMisuse(
            f"sink {stage.name}: {stage.sink.path} is not a folder",
            remedy="give a folder that the driver reaches (a store in a bucket works with it), or have Spark write: "
            f"SparkSink({stage.sink.format!r}, options={{'path': {stage.sink.path!r}}}, mode='overwrite')",
            stage=stage.name,
        )
    return stage.sink


def check_target(stage: Stage, store: Store, identity: str) -> None:
    """Raises PipelineMisuse when the sink's path is taken and its mode is `error`, when it has other folders than those
    that are to be added, or it and the store are one in the other. Before any work is done, and again before anything
    is replaced."""
    sink, target = sink_of(stage), _folder_at(stage)
    if target is not None and store.folder is not None and _one_in_the_other(target, Path(store.folder)):
        raise PipelineMisuse(
            f"sink {stage.name}: {target} and the store {store} lie one in the other",
            remedy="give the sink a folder of its own: what is there is replaced",
            stage=stage.name,
        )
    if sink is None or target is None:
        return
    if sink.keeps_what_is_there:
        check_layout(stage, sink, identity)
        return
    if os.path.ismount(target):
        raise PipelineMisuse(
            f"sink {stage.name}: {sink.path} is where a volume is mounted, and a folder there cannot be replaced",
            remedy=f"name a folder below it, such as {sink.path.rstrip('/')}/{stage.name}",
            stage=stage.name,
        )
    if sink.mode != "error":
        return
    if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
        there = published(target)
        if isinstance(there, dict) and there.get("run") == identity and "mode" not in there:
            return
        raise PipelineMisuse(
            f"sink {stage.name}: {sink.path} exists already",
            remedy='remove it, choose another path, or use FileSink(..., mode="overwrite")',
            stage=stage.name,
        )


def check_targets_apart(stages: Sequence[Stage]) -> None:
    """Raises PipelineMisuse where links lead two sinks to one folder, or one into the other's: each replaces what is
    there."""
    sinks = [(stage.name, folder) for stage in stages if (folder := _folder_at(stage)) is not None]
    for number, (name, folder) in enumerate(sinks):
        for other, place in sinks[:number]:
            if _one_in_the_other(folder, place):
                raise PipelineMisuse(
                    f"sinks {other} and {name} lie one in the other: {place}, {folder}",
                    remedy="give each a folder of its own, also where links lead",
                    stage=name,
                )


def publish(
    stage: Stage,
    store: Store,
    manifests: Sequence[Manifest],
    identity: str,
    *,
    schema: str,
    fence: Callable[[], None],
) -> int:
    """Make the result visible at the sink's path; the number of files.

    Args:
        manifests: of all partitions, in order.
        identity: names this run; the same run publishing the same files again changes nothing.
        schema: of the result, as Spark's JSON: a result without rows has a file of no rows, that shows its columns.
        fence: called just before anything at the path is replaced; raises if this driver may not any more.

    Raises:
        Fenced: this driver may not, or another one has published meanwhile.
        InputLost: a manifest or a file of the result is gone.
        PipelineMisuse: somebody else has written to the path meanwhile, and the mode is `error`.
    """
    sink = sink_of(stage)
    assert sink is not None
    check_whole(stage, manifests)
    target, contents = folder_of(sink), contents_of(identity, manifests)
    # Named by the run: what a driver leaves that is killed here, the next one finds. And by the driver: one that was
    # thought dead has folders of its own. What is seen before the fence is of nobody who has begun after it.
    beside = f".{target.name}.rekindle-{hashlib.sha256(identity.encode()).hexdigest()[:16]}-"
    left, before = left_behind(target.parent, beside), published(target)
    aside, old = (target.parent / f"{beside}{uuid.uuid4().hex[:8]}-{what}" for what in ("new", "old"))
    try:
        if before == contents:
            fence()
            count = sum(len(manifest.files) for manifest in manifests)
        else:
            count = _gather(stage, aside, store, manifests, sink.format)
            if count == 0:
                write_nothing(sink, schema, aside, "part-00000-000")
                count = 1
            (aside / SUCCESS).write_text(json.dumps(contents) + "\n")
            flush_all(aside)
            fence()
            check_target(stage, store, identity)
            _swap(stage, aside, target, old, before)
    except OSError as error:
        raise StoreFull(
            f"sink {stage.name}: cannot publish to {sink.path}: {error.strerror or error}",
            remedy="make the folder writable and run again: the result is stored, only publishing is repeated",
            stage=stage.name,
        ) from error
    finally:
        remove(aside)
    for path in left:
        remove(path)
    return count


def check_whole(stage: Stage, manifests: Sequence[Manifest]) -> None:
    """Raises InputLost where a partition has none."""
    if len(manifests) != stage.partitions:
        raise InputLost(
            f"sink {stage.name}: {stage.partitions - len(manifests)} of {stage.partitions} manifests are gone",
            remedy="run again: the next run makes them again",
            stage=stage.name,
        )


def _folder_at(stage: Stage) -> Path | None:
    """The folder that is written to, by whomever; None where it is none, or not here."""
    if isinstance(stage.sink, WrittenElsewhere):
        path = stage.sink.place if stage.sink.path is not None else ""
        return Path(path).resolve() if path and not is_url(path) else None
    sink = sink_of(stage)
    return folder_of(sink) if sink is not None else None


def _gather(stage: Stage, aside: Path, store: Store, manifests: Sequence[Manifest], file_format: str) -> int:
    aside.mkdir(parents=True)
    count = 0
    for manifest in manifests:
        for number, file in enumerate(manifest.files):
            name = f"part-{manifest.partition:05d}-{number:03d}.{file_format}"
            (aside / file.folder).mkdir(parents=True, exist_ok=True)
            fetch(stage, store, file.path, aside / file.folder / name)
            count += 1
    return count


def _swap(stage: Stage, aside: Path, target: Path, old: Path, before: object) -> None:
    """Rename `aside` to `target`; what was there is kept as `old` until the new folder stands.

    Raises Fenced, and puts it back, when that is not what was published `before`.
    """
    try:
        if target.exists():
            os.rename(target, old)
            if published(old) != before:
                raise Fenced(
                    f"sink {stage.name}: {target} was published by another driver meanwhile",
                    remedy="nothing is lost: that driver goes on; end this process",
                )
        os.rename(aside, target)
        flush_folder(target.parent)
    except BaseException:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    remove(old)


def _one_in_the_other(one: Path, other: Path) -> bool:
    first, second = one.resolve(), other.resolve()
    return first == second or first in second.parents or second in first.parents
