"""Readers ask the driver for splits over a real connection; what they are told the journal knows first."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rekindle.core.ranges import expanded, runs_of
from rekindle.core.splits import InOrder
from rekindle.pipeline import FileSink, Pipeline, SourceSplit, SplitEnumeratorContext
from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime import split_endpoint, split_reader
from rekindle.runtime.errors import EnvironmentProblem, PipelineFailed, PipelineMisuse
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.sources import Settled, SettledSubtask, SourceReads, listens_on
from rekindle.runtime.split_reader import SplitClient, SplitsRefused
from rekindle.runtime.store import Store

asked: list[str] = []
"""A word for each time that a source was asked for its splits."""


class Letters(DataSource):
    """Splits that are named in another order each time."""

    @classmethod
    def name(cls) -> str:
        return "letters"

    def schema(self) -> StructType:
        return StructType().add("letter", "string")

    def reader(self, schema: Any) -> DataSourceReader:
        return LettersReader()


class LettersReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        asked.append("once")
        return [InputPartition(letter) for letter in ("abcd" if len(asked) % 2 else "dcba")]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (partition.value,)


def letters_graph(source: type[DataSource] = Letters) -> PipelineGraph:
    pipeline = Pipeline("letters")
    pipeline.read("letters", source, partitions=2)

    @pipeline.sink(FileSink("/out"))
    def out(letters: Any) -> Any:
        return letters

    return pipeline.build()


class Driver:
    """The reads of a driver, with a thread that takes what is to be settled into a journal while `writes` is set."""

    def __init__(self, folder: Path, settled: Settled | None = None, source: type[DataSource] = Letters) -> None:
        self.store = Store.at(folder).prepare()
        self.journal: list[SettledSubtask] = []
        self.failure: PipelineFailed | None = None
        self.wake, self.writes, self.over = threading.Event(), threading.Event(), threading.Event()
        self.writes.set()
        self.reads = SourceReads(
            {"letters": "f" * 64}, self.store, RunLayout(1), settled or {}, ("127.0.0.1", 0), "127.0.0.1", self.wake.set
        )
        self.thread = threading.Thread(target=self.master, daemon=True)
        self.thread.start()
        self.spec, _ = self.reads.spec(letters_graph(source).stage("letters"))

    def master(self) -> None:
        """What the job master does when it is woken."""
        while not self.over.is_set():
            self.wake.wait(0.05)
            self.wake.clear()
            if not self.writes.is_set():
                continue
            try:
                found = list(self.reads.to_settle())
            except PipelineFailed as failure:
                self.failure = failure
                return
            self.journal += found
            self.reads.settled(found)

    def close(self) -> None:
        self.over.set()
        self.reads.close()
        self.thread.join(10)

    def client(self, subtask: int, attempt: int, generation: int = 1) -> SplitClient:
        return SplitClient(self.spec, subtask, generation, attempt)

    def letters(self, numbers: Any) -> str:
        from pyspark import cloudpickle

        return "".join(cloudpickle.loads(data).value for _, data in numbers)

    def settled(self) -> Settled:
        found: dict[tuple[str, str], dict[int, list[int]]] = {}
        for one in self.journal:
            found.setdefault((one.stage, one.source), {})[one.subtask] = expanded(runs_of(one.splits))
        return found


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    asked.clear()
    driver = Driver(tmp_path / "store")
    yield driver
    driver.close()


@pytest.mark.requirement("S4-4", "S4-16", "S4-18")
def test_a_copy_reads_what_the_first_attempt_has_read_and_others_read_the_rest(driver):
    first, other, copy = driver.client(0, 1).splits(), driver.client(1, 2).splits(), driver.client(0, 3)
    begun = [next(first), next(other), next(first)]
    assert driver.letters(begun) == "abc"
    assert driver.letters(copy.splits()) == "acd"
    assert driver.letters([*begun[::2], *first]) == "acd"
    assert driver.letters([begun[1], *other]) == "b"


@pytest.mark.requirement("S4-4")
def test_no_reader_is_told_the_end_before_the_journal_knows_what_it_has_read(driver):
    driver.writes.clear()
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(driver.letters(driver.client(0, 1).splits())), daemon=True)
    reader.start()
    reader.join(1.0)
    assert reader.is_alive()
    assert seen == []
    driver.writes.set()
    reader.join(10.0)
    assert seen == ["abcd"]
    assert [(one.subtask, one.splits) for one in driver.journal] == [(0, (0, 1, 2, 3))]


@pytest.mark.requirement("S4-4")
def test_the_next_driver_hands_out_what_is_left_and_the_same_to_whom_it_is_settled(driver, tmp_path):
    assert driver.letters([next(driver.client(1, 5).splits())]) == "a"
    assert driver.letters(driver.client(0, 1).splits()) == "bcd"
    second = Driver(tmp_path / "store", driver.settled())
    try:
        assert asked == ["once"]
        assert second.letters(second.client(1, 1).splits()) == "a", "it was read by half, and is not settled"
        assert second.letters(second.client(0, 2).splits()) == "bcd"
    finally:
        second.close()


@pytest.mark.requirement("S4-15", "S4-31")
def test_a_newer_version_of_a_subtask_begins_anew_and_the_older_gets_nothing_more(driver):
    old = driver.client(0, 1, generation=1).splits()
    next(old), next(old)
    new, other = driver.client(0, 2, generation=2).splits(), driver.client(1, 3).splits()
    assert driver.letters([next(new)]) == "a", "they went back, and are handed out first"
    assert driver.letters(other) == "bcd"
    with pytest.raises(SplitsRefused, match="superseded"):
        next(old)
    with pytest.raises(SplitsRefused, match="superseded"):
        next(driver.client(0, 4, generation=1).splits())


def test_a_reader_that_is_cut_off_asks_again_and_misses_nothing(driver, monkeypatch):
    client = driver.client(0, 1)
    splits = client.splits()
    seen = [next(splits)]
    client._connection.shutdown(socket.SHUT_RDWR)
    seen += [next(splits)]
    client._hang_up()
    assert driver.letters([*seen, *splits]) == "abcd"


def test_a_driver_that_is_gone_is_said_after_a_time(driver, monkeypatch):
    monkeypatch.setattr(split_reader, "_PATIENCE_SECONDS", 0.3)
    client = driver.client(0, 1)
    splits = client.splits()
    next(splits)
    driver.reads.close()
    with pytest.raises(ConnectionError, match=r"the driver does not answer on 127\.0\.0\.1:\d+"):
        next(splits)


@pytest.mark.requirement("S4-11")
def test_an_enumerator_that_raises_fails_the_job(driver, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("no more luck")

    monkeypatch.setattr(InOrder, "next_input_split", broken)
    with pytest.raises(SplitsRefused, match="the enumerator of letters has failed"):
        next(driver.client(0, 1).splits())
    driver.thread.join(10)
    assert "no more luck" in str(driver.failure)


class TestStrangers:
    """Whoever may reach the port need not be a reader."""

    def say(self, driver: Driver, *lines: bytes) -> bytes:
        """What the endpoint answers before it hangs up."""
        with socket.create_connection(driver.spec.address, 10) as connection:
            try:
                for line in lines:
                    connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: connection.recv(4096), b""))
            except OSError:
                return b""

    def hello(self, driver: Driver, **other: object) -> bytes:
        said = {
            "token": driver.spec.token,
            "stage": "letters",
            "subtask": 0,
            "generation": 1,
            "attempt": 7,
            "host": "x",
        }
        return json.dumps({**said, **other}).encode() + b"\n"

    def test_one_that_is_known_is_welcome(self, driver):
        assert self.say(driver, self.hello(driver)) == b'{"ok": true}\n'

    @pytest.mark.parametrize(
        "other", [{"token": "guess"}, {"token": None}, {"subtask": "x"}, {"attempt": None}], ids=str
    )
    def test_without_the_token_or_a_number_nothing_is_said(self, driver, other):
        assert self.say(driver, self.hello(driver, **other), b'{"next": 0}\n') == b""
        assert driver.letters(driver.client(0, 1).splits()) == "abcd"

    @pytest.mark.parametrize("other", [{"subtask": 2}, {"subtask": -1}, {"stage": "numbers"}], ids=str)
    def test_of_what_is_not_there_there_is_nothing(self, driver, other):
        assert b"there is no subtask" in self.say(driver, self.hello(driver, **other))

    @pytest.mark.parametrize(
        "junk",
        [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"x" * 200_000, b'{"next": []}\n', b'{"next": "1e9"}\n', b"{}\n"],
    )
    @pytest.mark.parametrize("known", [False, True])
    def test_junk_changes_nothing(self, driver, junk, known):
        said = self.say(driver, *([self.hello(driver)] if known else []), junk)
        assert said in (b"", b'{"ok": true}\n')
        assert driver.letters(driver.client(0, 1).splits()) == "abcd"

    @pytest.mark.parametrize("position", [-5, 10**9])
    def test_a_place_that_is_not_there(self, driver, position):
        asked = json.dumps({"next": position}).encode() + b"\n"
        said = self.say(driver, self.hello(driver), asked)
        assert said.startswith(b'{"ok": true}\n')
        assert driver.letters(driver.client(0, 1).splits()) == "abcd"

    def test_more_than_there_may_be_are_turned_away_until_others_have_gone(self, driver, monkeypatch):
        monkeypatch.setattr(split_endpoint, "_MOST_CONNECTIONS", 1)
        client = driver.client(0, 1)
        splits = client.splits()
        next(splits)
        assert self.say(driver, self.hello(driver)) == b""
        client.close("finished")
        assert driver.letters(driver.client(0, 2).splits()) == "abcd"


class Told:
    """An enumerator that gives vowels to subtask 0 and the rest to subtask 1, and answers what readers say."""

    def __init__(self, context: SplitEnumeratorContext[SourceSplit], splits: Sequence[SourceSplit]) -> None:
        self.context, self.splits = context, splits
        self.heard: list[tuple[int, int, Any]] = []

    def is_vowel(self, split: SourceSplit) -> bool:
        return split.partition.value in "aeiou"

    def add_reader(self, subtask: int) -> None:
        mine = [split for split in self.splits if self.is_vowel(split) == (subtask == 0)]
        self.splits = [split for split in self.splits if split not in mine]
        self.context.assign_splits({subtask: mine})

    def handle_split_request(self, subtask: int, host: str) -> None:
        self.context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[SourceSplit], subtask: int) -> None:
        self.splits = [*splits, *self.splits]

    def handle_attempt_source_event(self, subtask: int, attempt: int, event: Any) -> None:
        self.heard.append((subtask, attempt, event))
        self.context.send_event_to_source_reader(subtask, {"heard": event}, attempt=attempt)


class ByVowel(Letters):
    made: ClassVar[list[Told]] = []

    def split_enumerator(self, context: SplitEnumeratorContext[SourceSplit], splits: Sequence[SourceSplit]) -> Told:
        ByVowel.made.append(Told(context, splits))
        return ByVowel.made[-1]


class Backwards(Letters):
    def split_assigner(self, splits: Sequence[SourceSplit]) -> InOrder[SourceSplit]:
        return InOrder(sorted(splits, key=lambda split: str(split.partition.value), reverse=True))


class Forgetful(Letters):
    def split_assigner(self, splits: Sequence[SourceSplit]) -> InOrder[SourceSplit]:
        return InOrder(splits[:-1])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    asked.clear()
    drivers: list[Driver] = []

    def make(source: type[DataSource], settled: Settled | None = None) -> Driver:
        drivers.append(Driver(tmp_path / "store", settled, source))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


@pytest.mark.requirement("S4-5")
def test_a_source_may_hand_out_its_splits_in_an_order_of_its_own(made):
    driver = made(Backwards)
    assert driver.letters(driver.client(0, 1).splits()) == "dcba"


@pytest.mark.requirement("S4-22", "S4-23", "S4-24")
def test_a_source_may_decide_who_reads_what_and_talk_with_its_readers(made):
    driver = made(ByVowel)
    client, copy, said = driver.client(0, 1), driver.client(0, 2), list[Any]()
    client.send("hello")
    assert driver.letters(client.splits(said.append)) == "a"
    assert driver.letters(copy.splits()) == "a"
    assert driver.letters(driver.client(1, 3).splits()) == "bcd"
    assert (ByVowel.made[-1].heard, said) == ([(0, 1, "hello")], [{"heard": "hello"}])


def test_an_event_that_is_sent_again_is_heard_once(made):
    driver = made(ByVowel)
    client = driver.client(0, 1)
    client.send("one")
    client._hang_up()
    client._events = 0  # its answer was lost
    client.send("one")
    client.send("two")
    assert [event for _, _, event in ByVowel.made[-1].heard] == ["one", "two"]


def test_an_event_for_a_reader_that_knows_none_is_an_error(made):
    driver = made(ByVowel)
    client = driver.client(0, 1)
    client.send("hello")
    with pytest.raises(TypeError, match="no method handle_source_event"):
        list(client.splits())


@pytest.mark.requirement("S4-11", "S4-23")
def test_an_event_for_an_enumerator_that_knows_none_fails_the_job(made):
    driver = made(Letters)
    with pytest.raises(SplitsRefused):
        driver.client(0, 1).send("hello")
    driver.thread.join(10)
    assert "AssigningEnumerator has no method handle_attempt_source_event" in str(driver.failure)


def test_an_enumerator_that_leaves_splits_out_fails_the_job(made):
    driver = made(Forgetful)
    driver.letters(driver.client(0, 1).splits())
    with pytest.raises(SplitsRefused):
        list(driver.client(1, 2).splits())
    driver.thread.join(10)
    assert "of 4 splits the enumerator has assigned [3] to nobody" in str(driver.failure)


def test_an_enumerator_under_the_next_driver_has_what_is_left(made):
    driver = made(ByVowel)
    assert driver.letters(driver.client(1, 1).splits()) == "bcd"
    driver.close()
    second = made(ByVowel, driver.settled())
    assert [split.partition.value for split in ByVowel.made[-1].splits] == ["a"]
    assert second.letters(second.client(1, 7).splits()) == "bcd"
    assert second.letters(second.client(0, 8).splits()) == "a"


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({}, (("127.0.0.1", 0), "127.0.0.1")),
        ({"spark.driver.host": "driver.jobs.svc"}, (("driver.jobs.svc", 0), "driver.jobs.svc")),
        (
            {
                "spark.driver.host": "driver.jobs.svc",
                "spark.driver.bindAddress": "10.0.0.7",
                "spark.rekindle.driver.splitsPort": "7099",
            },
            (("10.0.0.7", 7099), "driver.jobs.svc"),
        ),
    ],
)
def test_the_driver_listens_where_spark_does(conf, found):
    assert listens_on(conf) == found


@pytest.mark.parametrize("port", ["x", "-1", "65536", ""])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(PipelineMisuse, match="is no port"):
        listens_on({"spark.rekindle.driver.splitsPort": port})


def test_a_port_that_is_taken_is_told_with_the_remedy(driver, tmp_path):
    reads = SourceReads(
        {"letters": "f" * 64},
        driver.store,
        RunLayout(1),
        {},
        driver.spec.address,
        "127.0.0.1",
        threading.Event().set,
    )
    with pytest.raises(EnvironmentProblem, match=r"(?s)cannot listen on 127.*splitsPort"):
        reads.spec(letters_graph().stage("letters"))
