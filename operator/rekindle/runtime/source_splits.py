"""The splits of a source: what its `partitions()` returned once, kept in the store for later drivers.

A source may return others each time it is asked, and what a subtask has read is known by the numbers of splits.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rekindle.core.source_coordinator import AssigningEnumerator, SplitEnumerator, SplitEnumeratorContext
from rekindle.core.splits import InOrder, LocalFirst
from rekindle.pipeline.sources import DataSourceRead, HasSplitAssigner, HasSplitEnumerator, SourceSplit
from rekindle.runtime.errors import BEGIN_ANEW, PipelineMisuse, StoreRefused
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MOST_SPLITS = 1_000_000
MOST_BYTES = 256 << 20
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source of a stage, made in this driver.

    Attributes:
        source: as it was made here.
        schema: of its rows.
        reader: its reader, as the source made it.
        pickled: the same for executors.
    """

    stage: str
    source: Any
    schema: StructType
    reader: Any
    pickled: bytes


def open_source(stage: str, read: DataSourceRead) -> OpenedSource:
    """Make a source and its reader, as Spark does.

    Raises PipelineMisuse for one that has no schema, or cannot be sent to executors. Whatever else is raised is the
    source's own.
    """
    from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader
    from pyspark.sql.types import StructType

    source = read.source(options=CaseInsensitiveDict(read.options))
    said = source.schema() if read.schema is None else read.schema
    schema = StructType.fromDDL(said) if isinstance(said, str) else said
    if not isinstance(schema, StructType):
        raise PipelineMisuse(
            f"stage {stage}: the schema of {read.name} is {schema!r}",
            remedy="it is a StructType, or a text such as 'id BIGINT, name STRING'",
            stage=stage,
        )
    reader = source.reader(schema)
    if not isinstance(reader, DataSourceReader):
        raise PipelineMisuse(
            f"stage {stage}: reader() of {read.name} returned {type(reader).__name__}",
            remedy="return a pyspark.sql.datasource.DataSourceReader",
            stage=stage,
        )
    return OpenedSource(stage, source, schema, reader, _pickled(stage, "its reader", reader))


def splits_of(opened: OpenedSource, store: Store, name: str) -> list[bytes]:
    """The splits of a source, pickled: those in the store, or else what `partitions()` returns now.

    Raises:
        PipelineMisuse: what it returns are no splits, or they are too many.
        StoreRefused: those in the store are damaged.
    """
    stored = store.get(name)
    if stored is None:
        store.put_if_absent(name, _sealed(_planned(opened)))
        stored = store.get(name)
    return _unsealed(stored or b"", f"{store}/{name}")


def enumerator_of(
    opened: OpenedSource, context: SplitEnumeratorContext[SourceSplit], left: Mapping[int, bytes]
) -> SplitEnumerator[SourceSplit]:
    """Who hands out what is left of a source's splits, [number -> pickled]: the source's own, if it has one."""
    from pyspark import cloudpickle

    loads: Any = cloudpickle.loads
    first = next(iter(left.values()), None)
    has_hosts = first is not None and hasattr(loads(first), "hosts")
    is_asked = isinstance(opened.source, HasSplitAssigner | HasSplitEnumerator)
    splits = [SourceSplit(n, loads(data) if is_asked or has_hosts else None) for n, data in left.items()]
    if isinstance(opened.source, HasSplitEnumerator):
        return opened.source.split_enumerator(context, splits)
    if isinstance(opened.source, HasSplitAssigner):
        return AssigningEnumerator(context, opened.source.split_assigner(splits))
    if has_hosts:
        near = {split: tuple(getattr(split.partition, "hosts", ())) for split in splits}
        return AssigningEnumerator(context, LocalFirst(near))
    return AssigningEnumerator(context, InOrder(splits))


def _planned(opened: OpenedSource) -> list[bytes]:
    """As Spark asks for them: a source that names none has one."""
    from pyspark.sql.datasource import InputPartition

    try:
        splits = opened.reader.partitions()
    except NotImplementedError:
        splits = []
    if not isinstance(splits, list | tuple) or not all(isinstance(one, InputPartition) for one in splits):
        raise PipelineMisuse(
            f"stage {opened.stage}: partitions() of its reader returned {splits!r:.200}",
            remedy="return a list of pyspark.sql.datasource.InputPartition",
            stage=opened.stage,
        )
    if len(splits) > MOST_SPLITS:
        raise PipelineMisuse(
            f"stage {opened.stage}: its source has {len(splits):,} splits, and there may be {MOST_SPLITS:,}",
            remedy="make each of them larger",
            stage=opened.stage,
        )
    pickled = [
        _pickled(opened.stage, f"split {number}", split)
        for number, split in enumerate(splits or [InputPartition(None)])
    ]
    size = sum(map(len, pickled))
    if size > MOST_BYTES:
        raise PipelineMisuse(
            f"stage {opened.stage}: its {len(splits):,} splits take {size:,} bytes, and may take {MOST_BYTES:,}",
            remedy="a split says where its rows are to be found; it does not hold them",
            stage=opened.stage,
        )
    return pickled


def _pickled(stage: str, what: str, value: Any) -> bytes:
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps  # PySpark ships it without types
    try:
        return bytes(dumps(value))
    except Exception as error:
        raise PipelineMisuse(
            f"stage {stage}: {what} cannot be sent to executors: {error}",
            remedy="let it hold plain values, and open files, connections and locks in read()",
            stage=stage,
        ) from error


def _sealed(splits: list[bytes]) -> bytes:
    data = pickle.dumps(splits)
    about = {"format": _FORMAT, "splits": len(splits), "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(about).encode() + b"\n" + data


def _unsealed(stored: bytes, where: str) -> list[bytes]:
    line, _, data = stored.partition(b"\n")
    try:
        about = json.loads(line)
        if about["format"] != _FORMAT or about["sha256"] != hashlib.sha256(data).hexdigest():
            raise ValueError("they are not what was written")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreRefused(
            f"the splits in {where} are damaged: {error}",
            remedy=f"restore that file (nothing stored has been changed), or {BEGIN_ANEW}",
        ) from error
    return [bytes(split) for split in pickle.loads(data)]
