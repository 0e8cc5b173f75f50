"""Readers that are handed splits: who takes much longer for one than those that have finished did."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.options import SlowTaskDetectorOptions, SpeculationOptions
from rekindle.core.slow_readers import AnyDetector, SourceTimes, SplitsRead, SplitTimeBasedSlowTaskDetector
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector
from tests.unit.core.dsl import Run, job

BOUND = 10.0


class Source(Run):
    """Four subtasks of a source, all deployed at 0, of which the first three finish after 20 s."""

    def __init__(self, *, finished: int = 3) -> None:
        super().__init__(job("A*4"), speculation=SpeculationOptions(enabled=True))
        self.submit()
        self.deploy("A")
        for subtask in range(finished):
            (attempt,) = self.attempts(f"A[{subtask}]")
            self.see(ev.AttemptFinished(attempt, 20.0, ev.PartitionOutput(1, 1)))
        self.last = self.attempts("A[3]")[0]

    def times(self, read: SplitsRead, took: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Mapping[str, SourceTimes]:
        """Each of the finished took so long for its splits, the last subtask reads as said."""
        return {"A": SourceTimes({subtask: SplitsRead(took) for subtask in range(4)}, {self.last: read})}

    def slow_by(self, times: Mapping[str, SourceTimes], at: float = 20.5) -> list[ExecutionAttemptID]:
        return [attempt for _, attempts, _ in self.found(times, at).slow for attempt in attempts]

    def found(self, times: Mapping[str, SourceTimes], at: float = 20.5) -> ev.SlowTasksFound:
        options = SlowTaskDetectorOptions(baseline_lower_bound=BOUND)
        return SplitTimeBasedSlowTaskDetector(options, lambda: times).find_slow(self.graph, at)


@pytest.mark.requirement("S1-9", "S1-14")
class TestSlowBeforeItsFirstSplit:
    """Those that have finished ran for 20 s each, and took 5, 6 and 4 of them for their splits."""

    SPANS = (5.0, 6.0, 4.0)

    def times(self, running: Mapping[ExecutionAttemptID, SplitsRead], **ended: SplitsRead) -> Mapping[str, SourceTimes]:
        took = {subtask: SplitsRead((span,), span=span) for subtask, span in enumerate(self.SPANS)}
        return {"A": SourceTimes({**took, **{int(name[1:]): one for name, one in ended.items()}}, running)}

    def test_one_and_a_half_times_who_ran_longest_without_a_split(self):
        source = Source()
        assert source.slow_by(self.times({}), at=23.9) == []
        ((_, attempts, why),) = source.found(self.times({}), at=24.0).slow
        assert attempts == (source.last,)
        assert why == (
            "running for 24.0 s without a split; slow from 24.0 s on (the longest of 3 that have finished: 16.0 s)"
        )

    def test_who_has_asked_for_one_waits(self):
        source = Source()
        assert source.slow_by(self.times({source.last: SplitsRead(())}), at=60.0) == []

    def test_one_whose_sibling_has_read_it_all_is_left_alone(self):
        source = Source()
        assert source.slow_by(self.times({}, A3=SplitsRead((1.0,), span=1.0)), at=60.0) == []


@pytest.mark.requirement("S1-9", "S1-14")
class TestSlowByItsSplits:
    def test_one_and_a_half_times_the_median_of_those_that_have_finished(self):
        source = Source()
        assert source.slow_by(source.times(SplitsRead((1.4,), 1.5))) == []
        assert source.slow_by(source.times(SplitsRead((1.5,), 1.6))) == [source.last]

    def test_one_long_split_is_nobodys_fault(self):
        source = Source()
        assert source.slow_by(source.times(SplitsRead((1.0, 1.0), 60.0))) == []
        assert source.slow_by(source.times(SplitsRead((1.0, 30.0), 60.0))) == [source.last]

    def test_half_of_its_splits_must_be_slow(self):
        """Two splits, of which one is long: the shorter counts."""
        source = Source()
        assert source.slow_by(source.times(SplitsRead((1.0,), 60.0))) == []

    def test_who_has_read_none_counts_against_the_longest(self):
        source = Source()
        took = (1.0, 1.0, 20.0)
        assert source.slow_by(source.times(SplitsRead((), 29.9), took), at=31.0) == []
        assert source.slow_by(source.times(SplitsRead((), 30.0), took), at=31.0) == [source.last]

    def test_who_waits_for_a_split_is_not_slow(self):
        source = Source()
        assert source.slow_by(source.times(SplitsRead((9.0, 9.0), None))) == []

    def test_the_reason_names_both_times(self):
        source = Source()
        ((_, _, why),) = source.found(source.times(SplitsRead((8.0,), 9.0))).slow
        assert why == (
            "a split takes 8.0 s; slow from 1.5 s on (the median of 9 splits of those that have finished: 1.0 s)"
        )


class TestWhenNobodyIsSlow:
    SLOW = SplitsRead((9.0,), 9.0)

    @pytest.mark.requirement("S1-11")
    def test_before_enough_have_finished(self):
        source = Source(finished=2)
        assert source.slow_by(source.times(self.SLOW)) == []

    @pytest.mark.requirement("S1-13")
    def test_before_the_lower_bound(self):
        source = Source()
        assert source.slow_by(source.times(self.SLOW), at=BOUND - 0.1) == []
        assert source.slow_by(source.times(self.SLOW), at=BOUND) == [source.last]

    def test_where_nothing_is_known_of_those_that_have_finished(self):
        source = Source()
        assert source.slow_by({"A": SourceTimes({}, {source.last: self.SLOW})}) == []

    def test_where_the_job_vertex_reads_no_splits(self):
        source = Source()
        assert source.slow_by({}) == []

    def test_when_its_attempt_has_ended(self):
        source = Source()
        source.see(ev.AttemptCanceled(source.last))
        assert source.slow_by(source.times(self.SLOW)) == []

    def test_subtasks_that_run_again_are_no_measure(self):
        """Their times stay known to the endpoint; those that count have finished."""
        source = Source()
        times = {"A": SourceTimes({3: SplitsRead((1.0,))}, {source.last: self.SLOW})}
        assert source.slow_by(times) == []


def test_two_detectors_find_a_task_once_with_the_reason_of_the_first():
    source = Source()
    options = SlowTaskDetectorOptions(baseline_lower_bound=BOUND)
    by_time = ExecutionTimeBasedSlowTaskDetector(options)
    by_split = SplitTimeBasedSlowTaskDetector(options, lambda: source.times(SplitsRead((8.0,), 9.0)))
    both = AnyDetector((by_time, by_split))
    (early,) = both.find_slow(source.graph, 20.5).slow
    assert early[1] == (source.last,)
    assert "split" in early[2]
    (late,) = both.find_slow(source.graph, 30.0).slow
    assert late[1] == (source.last,)
    assert "running for 30.0 s" in late[2]
