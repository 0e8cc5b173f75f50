"""Files on their way to a sink's folder: fetched from the store, kept by the file system, taken away."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

from rekindle.connectors.arrow_types import arrow_schema
from rekindle.connectors.hive_folders import folders_of
from rekindle.pipeline.sinks import FileSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import InputLost
from rekindle.runtime.hive_partitions import columns_of_files
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store


def flush_all(folder: Path) -> None:
    """Have the file system keep what is in a folder, through a loss of power too: its other copies go soon."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            flush_all(path)
        else:
            _flush(path)
    flush_folder(folder)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(handle)


def flush_folder(folder: Path) -> None:
    """Where it can be done: some file systems cannot, and a folder may be closed to readers."""
    with contextlib.suppress(OSError):
        _flush(folder)


def left_behind(folder: Path, beside: str) -> list[Path]:
    """What is in a folder whose name begins so."""
    return [path for path in folder.iterdir() if path.name.startswith(beside)] if folder.is_dir() else []


def write_nothing(sink: FileSink, schema: str, aside: Path, name: str) -> str:
    """A file of no rows, that shows the columns of a result without any; where it is in `aside`.

    Args:
        schema: of the result, as Spark's JSON.
        name: of the file, without what its format adds.
    """
    import pyarrow.csv
    import pyarrow.parquet

    columns = tuple(sink.hive_partitions)
    nothing = arrow_schema(columns_of_files(parsed_schema(schema), columns)).empty_table()
    folders = folders_of(columns, [None] * len(columns))
    path = aside / folders / f"{name}.{sink.format}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if sink.format == "csv":
        pyarrow.csv.write_csv(nothing, str(path))
    else:
        pyarrow.parquet.write_table(nothing, str(path))
    return path.relative_to(aside).as_posix()


def fetch(stage: Stage, store: Store, name: str, target: Path) -> None:
    """Link or copy a stored file. Raises InputLost where it is gone."""
    try:
        store.storage.fetch(name, str(target))
    except FileNotFoundError as error:
        raise InputLost(
            f"sink {stage.name}: {name} is gone",
            remedy="run again: the next run makes it again",
            stage=stage.name,
        ) from error
    except ConnectionError as error:
        with store.errors(name):
            raise error


def remove(path: Path) -> None:
    """A file, a link or a folder with all in it, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
