"""A source as the first driver of a run has found it: its schema, its reader, and what its `partitions()` returned.

They belong together: a split may mean something to the reader that named it only. A source may return others each time
it is asked, and what a subtask has read is known by the numbers of splits. So they are kept in the store, as one
object, and later drivers take them from there.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rekindle.core.source_coordinator import AssigningEnumerator, SplitEnumerator, SplitEnumeratorContext
from rekindle.core.splits import InOrder, LocalFirst
from rekindle.pipeline.sources import DataSourceRead, HasSplitAssigner, HasSplitEnumerator, SourceSplit
from rekindle.runtime.by_value import by_value
from rekindle.runtime.errors import BEGIN_ANEW, PipelineMisuse, StoreRefused
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MOST_SPLITS = 1_000_000
MOST_BYTES = 256 << 20
_FORMAT = 1
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source as it is read in this run.

    Attributes:
        schema: of its rows, as Spark's JSON.
        reader: pickled.
        splits: pickled, in the order in which the reader has named them.
    """

    schema: str
    reader: bytes
    splits: list[bytes]


def opened_source(stage: str, read: DataSourceRead, store: Store, name: str) -> OpenedSource:
    """The source under that name of the store; where there is none, as it is now, which is put there.

    Raises:
        PipelineMisuse: it has no schema, or no splits, or too many, or cannot be sent to executors.
        StoreRefused: what is in the store is damaged.

    Whatever else is raised is the source's own.
    """
    stored = store.get(name)
    if stored is None:
        store.put_if_absent(name, _sealed(_planned(stage, read)))
        stored = store.get(name)
    return _unsealed(stored or b"", f"{store}/{name}")


def enumerator_of(
    read: DataSourceRead, opened: OpenedSource, context: SplitEnumeratorContext[SourceSplit], settled: set[int]
) -> SplitEnumerator[SourceSplit]:
    """Who hands out those of a source's splits that are not settled: the source's own, if it has one."""
    from pyspark import cloudpickle

    loads: Any = cloudpickle.loads
    left = [number for number in range(len(opened.splits)) if number not in settled]
    made = _made(read)
    is_asked = isinstance(made, HasSplitAssigner | HasSplitEnumerator)
    has_hosts = bool(left) and hasattr(loads(opened.splits[left[0]]), "hosts")
    splits = [SourceSplit(n, loads(opened.splits[n]) if is_asked or has_hosts else None) for n in left]
    if isinstance(made, HasSplitEnumerator):
        return made.split_enumerator(context, splits)
    if isinstance(made, HasSplitAssigner):
        return AssigningEnumerator(context, made.split_assigner(splits))
    if has_hosts:
        return AssigningEnumerator(context, LocalFirst({split: _hosts(split.partition) for split in splits}))
    return AssigningEnumerator(context, InOrder(splits))


def _hosts(partition: Any) -> tuple[str, ...]:
    hosts = getattr(partition, "hosts", None) or ()
    return (hosts,) if isinstance(hosts, str) else tuple(map(str, hosts))


def _made(read: DataSourceRead) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return read.data_source()(options=CaseInsensitiveDict(read.options))


def _planned(stage: str, read: DataSourceRead) -> OpenedSource:
    """As Spark makes it and asks for its splits. A source that names none has one."""
    from pyspark.sql.datasource import DataSourceReader, InputPartition

    source = _made(read)
    schema = _schema(stage, read, source.schema() if read.schema is None else read.schema)
    reader = source.reader(schema)
    if not isinstance(reader, DataSourceReader):
        raise PipelineMisuse(
            f"stage {stage}: reader() of {read.name} returned {type(reader).__name__}",
            remedy="return a pyspark.sql.datasource.DataSourceReader",
            stage=stage,
        )
    try:
        splits = reader.partitions()
    except NotImplementedError:
        splits = []
    if not isinstance(splits, list | tuple) or not all(isinstance(one, InputPartition) for one in splits):
        raise PipelineMisuse(
            f"stage {stage}: partitions() of its reader returned {splits!r:.200}",
            remedy="return a list of pyspark.sql.datasource.InputPartition",
            stage=stage,
        )
    if len(splits) > MOST_SPLITS:
        raise PipelineMisuse(
            f"stage {stage}: its source has {len(splits):,} splits, and there may be {MOST_SPLITS:,}",
            remedy="make each of them larger",
            stage=stage,
        )
    named = enumerate(splits or [InputPartition(None)])
    sealed = [pickled(stage, f"split {number}", split) for number, split in named]
    size = sum(map(len, sealed))
    if size > MOST_BYTES:
        raise PipelineMisuse(
            f"stage {stage}: its {len(splits):,} splits take {size:,} bytes, and may take {MOST_BYTES:,}",
            remedy="a split says where its rows are to be found; it does not hold them",
            stage=stage,
        )
    return OpenedSource(schema.json(), pickled(stage, "its reader", _without_secrets(stage, read, reader)), sealed)


def _without_secrets(stage: str, read: DataSourceRead, reader: Any) -> Any:
    """The reader as it may be stored. A source says which options are secret, and its reader is given them later."""
    if not getattr(read.source, "secret_options", ()):
        return reader
    if not callable(getattr(reader, "with_secrets", None)):
        raise PipelineMisuse(
            f"stage {stage}: {read.name} has secret_options, and its reader has no method with_secrets(options)",
            remedy="return a reader that has those options, of the ones given, and no others that are secret",
            stage=stage,
        )
    return reader.with_secrets({})


def _schema(stage: str, read: DataSourceRead, said: Any) -> StructType:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(said) if isinstance(said, str) else said
    if not isinstance(schema, StructType):
        raise PipelineMisuse(
            f"stage {stage}: the schema of {read.name} is {schema!r}",
            remedy="it is a StructType, or a text such as 'id BIGINT, name STRING'",
            stage=stage,
        )
    return schema


def pickled(stage: str, what: str, value: Any) -> bytes:
    """`value` on its way to executors; PipelineMisuse where it cannot be sent."""
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps  # PySpark ships it without types
    try:
        return bytes(dumps(by_value(value)))
    except Exception as error:
        raise PipelineMisuse(
            f"stage {stage}: {what} cannot be sent to executors: {error}",
            remedy="let it hold plain values, and open files, connections and locks in read() or write()",
            stage=stage,
        ) from error


def _sealed(opened: OpenedSource) -> bytes:
    """A line about it, then the reader and the splits, each behind its length."""
    data = b"".join(_LENGTH.pack(len(one)) + one for one in (opened.reader, *opened.splits))
    about = {"format": _FORMAT, "schema": opened.schema, "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(about).encode() + b"\n" + data


def _unsealed(stored: bytes, where: str) -> OpenedSource:
    line, _, data = stored.partition(b"\n")
    try:
        about: Mapping[str, Any] = json.loads(line)
        written_as, schema, digest = about["format"], str(about["schema"]), about["sha256"]
        if written_as == _FORMAT and digest != hashlib.sha256(data).hexdigest():
            raise ValueError("they are not what was written")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreRefused(
            f"the splits in {where} are damaged: {error}",
            remedy=f"restore that file (nothing stored has been changed), or {BEGIN_ANEW}",
        ) from error
    if written_as != _FORMAT:
        raise StoreRefused(
            f"the splits in {where} have format {written_as}, this version of rekindle reads format {_FORMAT}",
            remedy=f"use the version that wrote them, or {BEGIN_ANEW}",
        )
    reader, *splits = _parts(data)
    return OpenedSource(schema, reader, splits)


def _parts(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size + length
        yield data[place - length : place]
