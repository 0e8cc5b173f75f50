"""Readers ask the driver for splits over a real connection; what they are told the journal knows first."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.ranges import runs_of, subtasks_of
from rekindle.core.source_coordinator import SourceCoordinatorError
from rekindle.core.splits import InOrder
from rekindle.pipeline import FileSink, Pipeline, SourceSplit, SplitEnumeratorContext
from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime import split_endpoint
from rekindle.runtime.errors import EnvironmentProblem, PipelineFailed, PipelineMisuse
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.sources import Listening, Settled, SettledSubtask, SourceReads, listening
from rekindle.runtime.split_reader import FINISHED, SplitClient, SplitsRefused
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

    def __init__(
        self,
        folder: Path,
        settled: Settled | None = None,
        source: type[DataSource] = Letters,
        *,
        patience: float = 60.0,
        may_copy: bool = True,
    ) -> None:
        self.store = Store.at(folder).prepare()
        self.journal: list[SettledSubtask] = []
        self.failure: PipelineFailed | None = None
        self.wake, self.writes, self.over = threading.Event(), threading.Event(), threading.Event()
        self.writes.set()
        self.reads = SourceReads(
            {"letters": "first"},
            self.store,
            RunLayout(1),
            settled or {},
            Listening("127.0.0.1", 0, "127.0.0.1", patience),
            lambda stage: may_copy,
            self.wake.set,
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

    def client(self, subtask: int, generation: int = 1, task: int | None = None) -> SplitClient:
        return SplitClient(self.spec, subtask, generation, task=subtask if task is None else task)

    def letters(self, numbers: Any) -> str:
        from pyspark import cloudpickle

        return "".join(cloudpickle.loads(data).value for _, data in numbers)

    def settled(self) -> Settled:
        found: dict[tuple[str, str], dict[int, list[int]]] = {}
        for one in self.journal:
            found.setdefault((one.stage, one.source), {})[one.subtask] = list(subtasks_of(runs_of(one.splits)))
        return found


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    asked.clear()
    driver = Driver(tmp_path / "store")
    yield driver
    driver.close()


@pytest.mark.requirement("S4-4", "S4-16", "S4-18")
def test_a_copy_reads_what_the_first_attempt_has_read_and_others_read_the_rest(driver):
    first, other, copy = driver.client(0).splits(), driver.client(1).splits(), driver.client(0)
    begun = [next(first), next(other), next(first)]
    assert driver.letters(begun) == "abc"
    assert driver.letters(copy.splits()) == "acd"
    assert driver.letters([*begun[::2], *first]) == "acd"
    assert driver.letters([begun[1], *other]) == "b"


@pytest.mark.requirement("S4-4")
def test_no_reader_is_told_the_end_before_the_journal_knows_what_it_has_read(driver):
    driver.writes.clear()
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(driver.letters(driver.client(0).splits())), daemon=True)
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
    assert driver.letters([next(driver.client(1).splits())]) == "a"
    assert driver.letters(driver.client(0).splits()) == "bcd"
    second = Driver(tmp_path / "store", driver.settled())
    try:
        assert asked == ["once"]
        assert second.letters(second.client(1).splits()) == "a", "it was read by half, and is not settled"
        assert second.letters(second.client(0).splits()) == "bcd"
    finally:
        second.close()


def test_what_became_of_the_splits_is_counted(driver):
    """A copy of one subtask, an end of another, and a version that begins anew."""
    first, copy, other = driver.client(0).splits(), driver.client(0).splits(), driver.client(1).splits()
    next(first), next(first), next(copy), next(other)
    counts = driver.reads.counts()["letters"]
    assert (counts.splits, counts.assigned, counts.finished, counts.reread) == (4, 3, 1, 1)
    assert (counts.readers, counts.no_more_splits, counts.returned) == (3, 0, 0)
    assert (counts.most.subtask, counts.most.splits, counts.fewest.subtask, counts.fewest.splits) == (0, 2, 1, 1)
    assert [(one.reread, one.returned) for one in driver.reads.read()] == [(1, 0)]
    assert list(driver.reads.read()) == []
    list(driver.client(0, generation=2).splits()), list(other)
    counts = driver.reads.counts()["letters"]
    assert (counts.assigned, counts.finished, counts.no_more_splits, counts.returned) == (4, 4, 2, 2)
    assert [(one.reread, one.returned) for one in driver.reads.read()] == [(2, 2)]


def test_an_enumerator_that_does_not_come_back_keeps_nobody_from_counting(driver):
    list(driver.client(0).splits())
    assert driver.reads.counts()["letters"].finished == 4
    source = driver.reads._sources["letters"]
    with source.lock:
        source.progress.finished = 0
        counted: list[int] = []
        master = threading.Thread(target=lambda: counted.append(driver.reads.counts()["letters"].finished))
        master.start()
        master.join(10.0)
        assert counted == [4]


@pytest.mark.requirement("S4-15", "S4-31")
def test_a_newer_version_of_a_subtask_begins_anew_and_the_older_gets_nothing_more(driver):
    old = driver.client(0, generation=1).splits()
    next(old), next(old)
    new, other = driver.client(0, generation=2).splits(), driver.client(1).splits()
    assert driver.letters([next(new)]) == "a", "they went back, and are handed out first"
    assert driver.letters(other) == "bcd"
    with pytest.raises(SplitsRefused, match="superseded"):
        next(old)
    with pytest.raises(SplitsRefused, match="superseded"):
        next(driver.client(0, generation=1).splits())


def test_what_readers_take_for_their_splits_is_known_by_attempt(driver):
    """Subtask 0 reads two splits and ends, 1 holds its second; the task of a third stands for no attempt."""
    attempts = {1: ExecutionAttemptID(ExecutionVertexID("letters", 1), 0)}
    first, second, stranger = driver.client(0), driver.client(1), driver.client(1, task=99)
    other, third = second.splits(), stranger.splits()
    begun = [next(other), next(third)]
    rest = first.splits()
    begun += [next(rest), next(rest), next(other)]
    assert list(rest) == []
    first.close(FINISHED)
    deadline = time.monotonic() + 10
    while 0 not in driver.reads.times(attempts.get)["letters"].finished:
        assert time.monotonic() < deadline, "its end was not heard"
        time.sleep(0.01)
    times = driver.reads.times(attempts.get)["letters"]
    assert {subtask: len(one.taken) for subtask, one in times.finished.items()} == {0: 2}
    (running,) = times.running.items()
    assert running[0] == attempts[1]
    assert len(running[1].taken) == 1
    assert running[1].current is not None
    second.close("done"), stranger.close("done")


def test_a_reader_that_is_cut_off_asks_again_and_misses_nothing(driver, monkeypatch):
    client = driver.client(0)
    splits = client.splits()
    seen = [next(splits)]
    client._connection.shutdown(socket.SHUT_RDWR)
    seen += [next(splits)]
    client._hang_up()
    assert driver.letters([*seen, *splits]) == "abcd"


def test_a_reader_may_take_its_time(driver, monkeypatch):
    for name in ("_HELLO_SECONDS", "_SEND_SECONDS", "_AWAY_SECONDS"):
        monkeypatch.setattr(split_endpoint, name, 0.2)
    splits = driver.client(0).splits()
    seen = [next(splits)]
    time.sleep(1.0)
    assert driver.letters([*seen, *splits]) == "abcd"


def test_a_driver_that_is_gone_is_said_after_a_time(driver):
    client = driver.client(0)
    client._patience = 0.3
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
        next(driver.client(0).splits())
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
            "task": 7,
            "id": "7",
            "host": "x",
        }
        return json.dumps({**said, **other}).encode() + b"\n"

    def test_one_that_is_known_is_welcome(self, driver):
        assert self.say(driver, self.hello(driver)) == b'{"ok": true}\n'

    @pytest.mark.parametrize(
        "other", [{"token": "guess"}, {"token": None}, {"subtask": "x"}, {"generation": None}, {"task": "x"}], ids=str
    )
    def test_without_the_token_or_a_number_nothing_is_said(self, driver, other):
        assert self.say(driver, self.hello(driver, **other), b'{"next": 0}\n') == b""
        assert driver.letters(driver.client(0).splits()) == "abcd"

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
        assert driver.letters(driver.client(0).splits()) == "abcd"

    @pytest.mark.parametrize("position", [-5, 10**9])
    def test_a_place_that_is_not_there(self, driver, position):
        asked = json.dumps({"next": position}).encode() + b"\n"
        said = self.say(driver, self.hello(driver), asked)
        assert said.startswith(b'{"ok": true}\n')
        assert driver.letters(driver.client(0).splits()) == "abcd"

    def test_more_than_there_may_be_are_turned_away_until_others_have_gone(self, driver, monkeypatch):
        monkeypatch.setattr(split_endpoint, "_MOST_CONNECTIONS", 1)
        client = driver.client(0)
        splits = client.splits()
        next(splits)
        assert self.say(driver, self.hello(driver)) == b""
        client.close("finished")
        assert driver.letters(driver.client(0).splits()) == "abcd"


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


class Counting(Letters):
    """Its reader knows how often a source was asked, and reads that way."""

    def reader(self, schema: Any) -> DataSourceReader:
        return CountingReader()


class CountingReader(LettersReader):
    def __init__(self) -> None:
        self.made_at = len(asked)

    def partitions(self) -> list[InputPartition]:
        asked.append("once")
        return [InputPartition(str(number + self.made_at)) for number in range(4)]


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

    def make(source: type[DataSource], settled: Settled | None = None, **options: Any) -> Driver:
        drivers.append(Driver(tmp_path / "store", settled, source, **options))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


@pytest.mark.requirement("S4-5")
def test_a_source_may_hand_out_its_splits_in_an_order_of_its_own(made):
    driver = made(Backwards)
    assert driver.letters(driver.client(0).splits()) == "dcba"


@pytest.mark.requirement("S4-22", "S4-23", "S4-24")
def test_a_source_may_decide_who_reads_what_and_talk_with_its_readers(made):
    driver = made(ByVowel)
    client, copy, said = driver.client(0), driver.client(0), list[Any]()
    client.send("hello")
    assert driver.letters(client.splits(said.append)) == "a"
    assert driver.letters(copy.splits()) == "a"
    assert driver.letters(driver.client(1).splits()) == "bcd"
    assert (ByVowel.made[-1].heard, said) == ([(0, 0, "hello")], [{"heard": "hello"}])


def test_an_event_that_is_sent_again_is_heard_once(made):
    driver = made(ByVowel)
    client = driver.client(0)
    client.send("one")
    client._hang_up()
    client._events = 0  # its answer was lost
    client.send("one")
    client.send("two")
    assert [event for _, _, event in ByVowel.made[-1].heard] == ["one", "two"]


def test_an_event_for_a_reader_that_knows_none_is_an_error(made):
    driver = made(ByVowel)
    client = driver.client(0)
    client.send("hello")
    with pytest.raises(TypeError, match="no method handle_source_event"):
        list(client.splits())


@pytest.mark.requirement("S4-11", "S4-23")
def test_an_event_for_an_enumerator_that_knows_none_fails_the_job(made):
    driver = made(Letters)
    with pytest.raises(SplitsRefused):
        driver.client(0).send("hello")
    driver.thread.join(10)
    assert "AssigningEnumerator has no method handle_attempt_source_event" in str(driver.failure)


def test_an_enumerator_that_leaves_splits_out_fails_the_job(made):
    driver = made(Forgetful)
    driver.letters(driver.client(0).splits())
    with pytest.raises(SplitsRefused):
        list(driver.client(1).splits())
    driver.thread.join(10)
    assert "of 4 splits the enumerator has assigned [3] to nobody" in str(driver.failure)


def test_an_enumerator_under_the_next_driver_has_what_is_left(made):
    driver = made(ByVowel)
    assert driver.letters(driver.client(1).splits()) == "bcd"
    driver.close()
    second = made(ByVowel, driver.settled())
    assert [split.partition.value for split in ByVowel.made[-1].splits] == ["a"]
    assert second.letters(second.client(1).splits()) == "bcd"
    assert second.letters(second.client(0).splits()) == "a"


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({}, Listening("127.0.0.1", 0, "127.0.0.1", 120.0)),
        ({"spark.driver.host": "driver.jobs.svc"}, Listening("driver.jobs.svc", 0, "driver.jobs.svc", 120.0)),
        (
            {
                "spark.driver.host": "driver.jobs.svc",
                "spark.driver.bindAddress": "10.0.0.7",
                "spark.rekindle.driver.splitsPort": "7099",
            },
            Listening("10.0.0.7", 7099, "driver.jobs.svc", 120.0),
        ),
    ],
)
def test_the_driver_listens_where_spark_does(conf, found):
    assert listening(conf, 60.0) == found
    assert listening(conf, 600.0).patience == 1200.0


@pytest.mark.parametrize("port", ["x", "-1", "65536", ""])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(PipelineMisuse, match="is no port"):
        listening({"spark.rekindle.driver.splitsPort": port}, 60.0)


def test_a_port_that_is_taken_is_told_with_the_remedy(driver, tmp_path):
    taken = Listening("127.0.0.1", driver.spec.address[1], "127.0.0.1")
    reads = SourceReads(
        {"letters": "first"}, driver.store, RunLayout(1), {}, taken, lambda stage: True, threading.Event().set
    )
    with pytest.raises(EnvironmentProblem, match=r"(?s)cannot listen on 127.*splitsPort"):
        reads.spec(letters_graph().stage("letters"))


def test_a_plan_that_is_made_when_the_run_is_over_opens_no_port(driver):
    driver.close()
    with pytest.raises(EnvironmentProblem, match="the run is over"):
        driver.reads.spec(letters_graph().stage("letters"))


@pytest.mark.requirement("S4-33", "S4-35", "S5-10")
def test_where_nobody_may_read_beside_another_a_copy_waits_until_the_first_has_ended(made, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_WAIT_SECONDS", 0.2)
    driver = made(Letters, may_copy=False)
    first, copy = driver.client(0), driver.client(0)
    reading = first.splits()
    next(reading)
    seen: list[str] = []
    waiting = threading.Thread(target=lambda: seen.append(driver.letters(copy.splits())), daemon=True)
    waiting.start()
    waiting.join(1.0)
    assert waiting.is_alive()
    first.close("it was killed")
    waiting.join(10.0)
    assert seen == ["abcd"]


@pytest.mark.requirement("S4-12", "S4-30")
def test_a_reader_that_is_gone_without_a_word_is_given_up_after_a_time(made, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_AWAY_SECONDS", 0.2)
    driver = made(Letters, may_copy=False)
    killed = driver.client(0)
    reading = killed.splits()
    next(reading)
    killed._hang_up()  # as the kernel does it for a process that was killed
    assert driver.letters(driver.client(0).splits()) == "abcd"
    with pytest.raises(SplitsRefused, match="given up"):
        next(reading)


@pytest.mark.requirement("S4-4")
def test_the_next_driver_reads_with_the_first_ones_reader(made):
    """A split is the number of a letter in what the reader had looked up."""
    driver = made(Counting)
    assert driver.letters(driver.client(1).splits()) == "0123"
    (reader,) = {driver.spec.reader}
    driver.close()
    assert made(Counting).spec.reader == reader


def test_an_enumerator_that_blocks_keeps_neither_the_job_master_nor_the_end_of_the_run(made, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_START_SECONDS", 0.5)
    blocked, goes_on = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        blocked.set()
        goes_on.wait(30)

    monkeypatch.setattr(InOrder, "next_input_split", block)
    driver = made(Letters)
    reader = threading.Thread(target=lambda: next(driver.client(0).splits(), None), daemon=True)
    reader.start()
    assert blocked.wait(10)
    assert [one.stage for one in driver.reads.opened()] == ["letters"]
    assert list(driver.reads.to_settle()) == []
    assert driver.reads.times({}.get) == {}, "they are not known while it blocks"
    driver.close()
    goes_on.set()


@pytest.mark.parametrize(
    ("assigned", "said"),
    [
        (lambda split: split.partition, "which is none of the splits that it was given"),
        (lambda split: SourceSplit(99), "which is none of the splits that it was given"),
        (lambda split: SourceSplit(-1), "which is none of the splits that it was given"),
    ],
)
def test_an_enumerator_that_assigns_what_is_no_split_fails_the_job(made, monkeypatch, assigned, said):
    original = InOrder.next_input_split
    monkeypatch.setattr(InOrder, "next_input_split", lambda self, *at: assigned(original(self, *at)))
    driver = made(Backwards)
    with pytest.raises(SplitsRefused, match="the enumerator of letters has failed"):
        next(driver.client(0).splits())
    driver.thread.join(10)
    assert said in str(driver.failure)


@pytest.mark.parametrize(("event", "said"), [({1, 2}, "not JSON serializable"), ("x" * 60_000, "60000 bytes")])
def test_an_enumerator_that_sends_what_no_reader_can_be_told_fails_the_job(made, monkeypatch, event, said):
    def send(self: Told, subtask: int, attempt: int, _: object) -> None:
        self.context.send_event_to_source_reader(subtask, event, attempt=attempt)

    monkeypatch.setattr(Told, "handle_attempt_source_event", send)
    driver = made(ByVowel)
    with pytest.raises(SplitsRefused):
        driver.client(0).send("hello")
    driver.thread.join(10)
    assert said in str(driver.failure)


def test_an_enumerator_that_sends_to_an_attempt_that_is_gone_fails_the_job(made, monkeypatch):
    def send(self: Told, subtask: int, attempt: int, event: object) -> None:
        self.heard.append((subtask, attempt, event))
        self.context.send_event_to_source_reader(subtask, "hello", attempt=99)

    monkeypatch.setattr(Told, "handle_attempt_source_event", send)
    driver = made(ByVowel)
    with pytest.raises(SplitsRefused):
        driver.client(0).send("hello")
    driver.thread.join(10)
    assert "attempt 99 of subtask 0 does not run" in str(driver.failure)
    assert len(ByVowel.made[-1].heard) == 1


def test_an_incomplete_assignment_is_found_by_the_next_driver_too(made):
    lost = {("letters", "first"): {0: [0, 1, 2], 1: []}}
    with pytest.raises(SourceCoordinatorError, match=r"assigned \[3\] to nobody"):
        made(Letters, lost)


def test_a_source_that_hangs_keeps_no_run_from_ending(driver):
    """Its planning thread is left behind, as that of any stage is."""
    asked_for, goes_on = threading.Event(), threading.Event()

    class Hanging(Letters):
        def reader(self, schema: Any) -> DataSourceReader:
            asked_for.set()
            goes_on.wait(30)
            return LettersReader()

    reads = SourceReads(
        {"letters": "other"},
        driver.store,
        RunLayout(1),
        {},
        Listening("127.0.0.1", 0, "127.0.0.1"),
        lambda stage: True,
        threading.Event().set,
    )

    def plan() -> None:
        with pytest.raises(EnvironmentProblem, match="the run is over"):
            reads.spec(letters_graph(Hanging).stage("letters"))

    planning = threading.Thread(target=plan, daemon=True)
    planning.start()
    assert asked_for.wait(10)
    reads.close()
    assert planning.is_alive()
    goes_on.set()
    planning.join(10)


@pytest.mark.requirement("S4-33", "S4-35")
def test_a_newer_version_waits_too_where_nobody_may_read_beside_another(made, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_WAIT_SECONDS", 0.2)
    driver = made(Letters, may_copy=False)
    old, new = driver.client(0, generation=1), driver.client(0, generation=2)
    reading = old.splits()
    next(reading)
    seen: list[str] = []
    waiting = threading.Thread(target=lambda: seen.append(driver.letters(new.splits())), daemon=True)
    waiting.start()
    waiting.join(1.0)
    assert waiting.is_alive()
    with pytest.raises(SplitsRefused, match="superseded"):
        next(reading)
    waiting.join(10.0)
    assert seen == ["abcd"], "what the old one had went back"


def test_an_event_of_a_reader_that_waits_for_its_place_is_heard_when_it_has_it(made, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_WAIT_SECONDS", 0.2)
    driver = made(ByVowel, may_copy=False)
    first, second = driver.client(0), driver.client(0)
    first.send("one")
    sending = threading.Thread(target=lambda: second.send("two"), daemon=True)
    sending.start()
    sending.join(1.0)
    assert sending.is_alive()
    assert [event for _, _, event in ByVowel.made[-1].heard] == ["one"]
    first.close("finished")
    sending.join(10.0)
    assert [event for _, _, event in ByVowel.made[-1].heard] == ["one", "two"]


def test_a_reader_that_was_cut_off_for_long_goes_on_where_nobody_needs_its_place(driver, monkeypatch):
    monkeypatch.setattr(split_endpoint, "_AWAY_SECONDS", 0.0)
    client = driver.client(0)
    splits = client.splits()
    seen = [next(splits)]
    client._hang_up()
    time.sleep(0.3)
    copy = driver.letters(driver.client(0).splits())
    assert driver.letters([*seen, *splits]) == copy == "abcd"
