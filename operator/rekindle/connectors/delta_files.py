"""The files of a Delta table that a task writes, and what the table's log says of them."""

from __future__ import annotations

import datetime
import itertools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from rekindle.connectors.file_system import file_system

_LONGEST_BOUND = 32
"""Characters of a text in statistics; a column with a longer least or greatest value gets no bounds."""

_MOST_FOLDERS = 1 << 20
"""Values of partition columns in one task. A commit message ends it sooner."""


@dataclass(frozen=True)
class AddedFile:
    """A file below the table's folder.

    Attributes:
        size: in bytes.
        partition: [partition column -> its value in all rows of the file, as text]
        stats: what the log says of its rows, as JSON.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str


@dataclass
class AddedFiles(WriterCommitMessage):
    """What one attempt has written. `place`: its file or its folder, below the table's; none without rows."""

    place: str = ""
    files: list[AddedFile] = field(default_factory=list)


def write_files(root: str, partition_by: Sequence[str], batches: Iterator[Any]) -> AddedFiles:
    """Write Arrow batches below the folder `root`, under names that no other attempt has.

    Without partition columns that is one file in the folder itself; else a folder of this attempt, in it a file for
    each value of those columns, in folders as Hive names them. Whatever is raised on the way, nothing stays.
    """
    import pyarrow
    import pyarrow.dataset as ds

    first = next(batches, None)
    if first is None:
        return AddedFiles()
    system, folder = file_system(root)
    name = f"part-{uuid.uuid4().hex}"
    place = f"{name}/" if partition_by else ""
    added = AddedFiles(name if partition_by else f"{name}-0.snappy.parquet")
    by = ds.partitioning(pyarrow.schema([first.schema.field(one) for one in partition_by]), flavor="hive")
    written: list[Any] = []
    try:
        ds.write_dataset(
            pyarrow.RecordBatchReader.from_batches(first.schema, itertools.chain((first,), batches)),
            f"{folder}/{place}",
            filesystem=system,
            format="parquet",
            partitioning=by,
            basename_template=f"{name}-{{i}}.snappy.parquet",
            use_threads=False,
            existing_data_behavior="overwrite_or_ignore",
            max_partitions=_MOST_FOLDERS,
            file_visitor=written.append,
        )
    except BaseException:
        remove(root, added)
        raise
    for one in written:
        path = place + one.path.rpartition(f"{name}/" if partition_by else "/")[2]
        values = ds.get_partition_keys(by.parse(path.removeprefix(place))) if partition_by else {}
        partition = {column: as_text(values.get(column)) for column in partition_by}
        added.files.append(AddedFile(path, one.size, partition, json.dumps(statistics(one.metadata))))
    return added


def remove(root: str, added: AddedFiles) -> None:
    """Remove what an attempt has written, as far as it is there."""
    from pyarrow.fs import FileType

    system, folder = file_system(root)
    place = f"{folder}/{added.place}"
    kind = system.get_file_info(place).type if added.place else FileType.NotFound
    if kind == FileType.File:
        system.delete_file(place)
    elif kind == FileType.Directory:
        system.delete_dir(place)


def as_text(value: Any) -> str | None:
    """A value of a partition column, as the log has it."""
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def statistics(metadata: Any) -> dict[str, Any]:
    """Of a Parquet file's footer: its rows, and by column the nulls, the least and the greatest value.

    These are of whole numbers, dates and short texts, and nothing is said of nested columns: a bound that is rounded
    would hide rows.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    nulls, least, greatest = dict[str, int](), dict[str, Any](), dict[str, Any]()
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        found = [group.column(number).statistics for group in groups]
        if column.path != column.name or column.max_repetition_level or not all(found):
            continue
        if all(one.has_null_count for one in found):
            nulls[column.path] = sum(one.null_count for one in found)
        bounded = [one for one in found if one.num_values]
        if bounded and all(one.has_min_max for one in bounded):
            low, high = _bound(min(one.min for one in bounded)), _bound(max(one.max for one in bounded))
            if low is not None and high is not None:
                least[column.path], greatest[column.path] = low, high
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _bound(value: Any) -> Any:
    """As the log has it; None for what is left out."""
    match value:
        case bool() | datetime.datetime():
            return None
        case datetime.date():
            return value.isoformat()
        case str():
            return value if len(value) <= _LONGEST_BOUND else None
        case int():
            return value
        case _:
            return None
