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

from rekindle.core.source_coordinator import ReaderRegistration, RequestSplit, SourceCoordinator
from rekindle.pipeline.sources import DataSourceRead, SourceSplit
from rekindle.runtime import source_splits
from rekindle.runtime.errors import PipelineMisuse, StoreRefused
from rekindle.runtime.source_splits import enumerator_of, opened_source
from rekindle.runtime.store import Store

SCHEMA = StructType().add("n", "long")


class Reader(DataSourceReader):
    def __init__(self, splits: Any) -> None:
        self.splits = splits

    def partitions(self) -> Any:
        return self.splits

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield (1,)


class Locked(Reader):
    def __init__(self) -> None:
        super().__init__([InputPartition(1)])
        self.lock = threading.Lock()


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


def splits_of(store: Store, splits: Any) -> list[bytes]:
    return opened_source("numbers", DataSourceRead(source(splits=splits)), store, "splits").splits


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


def values(pickled: list[bytes]) -> list[Any]:
    loads: Any = cloudpickle.loads
    return [loads(one).value for one in pickled]


def test_splits_are_those_that_were_named_first(store):
    assert values(splits_of(store, [InputPartition(1), InputPartition(2)])) == [1, 2]
    assert values(splits_of(store, [InputPartition(3)])) == [1, 2]


def test_a_source_that_names_no_splits_has_one_as_in_spark(store):
    class Silent(Reader):
        def partitions(self) -> Any:
            raise NotImplementedError

    assert values(splits_of(store, [])) == [None]
    silent = DataSourceRead(source(reader=Silent([])))
    assert values(opened_source("numbers", silent, store, "others").splits) == [None]


@pytest.mark.parametrize("splits", [None, "abc", [1, 2], {"a": 1}, [InputPartition(1), "x"]], ids=str)
def test_what_are_no_splits_is_refused(store, splits):
    with pytest.raises(PipelineMisuse, match=r"(?s)numbers: partitions\(\) of its reader returned.*a list of"):
        splits_of(store, splits)
    assert store.get("splits") is None


def test_too_many_splits_are_refused_and_too_large_ones(store, monkeypatch):
    monkeypatch.setattr(source_splits, "MOST_SPLITS", 10)
    with pytest.raises(PipelineMisuse, match=r"(?s)has 11 splits, and there may be 10.*make each of them larger"):
        splits_of(store, [InputPartition(n) for n in range(11)])
    monkeypatch.setattr(source_splits, "MOST_BYTES", 1000)
    with pytest.raises(PipelineMisuse, match=r"(?s)its 2 splits take [\d,]+ bytes, and may take 1,000.*does not hold"):
        splits_of(store, [InputPartition(1), InputPartition("x" * 1000)])
    assert store.get("splits") is None


def test_a_split_or_a_reader_that_cannot_be_sent_is_named(store):
    with pytest.raises(PipelineMisuse, match=r"(?s)numbers: split 1 cannot be sent to executors.*in read\(\)"):
        splits_of(store, [InputPartition(1), InputPartition(threading.Lock())])
    with pytest.raises(PipelineMisuse, match="numbers: its reader cannot be sent to executors"):
        opened_source("numbers", DataSourceRead(source(reader=Locked())), store, "splits")


def test_a_source_without_a_schema_or_a_reader_is_refused(store):
    with pytest.raises(PipelineMisuse, match="numbers: the schema of made is 7"):
        opened_source("numbers", DataSourceRead(source(schema=7)), store, "splits")
    with pytest.raises(PipelineMisuse, match=r"numbers: reader\(\) of made returned str"):
        opened_source("numbers", DataSourceRead(source(reader="reader")), store, "splits")


def test_a_schema_that_is_given_counts_and_options_have_no_case(store):
    given = StructType().add("other", "string")
    made = source()
    assert opened_source("numbers", DataSourceRead(made, schema=given), store, "splits").schema == given.json()
    seen: list[Any] = []

    class Asking(made):  # type: ignore[misc,valid-type]
        def reader(self, schema: StructType) -> Any:
            seen.append((self.options["PATH"], schema))
            return Reader([])

    opened_source("numbers", DataSourceRead(Asking, {"path": "/in"}), store, "others")
    assert seen == [("/in", SCHEMA)]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"{}" + data, lambda data: data + b"x"]
)
def test_splits_that_are_damaged_are_refused(store, damage):
    splits_of(store, [InputPartition(1)])
    store.replace("splits", damage(store.get("splits")))
    with pytest.raises(StoreRefused, match=r"(?s)the splits in .*/splits are damaged.*restore that file"):
        splits_of(store, [InputPartition(1)])


def test_splits_of_a_newer_version_are_refused_as_such(store):
    splits_of(store, [InputPartition(1)])
    store.replace("splits", (store.get("splits") or b"").replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(StoreRefused, match=r"(?s)have format 2.*use the version that wrote them"):
        splits_of(store, [InputPartition(1)])


@pytest.mark.requirement("S4-9")
def test_splits_that_name_hosts_are_given_to_who_is_there(store):
    class Placed(InputPartition):
        def __init__(self, value: int, hosts: Any) -> None:
            super().__init__(value)
            self.hosts = hosts

    read = DataSourceRead(source(splits=[Placed(0, "n1"), Placed(1, ["n2"]), Placed(2, None)]))
    opened = opened_source("numbers", read, store, "splits")
    coordinator: SourceCoordinator[SourceSplit] = SourceCoordinator(
        lambda context: enumerator_of(read, opened, context, set()), 1, concurrent_attempts=True
    )
    coordinator.execution_attempt_ready(0, 0)
    coordinator.handle_event_from_operator(0, 0, ReaderRegistration("n2"))
    for host in ("n2", "n2", "n2"):
        coordinator.handle_event_from_operator(0, 0, RequestSplit(host))
    assert [split.number for split in coordinator.tracker.splits(0)] == [1, 2, 0]


class Keyed(Reader):
    """Has a password, and is the same reader without it."""

    def __init__(self, password: str | None) -> None:
        super().__init__([InputPartition(1)])
        self.password = password

    def with_secrets(self, options: Any) -> Keyed:
        return Keyed(options.get("password"))


def test_a_reader_is_stored_without_what_its_source_calls_secret(store):
    made: Any = source(reader=Keyed("sesame"))
    made.secret_options = ("password",)
    read = DataSourceRead(made, {"Password": "sesame", "url": "there"})
    opened = opened_source("numbers", read, store, "splits")
    loads: Any = cloudpickle.loads
    assert loads(opened.reader).password is None
    assert b"sesame" not in (store.get("splits") or b"")
    assert read.secrets == {"Password": "sesame"}


def test_a_reader_that_cannot_do_without_its_secrets_is_refused(store):
    made: Any = source(splits=[InputPartition(1)])
    made.secret_options = ("password",)
    with pytest.raises(PipelineMisuse, match=r"its reader has no method with_secrets\(options\)"):
        opened_source("numbers", DataSourceRead(made), store, "splits")
    assert store.get("splits") is None
