"""What runs inside an executor: write one result partition and commit it.

This module is sent to the executors by value (they need pyarrow and numpy, not Rekindle), so it imports
nothing else of the project but what is sent so too; where the store lies comes with the `WriterSpec`. Spark
calls `write_partition` once per task attempt with the partition's rows as Arrow batches. The attempt writes
into a folder of its own and then creates the manifest; whoever creates it first has made the partition (S2-3,
S5-8).

What differs from job to job on the same RDD (versions, which attempt this is) comes by Spark's local
properties, so that a copy or a rerun uses the same RDD and with it the same finished shuffle.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rekindle.connectors.hive_folders import folders_of

HASH_COLUMN = "__rekindle_hash"
VERSIONS_PROPERTY = "rekindle.versions"
RESULT_SCHEMA = "manifest string"
_DICTIONARY_BYTES = 256 << 10
"""A column with more values than this is written as it is. At four times as much, the default, columns of keys take a
fifth more of CPU, and no less space."""
_ROW_GROUP_BYTES = 64 << 20
_CHUNK = 1 << 20
FOOTER_GUESS = 64 << 10
"""Bytes at the end of a Parquet file that most footers fit in."""
_MASK = (1 << 64) - 1
_END_OF_STREAM = (-4).to_bytes(4, "big", signed=True)
"""What Spark says to a Python worker behind the last row of a task that has read all of its input."""


@dataclass(frozen=True)
class WriterSpec:
    """Where and how the partitions of one stage are written. All names are names of `storage`."""

    storage: Any  # a `storage.Storage`
    stage: str
    writer: str
    manifests: str
    data: tuple[str, ...]  # one folder per volume
    format: str  # "parquet" | "csv"
    columns: tuple[str, ...]  # names as stored; Spark hands them over by position
    signature: str | None  # of names and types of the columns; None where rows cannot be compared
    checked: bool = False  # a checksum of each file as a whole: Spark, which checks pages, will not read them
    folders: int = 0  # how many of `columns`, the last ones, are names of folders (as text) and not in files
    sink: Any = None  # a `sink_writer.SinkWriter`, which the rows go to instead of to files


Writer = Callable[[Iterator[Any]], Iterator[Any]]


def make_writer(spec: WriterSpec) -> Writer:
    """The function for `DataFrame.mapInArrow`: batches in, one row with the manifest out."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        manifest = write_partition(spec, batches)
        yield pyarrow.RecordBatch.from_pydict({"manifest": [manifest]})

    return write


def write_partition(spec: WriterSpec, batches: Iterator[Any]) -> str:
    """Write and commit the partition of the running task; the manifest's text.

    A task whose partition is committed already (Spark runs killed and finished tasks again unasked) ends at
    once, without reading its input.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    started = time.time()
    partition = context.partitionId()
    version = version_of(context.getLocalProperty(VERSIONS_PROPERTY), partition)
    name = f"{spec.manifests}/p{partition:05d}-v{version:04d}.json"
    with contextlib.suppress(FileNotFoundError):
        return str(spec.storage.get(name).decode())
    folder = f"{spec.data[partition % len(spec.data)]}/.attempt-p{partition:05d}-v{version:04d}-{uuid.uuid4().hex}"
    _leave_modules_alone()
    rows, files, message = _Rows(spec, batches), list[dict[str, Any]](), None
    try:
        if spec.sink is None:
            files = _write_files(spec, partition, folder, rows)
        else:
            message = spec.sink.write(rows)
        _check_whole()
    except BaseException:
        _abort(spec, message)
        raise
    manifest = {
        "format": 1,
        "stage": spec.stage,
        "partition": partition,
        "version": version,
        "task": context.taskAttemptId(),
        "writer": spec.writer,
        "rows": rows.count,
        "bytes": sum(file["bytes"] for file in files),
        "digest": rows.digest,
        "files": files,
        "seconds": round(time.time() - started, 3),
        "finishedAt": time.time(),
    }
    if message is not None:
        manifest["message"] = message
    text = sealed(manifest)
    if spec.storage.put_if_absent(name, text.encode()):
        return text
    won = spec.storage.get(name)
    if message is not None and unsealed(won).get("message") != message:
        _abort(spec, message)
    return str(won.decode())


def _abort(spec: WriterSpec, message: str | None) -> None:
    """Have the writer of a sink drop what this attempt has written, which nobody will commit; as far as it can."""
    if message is not None:
        with contextlib.suppress(Exception):  # the attempt has lost, or fails for another reason
            spec.sink.abort(message)


def sealed(fields: dict[str, Any]) -> str:
    """JSON with a checksum of itself."""
    return json.dumps({**fields, "crc": zlib.crc32(json.dumps(fields).encode())})


def unsealed(data: bytes) -> dict[str, Any]:
    """The fields that `sealed` made `data` of. Raises ValueError when it is not as it was written."""
    try:
        fields = json.loads(data)
        crc = fields.pop("crc")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not whole: {error!r}") from error
    if zlib.crc32(json.dumps(fields).encode()) != crc:
        raise ValueError("not whole: it is not what was written")
    return dict(fields)


def version_of(text: str | None, partition: int) -> int:
    """Of a result partition, by a job's property."""
    versions = json.loads(text or "{}")
    return int(versions.get(str(partition), versions.get("default", 1)))


