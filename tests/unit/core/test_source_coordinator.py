"""The coordinator of a source, on the scenarios that Flink's is tested with, and against a plain model of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rekindle.core.source_coordinator import (
    AddSplit,
    AssigningEnumerator,
    AttemptNotRunning,
    NoMoreSplits,
    ReaderRegistration,
    ReportedWatermark,
    RequestSplit,
    SourceCoordinator,
    SourceCoordinatorError,
    SourceEvent,
    SplitEnumeratorContext,
)
from rekindle.core.splits import InOrder, LocalFirst

HOST = "host"


class Recording:
    """An enumerator that does nothing by itself, and remembers what it was told."""

    def __init__(self, context: SplitEnumeratorContext[str]) -> None:
        self.context = context
        self.told: list[tuple[Any, ...]] = []

    def handle_split_request(self, subtask: int, host: str) -> None:
        self.told.append(("request", subtask, host))

    def add_splits_back(self, splits: Sequence[str], subtask: int) -> None:
        self.told.append(("back", tuple(splits), subtask))

    def add_reader(self, subtask: int) -> None:
        self.told.append(("reader", subtask))


class Source:
    """A coordinator with a recording enumerator, and short names for what happens."""

    def __init__(self, kind: type = Recording, *, concurrent: bool = True, **more: Any) -> None:
        self.enumerator: Any = None

        def make(context: SplitEnumeratorContext[str]) -> Any:
            self.enumerator = kind(context)
            return self.enumerator

        self.coordinator: SourceCoordinator[str] = SourceCoordinator(make, 4, concurrent_attempts=concurrent, **more)

    @property
    def context(self) -> SplitEnumeratorContext[str]:
        return self.enumerator.context

    def register(self, subtask: int, attempt: int, host: str = HOST) -> None:
        self.coordinator.execution_attempt_ready(subtask, attempt)
        self.coordinator.handle_event_from_operator(subtask, attempt, ReaderRegistration(host))

    def request(self, subtask: int, attempt: int, host: str = HOST) -> None:
        self.coordinator.handle_event_from_operator(subtask, attempt, RequestSplit(host))

    def told(self, subtask: int, attempt: int) -> list[object]:
        return [
            message.split
            if isinstance(message, AddSplit)
            else "no more"
            if isinstance(message, NoMoreSplits)
            else message
            for message in self.coordinator.inbox(subtask, attempt)
        ]


def fed_by(splits: Any, *, concurrent: bool = True) -> Source:
    source = Source(concurrent=concurrent)
    source.coordinator = SourceCoordinator(
        lambda context: AssigningEnumerator(context, splits), 4, concurrent_attempts=concurrent
    )
    return source


class TestConcurrentAttempts:
    @pytest.mark.requirement("S4-17", "S4-18", "S4-19", "S4-20", "S4-29")
    def test_request_splits(self):
        """Attempts 0 and 3 of a subtask, two splits, and attempt 5 that comes late."""
        source = fed_by(InOrder(["s0", "s1"]))
        source.register(0, 0)
        source.request(0, 0)
        source.register(0, 3)
        assert (source.told(0, 0), source.told(0, 3)) == (["s0"], ["s0"])
        source.request(0, 3)
        assert (source.told(0, 0), source.told(0, 3)) == (["s0", "s1"], ["s0", "s1"])
        source.request(0, 0)
        assert (source.told(0, 0), source.told(0, 3)) == (["s0", "s1", "no more"], ["s0", "s1", "no more"])
        source.register(0, 5)
        assert source.told(0, 5) == ["s0", "s1", "no more"]

    @pytest.mark.requirement("S4-25")
    def test_reader_info_of_attempts(self):
        source = Source()
        for subtask, attempt in [(0, 0), (0, 2), (1, 1)]:
            source.register(subtask, attempt, f"host-{attempt}")
        source.coordinator.execution_attempt_ready(2, 0)  # and has not registered
        readers = source.context.registered_readers_of_attempts()
        assert {subtask: {a: info.host for a, info in of.items()} for subtask, of in readers.items()} == {
            0: {0: "host-0", 2: "host-2"},
            1: {1: "host-1"},
        }
        source.coordinator.execution_attempt_failed(0, 0)
        assert set(source.context.registered_readers_of_attempts()[0]) == {2}

    @pytest.mark.requirement("S4-26")
    def test_of_several_readers_the_earliest_that_runs_is_shown(self):
        source = Source()
        source.register(0, 5, "late")
        source.register(0, 3, "early")
        assert source.context.registered_readers()[0].host == "early"
        source.coordinator.execution_attempt_failed(0, 3)
        assert source.context.registered_readers()[0].host == "late"

    @pytest.mark.requirement("S4-10", "S4-23", "S4-22")
    def test_events_of_an_attempt_go_to_an_enumerator_that_tells_attempts_apart(self):
        class Telling(Recording):
            def handle_attempt_source_event(self, subtask: int, attempt: int, event: object) -> None:
                self.told.append((subtask, attempt, event))

        source = Source(Telling)
        source.register(1, 7)
        source.coordinator.handle_event_from_operator(1, 7, SourceEvent("hello"))
        assert source.enumerator.told[-1] == (1, 7, "hello")

    @pytest.mark.requirement("S4-23", "S4-32")
    def test_events_are_refused_where_the_enumerator_knows_no_attempts(self):
        class Old(Recording):
            def handle_source_event(self, subtask: int, event: object) -> None:
                self.told.append((subtask, event))

        source = Source(Old)
        source.register(1, 0)
        with pytest.raises(SourceCoordinatorError, match="Old has no method handle_attempt_source_event"):
            source.coordinator.handle_event_from_operator(1, 0, SourceEvent("hello"))
        alone = Source(Old, concurrent=False)
        alone.register(1, 0)
        alone.coordinator.handle_event_from_operator(1, 0, SourceEvent("hello"))
        assert alone.enumerator.told[-1] == (1, "hello")

    @pytest.mark.requirement("S4-24", "S4-27")
    def test_an_event_that_names_no_attempt_is_refused(self):
        source = Source()
        source.register(1, 0)
        with pytest.raises(SourceCoordinatorError, match="subtask 1 may have several attempts"):
            source.context.send_event_to_source_reader(1, "hello")
        alone = Source(concurrent=False)
        alone.register(1, 0)
        alone.context.send_event_to_source_reader(1, "hello")
        assert alone.told(1, 0) == [SourceEvent("hello")]

    @pytest.mark.requirement("S4-21")
    def test_a_watermark_is_refused(self):
        source = Source()
        source.register(0, 0)
        with pytest.raises(SourceCoordinatorError, match="only bounded sources"):
            source.coordinator.handle_event_from_operator(0, 0, ReportedWatermark(7))

    @pytest.mark.requirement("S4-14", "S4-28")
    def test_what_is_sent_goes_to_that_attempt_alone_and_to_none_that_does_not_run(self):
        source = Source()
        source.register(0, 0)
        source.register(0, 1)
        source.context.send_event_to_source_reader(0, "to 1", attempt=1)
        assert (source.told(0, 0), source.told(0, 1)) == ([], [SourceEvent("to 1")])
        source.coordinator.execution_attempt_failed(0, 1)
        with pytest.raises(AttemptNotRunning, match="attempt 1 of subtask 0"):
            source.context.send_event_to_source_reader(0, "too late", attempt=1)
        with pytest.raises(AttemptNotRunning):
            source.request(0, 1)

    @pytest.mark.requirement("S4-13", "S4-14")
    def test_an_attempt_can_be_sent_something_from_when_it_is_ready(self):
        source = Source()
        with pytest.raises(AttemptNotRunning):
            source.context.send_event_to_source_reader(0, "too soon", attempt=2)
        source.coordinator.execution_attempt_ready(0, 2)
        source.context.send_event_to_source_reader(0, "hello", attempt=2)
        assert source.told(0, 2) == [SourceEvent("hello")]

    @pytest.mark.requirement("S4-12", "S4-30")
    def test_of_an_attempt_that_failed_only_its_own_is_forgotten(self):
        source = fed_by(InOrder(["a", "b"]))
        source.register(0, 0)
        source.register(0, 1)
        source.request(0, 0)
        source.coordinator.execution_attempt_failed(0, 0, "it was cancelled")
        assert source.told(0, 1) == ["a"]
        source.register(1, 0)
        source.request(1, 0)
        assert source.told(1, 0) == ["b"], "what the subtask has was not given to another"

    @pytest.mark.requirement("S4-15", "S4-31")
    def test_a_reset_gives_splits_back(self):
        source = Source()
        source.register(0, 0)
        source.register(0, 1)
        source.context.assign_splits({0: ["a", "b"]})
        source.coordinator.execution_attempt_failed(0, 0)
        source.coordinator.execution_attempt_failed(0, 1)
        assert ("back", ("a", "b"), 0) not in source.enumerator.told
        source.coordinator.subtask_reset(0)
        assert source.enumerator.told[-1] == ("back", ("a", "b"), 0)
        source.register(0, 2)
        assert source.told(0, 2) == []

    @pytest.mark.requirement("S4-31")
    def test_what_is_settled_stays(self):
        source = fed_by(InOrder(["a", "b"]))
        source.register(0, 0)
        source.request(0, 0)
        with pytest.raises(SourceCoordinatorError, match="subtask 0 may get more splits"):
            source.coordinator.settle(0)
        source.coordinator.signal_no_more_splits(0)
        source.coordinator.settle(0)
        source.coordinator.subtask_reset(0)
        source.register(0, 1)
        assert source.told(0, 1) == ["a", "no more"]

    @pytest.mark.requirement("S4-4")
    def test_what_was_settled_before_is_read_again_and_nothing_is_assigned_beside_it(self):
        source = Source(settled={1: ["b", "a"]})
        source.register(1, 0)
        source.register(2, 0)
        source.context.assign_splits({2: ["c"], 1: []})
        assert (source.told(1, 0), source.told(2, 0)) == (["b", "a", "no more"], ["c"])
        assert source.enumerator.told == [("reader", 2)], "of subtask 1 there is nothing to decide"
        assert source.context.settled_subtasks() == {1}
        with pytest.raises(SourceCoordinatorError, match="subtask 1 gets no more splits and is assigned some"):
            source.context.assign_splits({1: ["d"]})

    def test_an_enumerator_that_assigns_when_it_is_made_cannot_put_splits_before_settled_ones(self):
        class Eager(Recording):
            def __init__(self, context: SplitEnumeratorContext[str]) -> None:
                super().__init__(context)
                context.assign_splits({0: ["x"], 1: ["y"]})

        with pytest.raises(SourceCoordinatorError, match="subtask 1 gets no more"):
            Source(Eager, settled={1: ["b"]})

    def test_the_first_reader_is_told_once_each_time_its_subtask_begins(self):
        source = Source()
        source.register(0, 0)
        source.coordinator.execution_attempt_failed(0, 0)
        source.register(0, 1)
        assert source.enumerator.told == [("reader", 0)]
        source.coordinator.execution_attempt_failed(0, 1)
        source.coordinator.subtask_reset(0)
        source.register(0, 2)
        assert source.enumerator.told == [("reader", 0), ("reader", 0)]

    def test_what_cannot_be_sent_is_refused_before_anything_is_recorded(self):
        def admit(message: object) -> None:
            if message in (AddSplit("bad"), SourceEvent("bad")):
                raise SourceCoordinatorError("it is bad")

        source = Source(admit=admit)
        source.register(0, 0)
        for call in (
            lambda: source.context.assign_splits({0: ["good", "bad"]}),
            lambda: source.context.send_event_to_source_reader(0, "bad", attempt=0),
        ):
            with pytest.raises(SourceCoordinatorError, match="it is bad"):
                call()
        assert source.told(0, 0) == []

    @pytest.mark.requirement("S4-33")
    def test_where_there_may_be_one_attempt_a_second_is_refused(self):
        source = Source(concurrent=False)
        source.register(0, 0)
        source.register(0, 0)
        with pytest.raises(SourceCoordinatorError, match="one at a time"):
            source.coordinator.execution_attempt_ready(0, 1)
        source.coordinator.execution_attempt_failed(0, 0)
        source.register(0, 1)

    def test_to_ask_twice_gives_one_split_and_to_come_back_gives_the_same(self):
        source = Source()
        source.register(0, 0)
        source.request(0, 0)
        source.request(0, 0)
        assert source.enumerator.told == [("reader", 0), ("request", 0, HOST)]
        source.context.assign_splits({0: ["a"]})
        source.register(0, 0)
        assert source.told(0, 0) == ["a"]
        source.request(0, 0)
        assert source.enumerator.told[2:] == [("request", 0, HOST)]
        source.context.signal_no_more_splits(0)
        source.request(0, 0)
        assert len(source.enumerator.told) == 3, "who gets no more need not be asked about"

    def test_a_subtask_that_is_not_there_is_refused(self):
        source = Source()
        for call in (
            lambda: source.coordinator.execution_attempt_ready(4, 0),
            lambda: source.context.assign_splits({-1: ["a"]}),
            lambda: source.context.signal_no_more_splits(4),
        ):
            with pytest.raises(SourceCoordinatorError, match="the source has 4"):
                call()


@pytest.mark.requirement("S4-5", "S4-6", "S4-7", "S4-8", "S4-9")
class TestFedByAnAssigner:
    def test_a_copy_replays_then_asks_for_more_which_the_first_gets_too(self):
        """E-16: the original has read s1 and s2; the copy gets those and then s3, which is the original's next."""
        source = fed_by(InOrder(["s1", "s2", "s3"]))
        source.register(0, 0)
        source.request(0, 0)
        source.request(0, 0)
        source.register(0, 1)
        assert source.told(0, 1) == ["s1", "s2"]
        source.request(0, 1)
        assert (source.told(0, 0)[2:], source.told(0, 1)[2:]) == (["s3"], ["s3"])

    def test_a_host_matters_for_new_splits_only(self):
        source = fed_by(LocalFirst({"a": ["n1"], "b": ["n2"], "c": ["n1"]}))
        source.register(0, 0, "n1")
        source.request(0, 0, "n1")
        source.register(0, 1, "n2")
        assert source.told(0, 1) == ["a"], "the one that was read, wherever it is"
        source.request(0, 1, "n2")
        assert source.told(0, 0) == ["a", "b"]


