"""What a source says of itself and of its splits: taken once, or refused by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rekindle.pipeline.sources import DataSourceRead
from rekindle.runtime import source_splits
from rekindle.runtime.errors import PipelineMisuse, StoreRefused
from rekindle.runtime.source_splits import OpenedSource, open_source, splits_of
from rekindle.runtime.store import Store

SCHEMA = StructType().add("n", "long")


class Reader(DataSourceReader):
    def __init__(self, splits: Any) -> None:
        self.splits = splits

    def partitions(self) -> Any:
        return self.splits

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield (1,)


def source(*, splits: Any = (), schema: Any = SCHEMA, reader: Any = None) -> type[DataSource]:
    class Made(DataSource):
        @classmethod
        def name(cls) -> str:
            return "made"

        def schema(self) -> Any:
            return schema

        def reader(self, schema: StructType) -> Any:
            return Reader(splits) if reader is None else reader

    return Made


def opened(splits: Any) -> OpenedSource:
    return OpenedSource("numbers", None, SCHEMA, Reader(splits), b"")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


def values(pickled: list[bytes]) -> list[Any]:
    loads: Any = cloudpickle.loads
    return [loads(one).value for one in pickled]


def test_splits_are_those_that_were_named_first(store):
    assert values(splits_of(opened([InputPartition(1), InputPartition(2)]), store, "splits")) == [1, 2]
    assert values(splits_of(opened([InputPartition(3)]), store, "splits")) == [1, 2]


@pytest.mark.parametrize("names_none", [[], NotImplementedError])
def test_a_source_that_names_no_splits_has_one_as_in_spark(store, names_none):
    made = opened([])
    if names_none is NotImplementedError:

        def partitions() -> Any:
            raise NotImplementedError

        made.reader.partitions = partitions
    assert values(splits_of(made, store, "splits")) == [None]


@pytest.mark.parametrize("splits", [None, "abc", [1, 2], {"a": 1}, [InputPartition(1), "x"]], ids=str)
def test_what_are_no_splits_is_refused(store, splits):
    with pytest.raises(PipelineMisuse, match=r"(?s)numbers: partitions\(\) of its reader returned.*a list of"):
        splits_of(opened(splits), store, "splits")
    assert store.get("splits") is None


def test_too_many_splits_are_refused_and_too_large_ones(store, monkeypatch):
    monkeypatch.setattr(source_splits, "MOST_SPLITS", 10)
    with pytest.raises(PipelineMisuse, match=r"(?s)has 11 splits, and there may be 10.*make each of them larger"):
        splits_of(opened([InputPartition(n) for n in range(11)]), store, "splits")
    monkeypatch.setattr(source_splits, "MOST_BYTES", 1000)
    with pytest.raises(PipelineMisuse, match=r"(?s)its 2 splits take [\d,]+ bytes, and may take 1,000.*does not hold"):
        splits_of(opened([InputPartition(1), InputPartition("x" * 1000)]), store, "splits")
    assert store.get("splits") is None


def test_a_split_or_a_reader_that_cannot_be_sent_is_named(store):
    with pytest.raises(PipelineMisuse, match=r"(?s)numbers: split 1 cannot be sent to executors.*in read\(\)"):
        splits_of(opened([InputPartition(1), InputPartition(threading.Lock())]), store, "splits")
    with pytest.raises(PipelineMisuse, match="numbers: its reader cannot be sent to executors"):
        open_source("numbers", DataSourceRead(source(splits=threading.Lock())))


def test_a_source_without_a_schema_or_a_reader_is_refused():
    with pytest.raises(PipelineMisuse, match="numbers: the schema of made is 7"):
        open_source("numbers", DataSourceRead(source(schema=7)))
    with pytest.raises(PipelineMisuse, match=r"numbers: reader\(\) of made returned str"):
        open_source("numbers", DataSourceRead(source(reader="reader")))


def test_a_schema_that_is_given_counts_and_options_have_no_case():
    given = StructType().add("other", "string")
    made = source()
    assert open_source("numbers", DataSourceRead(made, schema=given)).schema == given
    seen: list[Any] = []

    class Asking(made):  # type: ignore[misc,valid-type]
        def reader(self, schema: StructType) -> Any:
            seen.append((self.options["PATH"], schema))
            return Reader([])

    open_source("numbers", DataSourceRead(Asking, {"path": "/in"}))
    assert seen == [("/in", SCHEMA)]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"{}" + data, lambda data: data + b"x"]
)
def test_splits_that_are_damaged_are_refused(store, damage):
    splits_of(opened([InputPartition(1)]), store, "splits")
    store.replace("splits", damage(store.get("splits")))
    with pytest.raises(StoreRefused, match=r"(?s)the splits in .*/splits are damaged.*restore that file"):
        splits_of(opened([InputPartition(1)]), store, "splits")