class _Rows:
    """The batches of a partition as they are stored. When all have been taken `count` says how many rows there were,
    and `digest` which; None where they cannot be compared."""

    def __init__(self, spec: WriterSpec, batches: Iterator[Any]) -> None:
        self._spec, self._batches = spec, batches
        self.count = self._first = self._second = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            if self._spec.signature is not None:
                sums = _sums(batch.column(batch.num_columns - 1))
                self._first, self._second = (self._first + sums[0]) & _MASK, (self._second + sums[1]) & _MASK
            self.count += batch.num_rows
            if batch.num_rows:
                yield _renamed(batch, self._spec.columns)

    @property
    def digest(self) -> str | None:
        if self._spec.signature is None:
            return None
        return f"{self.count:x}-{self._first:016x}-{self._second:016x}-{self._spec.signature}"


def _write_files(spec: WriterSpec, partition: int, folder: str, rows: _Rows) -> list[dict[str, Any]]:
    """The manifest's entries for the files: one, or one for all rows with the same folders; none without rows."""
    files, sink, named = list[dict[str, Any]](), None, ""
    with contextlib.ExitStack() as opened:
        for folders, batch in _by_folders(spec, rows):
            if sink is None or folders != named:
                files += sink.close() if sink else []
                sink, named = opened.enter_context(_FileSink(spec, partition, folder, folders)), folders
            sink.write(batch)
        return files + (sink.close() if sink else [])


def _by_folders(spec: WriterSpec, rows: _Rows) -> Iterator[tuple[str, Any]]:
    """Rows with the same folders, which are named, and without the columns that say so."""
    files = len(spec.columns) - spec.folders
    for batch in rows:
        if not spec.folders:
            yield "", batch
            continue
        folders = batch.columns[files:]
        own = batch.select(list(range(files)))
        starts = _starts(folders, batch.num_rows)
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            values = [column[start].as_py() for column in folders]
            yield folders_of(spec.columns[files:], values), own.slice(start, end - start)


def _starts(columns: list[Any], rows: int) -> list[int]:
    """Where rows begin that differ from the one before in some of the columns of text."""
    import numpy

    differ = numpy.zeros(rows, dtype=bool)
    differ[0] = True
    for column in columns:
        values = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        differ[1:] |= values[1:] != values[:-1]
    return [int(start) for start in numpy.flatnonzero(differ)]


def _check_whole() -> None:
    """Raises EOFError where the rows have ended because the task has: it failed in Spark's part, or was cancelled.

    The connection is closed then, and pyarrow takes that for the end of the rows.
    """
    frame: Any = sys._getframe()
    while frame is not None and not {"infile", "outfile"} <= set(frame.f_locals):
        frame = frame.f_back
    if frame is None:
        raise RuntimeError("this version of PySpark is not known: its worker has no connection to ask for the end")
    following = bytes(frame.f_locals["infile"].peek(len(_END_OF_STREAM))[: len(_END_OF_STREAM)])
    if not following or not _END_OF_STREAM.startswith(following):
        raise EOFError("the task has ended before its partition did")


def _leave_modules_alone() -> None:
    """Spark's daemon collects garbage after each task of a worker, and goes through all that was ever imported for
    that: more than the rest of a small partition costs.

    What is there when the first task begins is taken for modules from then on: what of its functions refers to itself
    stays as long as the worker does.
    """
    import numpy  # noqa: F401  # both are among what is to be left alone, and nobody has needed them yet
    import pyarrow.parquet  # noqa: F401

    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