SPLITS = [f"s{number}" for number in range(6)]


class Machine(RuleBasedStateMachine):
    """Attempts come, ask, fail and finish at random. The model knows only what each subtask was seen to read."""

    def __init__(self) -> None:
        super().__init__()
        self.source = fed_by(InOrder(SPLITS))
        self.running: dict[tuple[int, int], list[object]] = {}
        self.numbers = 0
        self.settled: dict[int, list[object]] = {}

    subtasks = st.integers(0, 3)

    @rule(subtask=subtasks)
    def start(self, subtask: int) -> None:
        self.numbers += 1
        self.source.register(subtask, self.numbers)
        self.running[subtask, self.numbers] = []

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def read(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.source.request(*key) if self.source.told(*key) == self.running[key] else None
        self.running[key] = self.source.told(*key)[: len(self.running[key]) + 1]
        if self.running[key][-1] == "no more":
            self.source.coordinator.settle(key[0])
            assert self.settled.setdefault(key[0], self.running[key]) == self.running[key]

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[key]
        self.source.coordinator.execution_attempt_failed(*key)

    @rule(subtask=subtasks)
    def reset(self, subtask: int) -> None:
        if not any(of == subtask for of, _ in self.running):
            self.source.coordinator.subtask_reset(subtask)

    @invariant()
    def attempts_of_a_subtask_read_the_same(self) -> None:
        for (subtask, _), seen in self.running.items():
            for (other, _), theirs in self.running.items():
                if subtask == other:
                    shorter, longer = sorted((seen, theirs), key=len)
                    assert longer[: len(shorter)] == shorter

    @invariant()
    def no_split_is_read_by_two_subtasks(self) -> None:
        owners: dict[object, set[int]] = {}
        for subtask, seen in [*((key[0], seen) for key, seen in self.running.items()), *self.settled.items()]:
            for split in seen:
                if split != "no more":
                    owners.setdefault(split, set()).add(subtask)
        assert all(len(of) == 1 for of in owners.values()), owners

    def teardown(self) -> None:
        """In the end everything is read once, whatever went before."""
        for subtask in range(4):
            self.start(subtask)
            key = (subtask, self.numbers)
            for _ in range(len(SPLITS) + 1):
                if "no more" not in self.source.told(*key):
                    self.source.request(*key)
            assert self.settled.setdefault(subtask, self.source.told(*key)) == self.source.told(*key)
        assert sorted(str(one) for seen in self.settled.values() for one in seen if one != "no more") == SPLITS


TestRandomly = Machine.TestCase
TestRandomly.pytestmark = [pytest.mark.requirement("S4-4", "S4-6", "S4-30", "S4-31")]  # type: ignore[attr-defined]
