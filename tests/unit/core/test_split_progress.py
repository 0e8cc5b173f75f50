"""What is counted of the splits of a source, as its readers take them."""

from __future__ import annotations

import pytest

from rekindle.core.slow_readers import SplitsRead
from rekindle.core.source_coordinator import AssigningEnumerator, ReaderRegistration, RequestSplit, SourceCoordinator
from rekindle.core.split_progress import SplitCounts, SplitProgress, SubtaskSplits
from rekindle.core.splits import InOrder


class Reading:
    """Three subtasks of a source of six splits, and who reads them; `settled` as of the drivers before."""

    def __init__(self, settled: dict[int, list[int]] | None = None) -> None:
        taken = [split for splits in (settled or {}).values() for split in splits]
        left = [split for split in range(6) if split not in taken]
        self.coordinator: SourceCoordinator[int] = SourceCoordinator(
            lambda context: AssigningEnumerator(context, InOrder(left)),
            3,
            concurrent_attempts=True,
            settled=settled or {},
        )
        self.progress = SplitProgress(6, taken)

    def begin(self, subtask: int, attempt: int) -> Reading:
        self.coordinator.execution_attempt_ready(subtask, attempt)
        self.coordinator.handle_event_from_operator(subtask, attempt, ReaderRegistration("host"))
        return self

    def ask(self, subtask: int, attempt: int, position: int) -> Reading:
        """It has read what is before that, and is told what is there."""
        self.progress.asks(attempt, position, 0.0)
        inbox = self.coordinator.inbox(subtask, attempt)
        if position >= len(inbox):
            self.coordinator.handle_event_from_operator(subtask, attempt, RequestSplit("host"))
        self.progress.told(attempt, position, getattr(inbox[position], "split", None), 0.0)
        return self

    @property
    def counts(self) -> SplitCounts:
        return self.progress.counts(self.coordinator)

    @property
    def how(self) -> tuple[int, int, int, int]:
        """Assigned, finished, read again, given back."""
        counts = self.counts
        return counts.assigned, counts.finished, counts.reread, counts.returned


def test_a_split_is_finished_when_its_reader_asks_for_what_comes_after_it():
    one = Reading().begin(0, 7).ask(0, 7, 0)
    assert one.how == (1, 0, 0, 0)
    one.ask(0, 7, 1)
    assert one.how == (2, 1, 0, 0)


def test_one_that_is_told_the_same_again_has_not_read_it_and_reads_nothing_twice():
    one = Reading().begin(0, 7).ask(0, 7, 0).ask(0, 7, 0).ask(0, 7, 1).ask(0, 7, 1)
    assert one.how == (2, 1, 0, 0)


def test_what_a_copy_reads_is_read_again_and_finished_once():
    one = Reading().begin(0, 7).begin(0, 8).ask(0, 7, 0).ask(0, 7, 1).ask(0, 8, 0).ask(0, 8, 1)
    assert one.how == (2, 1, 2, 0)
    one.ask(0, 8, 2)
    assert one.how == (3, 2, 2, 0), "the third it reads first"
    assert one.counts.readers == 2


def test_an_attempt_that_failed_has_not_finished_what_it_read():
    one = Reading().begin(0, 7).ask(0, 7, 0)
    one.progress.ended(7)
    one.begin(0, 8).ask(0, 8, 0)
    assert one.how == (1, 0, 1, 0)


def test_what_goes_back_is_not_finished_and_whoever_gets_it_reads_it_again():
    one = Reading().begin(0, 7).ask(0, 7, 0).ask(0, 7, 1)
    splits = one.coordinator.tracker.splits(0)
    one.coordinator.subtask_reset(0)
    one.progress.gave_back(splits)
    assert one.how == (0, 0, 0, 2)
    one.begin(1, 8).ask(1, 8, 0).ask(1, 8, 1)
    assert one.how == (2, 1, 2, 2)


def test_what_earlier_drivers_have_settled_is_finished_and_read_again_by_whoever_makes_it_again():
    one = Reading({2: [4, 1]})
    assert one.how == (2, 2, 0, 0)
    assert (one.counts.no_more_splits, one.counts.subtasks, one.counts.splits) == (1, 3, 6)
    one.begin(2, 9).ask(2, 9, 0)
    assert one.how == (2, 2, 1, 0)


def test_who_has_most_and_fewest():
    one = Reading().begin(1, 7).begin(2, 8)
    for position in range(3):
        one.ask(1, 7, position)
    one.ask(2, 8, 0)
    assert (one.counts.most, one.counts.fewest) == (SubtaskSplits(1, 3), SubtaskSplits(0, 0))


def test_all_subtasks_are_told_of_the_end():
    one = Reading()
    for attempt, subtask in enumerate(range(3)):
        one.begin(subtask, attempt)
    for position in range(7):
        one.ask(0, 0, position)
    assert (one.counts.finished, one.counts.no_more_splits) == (6, 1)
    one.ask(1, 1, 0).ask(2, 2, 0)
    assert one.counts.no_more_splits == 3


class TestTimes:
    """How long attempts take for their splits, by the clock that the caller has."""

    @pytest.fixture
    def one(self) -> SplitProgress:
        """Attempt 40 of subtask 0 has read one split in 2 s, and reads another since 3 s."""
        one = SplitProgress(1000)
        one.asks(40, 0, 1.0)
        one.told(40, 0, 0, 1.0)
        one.asks(40, 1, 3.0)
        one.told(40, 1, 1, 3.0)
        return one

    def test_a_split_takes_from_when_it_is_handed_out_until_the_next_is_asked_for(self, one):
        assert one.running_times(7.5) == {40: SplitsRead((2.0,), 4.5, 2.0)}

    def test_who_waits_for_a_split_reads_none(self, one):
        one.asks(40, 2, 6.0)
        assert one.running_times(9.0) == {40: SplitsRead((2.0, 3.0), None, 2.0)}

    def test_who_has_asked_and_was_told_nothing_yet_is_known(self, one):
        one.asks(41, 0, 5.0)
        assert one.running_times(9.0)[41] == SplitsRead(())
        one.told(41, 0, 2, 8.0)
        assert one.running_times(9.0)[41] == SplitsRead((), 1.0, 3.0)

    def test_a_reader_that_was_cut_off_and_asks_again_has_not_read_the_split(self, one):
        one.asks(40, 1, 4.0)
        one.told(40, 1, 1, 4.0)
        assert one.running_times(7.5) == {40: SplitsRead((2.0,), 4.5, 2.0)}

    def test_only_who_has_read_all_is_a_measure_for_others(self, one):
        one.asks(40, 2, 6.0)
        one.told(40, 2, None, 6.5)
        one.ended(40, 0)
        one.asks(41, 0, 1.0)
        one.told(41, 0, 2, 1.0)
        one.ended(41)
        assert (one.finished_times(), one.running_times(9.0)) == ({0: SplitsRead((2.0, 3.0), None, 5.5)}, {})

    def test_of_many_splits_the_last_are_kept(self):
        one = SplitProgress(1000)
        for number in range(1000):
            one.asks(40, number, float(number * number))
            one.told(40, number, number, float(number * number))
        ((taken),) = (read.taken for read in one.running_times(0.0).values())
        assert len(taken) == 101
        assert taken[-1] == 999.0**2 - 998.0**2

    def test_a_reader_that_never_asked_may_end(self):
        one = SplitProgress(1000)
        one.ended(40, 0)
        assert one.finished_times() == {}