def _renamed(batch: Any, names: tuple[str, ...]) -> Any:
    """The first columns of `batch` under `names`; the hash column behind them goes."""
    import pyarrow

    fields = [batch.schema.field(position).with_name(name) for position, name in enumerate(names)]
    arrays = batch.columns[: len(names)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


def _sums(column: Any) -> tuple[int, int]:
    """Two sums (mod 2^64): of the rows' hashes, and of the hashes mixed once more.

    Two, so that two changed rows whose differences cancel in one sum do not cancel in the other.
    """
    import numpy

    hashes = column.to_numpy(zero_copy_only=False).astype(numpy.int64).view(numpy.uint64)
    mixed = hashes ^ (hashes >> numpy.uint64(30))
    mixed = mixed * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = mixed ^ (mixed >> numpy.uint64(27))
    mixed = mixed * numpy.uint64(0x94D049BB133111EB)
    return int(hashes.sum(dtype=numpy.uint64)), int(mixed.sum(dtype=numpy.uint64))


class _FileSink:
    """A data file of the attempt. Rows are gathered into row groups; an empty partition has no file.

    Args:
        folder: the attempt's, in the store.
        published: where in a sink's folder it goes, such as `year=2013`.
    """

    def __init__(self, spec: WriterSpec, partition: int, folder: str, published: str = "") -> None:
        self._storage, self._format, self._checked = spec.storage, spec.format, spec.checked
        self._published = published
        # The bucket id that Spark reads from a file's name is the number after the last underscore.
        suffix = "c000.snappy.parquet" if spec.format == "parquet" else "c000.csv"
        self._name = f"{folder}/part-{partition:05d}-{uuid.uuid4().hex}_{partition:05d}.{suffix}"
        self._open = contextlib.ExitStack()
        self._path = ""
        self._writer: Any = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    def __enter__(self) -> _FileSink:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)

    def write(self, batch: Any) -> None:
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> list[dict[str, Any]]:
        """The manifest's entry for the file, in a list that is empty when there is none."""
        self._flush()
        if self._writer is None:
            return []
        self._writer.close()
        size = os.path.getsize(self._path)
        footer = None
        if self._format == "parquet":
            footer = footer_checksum(lambda length: _last_bytes(self._path, length), size)
        content = file_checksum(self._path) if self._checked else None
        self._open.close()
        file = {"path": self._name, "bytes": size, "footer": footer, "content": content}
        return [{**file, "folder": self._published} if self._published else file]

    def _flush(self) -> None:
        import pyarrow

        if not self._pending:
            return
        table = pyarrow.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._writer is None:
            self._path = self._open.enter_context(self._storage.writing(self._name))
            self._writer = self._make_writer(table.schema)
        self._writer.write_table(table)

    def _make_writer(self, schema: Any) -> Any:
        if self._format == "csv":
            import pyarrow.csv

            return pyarrow.csv.CSVWriter(self._path, schema)
        import pyarrow.parquet

        exact = [leaf for field in schema for leaf in _exact_leaves(field.name, field.type)]
        return pyarrow.parquet.ParquetWriter(
            self._path,
            schema,
            compression="snappy",
            write_page_checksum=True,
            store_decimal_as_integer=True,
            write_statistics=exact,
            use_dictionary=exact,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
        )


def _exact_leaves(path: str, kind: Any) -> Iterator[str]:
    """Paths of the leaves of a column by whose statistics and dictionaries Spark may skip rows: all but floating ones.

    To Spark NaN is equal to NaN and greater than all else, and -0.0 is 0.0; to the reader's filters NaN is not there
    (pyarrow's statistics leave it out), and the two zeros differ.
    """
    from pyarrow import types

    if types.is_struct(kind):
        for field in kind:
            yield from _exact_leaves(f"{path}.{field.name}", field.type)
    elif types.is_map(kind):
        yield from _exact_leaves(f"{path}.key_value.key", kind.key_type)
        yield from _exact_leaves(f"{path}.key_value.value", kind.item_type)
    elif types.is_list(kind) or types.is_large_list(kind):
        yield from _exact_leaves(f"{path}.list.element", kind.value_type)
    elif not types.is_floating(kind):
        yield path


def file_checksum(path: str) -> int:
    """CRC-32 of a whole file."""
    checksum = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def footer_checksum(last: Callable[[int], bytes], size: int) -> int:
    """CRC-32 of a Parquet file's footer, which has no checksum of its own as its pages have.

    Args:
        last: gives that many bytes from the file's end, or the whole file where it is shorter.
        size: bytes of the file.

    Raises ValueError when the file does not end as a Parquet file does.
    """
    end = last(FOOTER_GUESS)
    length = int.from_bytes(end[-8:-4], "little") + 8
    if end[-4:] != b"PAR1" or length > size:
        raise ValueError("its last bytes are not those of a Parquet file")
    if length > len(end):
        end = last(length)
    return zlib.crc32(end[-length:])


def _last_bytes(path: str, length: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - length))
        return file.read()
