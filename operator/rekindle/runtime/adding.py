"""File sinks that keep what is there: a run's files are put beside others, each once, whatever becomes of its drivers.

The names of a run's files follow from the run, the partition and what the partition holds. So the folder itself tells
how far an earlier driver came: what is there by its name is right, what has the run's tag and another name belongs to a
result that was made again since, and goes. Files are put together in a hidden folder within the target (`_rekindle-…`),
which readers pass over, and renamed from there one by one; what goes is renamed into it. Whoever publishes next takes
that folder away first, and with it the other driver's means to change anything more.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rekindle.pipeline.sinks import FileSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import Fenced, StoreFull
from rekindle.runtime.manifest import Manifest, StoredFile
from rekindle.runtime.placing import fetch, flush_all, flush_folder, left_behind, remove, write_nothing
from rekindle.runtime.publish import check_target, check_whole
from rekindle.runtime.sink_folder import (
    SUCCESS,
    check_columns,
    contents_of,
    data_files,
    folder_of,
    is_of_run,
    published,
    tag_of,
)
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store


def publish_beside(
    stage: Stage,
    sink: FileSink,
    store: Store,
    manifests: Sequence[Manifest],
    identity: str,
    *,
    schema: str,
    fence: Callable[[], None],
) -> int:
    """Put the result's files into the sink's folder, unless they are there; their number.

    Readers may see some of them before all are there. Arguments and errors are those of `publish.publish`.
    """
    check_whole(stage, manifests)
    target, contents = folder_of(sink), contents_of(identity, manifests)
    added = {**contents, "mode": sink.mode}
    if published(target) in (contents, added):  # the former by a mode that replaces what is there
        fence()
        return sum(len(manifest.files) for manifest in manifests)
    hidden = f"_rekindle-{tag_of(identity)}-"
    staged = target / f"{hidden}{uuid.uuid4().hex[:8]}"
    # What is seen before the fence is of nobody who has begun after it.
    left = left_behind(target, hidden)
    try:
        staged.mkdir(parents=True)
        (staged / "new").mkdir()
        (staged / "old").mkdir()
        names = _gather(stage, sink, store, manifests, identity, schema, staged / "new")
        (staged / SUCCESS).write_text(json.dumps(added) + "\n")
        flush_all(staged)
        fence()
        for path in left:
            _end(path)
        check_target(stage, store, identity)
        check_columns(stage, sink, parsed_schema(schema), identity)
        _place(sink, staged, target, names, identity)
    except FileNotFoundError as error:
        if staged.exists() or not target.exists():
            raise _cannot(stage, sink, error) from error
        raise Fenced(
            f"sink {stage.name}: {target} is published to by another driver",
            remedy="nothing is lost: that driver goes on; end this process",
        ) from error
    except OSError as error:
        raise _cannot(stage, sink, error) from error
    finally:
        remove(staged)
    return len(names)


def _gather(
    stage: Stage, sink: FileSink, store: Store, manifests: Sequence[Manifest], identity: str, schema: str, new: Path
) -> frozenset[str]:
    """Fetch what is not there yet; where all files of the result are to be, below the sink's folder."""
    target, names = folder_of(sink), set[str]()
    for manifest in manifests:
        for number, file in enumerate(manifest.files):
            name = "/".join(filter(None, (file.folder, _name(sink, manifest, number, file, identity))))
            names.add(name)
            if not (target / name).is_file():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                fetch(stage, store, file.path, new / name)
    if not names and all(is_of_run(path, identity) for path in data_files(target)):
        digits = hashlib.sha256(schema.encode()).hexdigest()[:16]
        names.add(write_nothing(sink, schema, new, f"part-00000-000-{tag_of(identity)}-{digits}"))
    return frozenset(names)


def _name(sink: FileSink, manifest: Manifest, number: int, file: StoredFile, identity: str) -> str:
    """The same for the same rows, whichever attempt has written them, where rows can be compared."""
    told = json.dumps([manifest.digest or [file.bytes, file.content, file.path], file.folder])
    digits = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"part-{manifest.partition:05d}-{number:03d}-{tag_of(identity)}-{digits}.{sink.format}"


def _place(sink: FileSink, staged: Path, target: Path, names: frozenset[str], identity: str) -> None:
    """All by renaming from `staged` and into it, which fails when somebody else has taken that away."""
    folders = {(target / name).parent for name in names}
    for folder in sorted(folders):
        folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(_superseded(sink, target, names, identity)):
        os.rename(target / name, staged / "old" / str(number))
        folders.add((target / name).parent)
    for name in list(data_files(staged / "new")):
        os.rename(staged / "new" / name, target / name)
    for name in names:
        os.stat(target / name)  # some were there before
    for folder in sorted({*folders, *(above for one in folders for above in one.parents if target in above.parents)}):
        flush_folder(folder)
    os.replace(staged / SUCCESS, target / SUCCESS)
    flush_folder(target)


def _superseded(sink: FileSink, target: Path, names: frozenset[str], identity: str) -> Iterator[str]:
    """What goes: files that this run has put there of a result that was made again; with "overwrite_partitions" all
    that the folders have which get files."""
    replaced = {Path(name).parent for name in names} if sink.mode == "overwrite_partitions" else set[Path]()
    for name in list(data_files(target)):
        if name not in names and is_of_run(name, identity) and Path(name).parent not in replaced:
            yield name
    for folder in sorted(replaced):
        for one in sorted((target / folder).iterdir()):
            name = one.relative_to(target).as_posix()
            if name not in names:
                yield name


def _end(staged: Path) -> None:
    """Take away what another driver has put together: from now on it can change nothing."""
    gone = staged.with_name(f"{staged.name}-gone")
    try:
        os.rename(staged, gone)
    except OSError as error:
        if error.errno not in (
            errno.ENOENT,
            errno.ENOTEMPTY,
            errno.EEXIST,
        ):  # it has ended by itself, or is ended already
            raise
    shutil.rmtree(staged, ignore_errors=True)
    shutil.rmtree(gone, ignore_errors=True)


def _cannot(stage: Stage, sink: FileSink, error: OSError) -> StoreFull:
    where = f" ({error.filename2 or error.filename})" if error.filename else ""
    return StoreFull(
        f"sink {stage.name}: cannot publish to {sink.path}: {error.strerror or error}{where}",
        remedy="make the folder writable and run again: the result is stored, only publishing is repeated",
        stage=stage.name,
    )
