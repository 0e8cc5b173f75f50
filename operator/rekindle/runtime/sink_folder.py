"""What a sink's folder has, and whether more can be put beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.connectors.hive_folders import key_of
from rekindle.pipeline.sinks import FileSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineMisuse
from rekindle.runtime.hive_partitions import columns_of_files
from rekindle.runtime.manifest import Manifest, combine_digests

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SUCCESS = "_SUCCESS"


def folder_of(sink: FileSink) -> Path:
    """What a link points to is replaced, not the link."""
    return Path(sink.target).resolve()


def contents_of(identity: str, manifests: Sequence[Manifest]) -> dict[str, object]:
    """What says of a published result which one it is, as JSON types."""
    files = "\n".join(file.path for manifest in manifests for file in manifest.files)
    return {
        "run": identity,
        "rows": sum(manifest.rows for manifest in manifests),
        "digest": combine_digests([manifest.digest for manifest in manifests]),
        "files": hashlib.sha256(files.encode()).hexdigest(),
    }


def published(target: Path) -> object:
    """What the folder says was published to it last, as `contents_of` tells it; None where it says nothing.

    Its `mode` is told where that was put beside others.
    """
    try:
        return json.loads((target / SUCCESS).read_text())
    except (OSError, ValueError, RecursionError):
        return None


def tag_of(identity: str) -> str:
    """What files that a run has put beside others have in their names; 16 hexadecimal digits."""
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def is_of_run(name: str, identity: str) -> bool:
    """Whether a file's name says that this run has put it there."""
    return f"-{tag_of(identity)}-" in name.rpartition("/")[2]


def data_files(folder: Path) -> Iterator[str]:
    """Paths below a folder of all that readers take for data, in the order of names. Nothing where it is missing."""
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
        if name.startswith(".") or (name.startswith("_") and "=" not in name):
            continue
        if (folder / name).is_dir():
            yield from (f"{name}/{below}" for below in data_files(folder / name))
        else:
            yield name


def check_layout(stage: Stage, sink: FileSink, identity: str) -> None:
    """Raises PipelineMisuse where the sink's path is no folder, or its files are in folders by other columns."""
    folder = folder_of(sink)
    if folder.exists() and not folder.is_dir():
        raise PipelineMisuse(
            f"sink {stage.name}: {sink.path} is a file, and files cannot be put beside it",
            remedy="name a folder",
            stage=stage.name,
        )
    wanted = list(sink.hive_partitions)
    for path in data_files(folder):
        found = [key_of(name)[0] if "=" in name else name for name in path.split("/")[:-1]]
        if found != wanted and not is_of_run(path, identity):
            raise PipelineMisuse(
                f"sink {stage.name}: {sink.path} has {path}, so its folders are by {_names(found)}, and this sink's "
                f"hive_partitions are {_names(wanted)}: they differ in {_names(_differing(found, wanted))}",
                remedy="say the same hive_partitions, or write to another folder",
                stage=stage.name,
            )


def check_columns(stage: Stage, sink: FileSink, schema: StructType, identity: str) -> None:
    """Raises PipelineMisuse where files in the sink's folder have other columns than those that are put beside them.
    The first file of another run is looked at.

    Args:
        schema: of the result.
    """
    folder = folder_of(sink)
    first = next((path for path in data_files(folder) if not is_of_run(path, identity)), None)
    if first is None:
        return
    ours = _types(columns_of_files(schema, tuple(sink.hive_partitions)))
    theirs = _types_of_file(stage, sink, folder / first)
    if sink.format == "csv":  # columns are found by their place, and have no types
        if list(ours) == list(theirs):
            return
        what = f"its first line names {', '.join(theirs)}, and this result has {', '.join(ours)}"
    else:
        differing = [name for name in [*ours, *theirs] if ours.get(name) != theirs.get(name)]
        if not differing:
            return
        name = differing[0]
        what = f"column {name!r} is {theirs.get(name, 'not')} there, and {ours.get(name, 'not')} in this result"
    raise PipelineMisuse(
        f"sink {stage.name}: {sink.path} has files with other columns, {first}: {what}",
        remedy="return the columns that the files have, or write to another folder",
        stage=stage.name,
    )


def _types(schema: StructType) -> dict[str, str]:
    """[name -> type], as far as files tell."""
    return {field.name: _told(field.dataType.simpleString()) for field in schema.fields}


def _told(name: str) -> str:
    """A file knows nothing of collations, and not always whether times within others have a zone."""
    plain = re.sub(r" collate \w+", "", name)
    return plain.replace("timestamp_ntz", "timestamp") if "<" in plain else plain


def _types_of_file(stage: Stage, sink: FileSink, path: Path) -> dict[str, str]:
    from pyarrow.fs import LocalFileSystem
    from pyspark.sql.pandas.types import from_arrow_type

    from rekindle.connectors import file_formats
    from rekindle.connectors.files import FileOptions

    try:
        found = file_formats.schema_of(LocalFileSystem(), str(path), FileOptions((str(path),), sink.format))
    except ValueError as error:
        raise PipelineMisuse(
            f"sink {stage.name}: {sink.path} has files that are not {sink.format}: {error}",
            remedy=f"write to another folder, or take away what is no {sink.format}",
            stage=stage.name,
        ) from error
    types = dict[str, str]()
    for field in found:
        try:
            types[field.name] = _told(from_arrow_type(field.type, prefer_timestamp_ntz=True).simpleString())
        except TypeError:  # PySpark knows no such type
            types[field.name] = str(field.type)
    return types


def _differing(found: Sequence[str], wanted: Sequence[str]) -> Sequence[str]:
    return [name for name in (*found, *wanted) if name not in found or name not in wanted] or wanted


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns)) or "no columns"
