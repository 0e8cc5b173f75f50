"""Which tasks are slow: the numbers of FLIP-168, and the cases that Flink's detector is held to."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core import events as ev
from rekindle.core.job_graph import JobGraph
from rekindle.core.options import SlowTaskDetectorOptions, SpeculationOptions
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector
from tests.unit.core.dsl import Run, job, vertex_id


class Stage(Run):
    """A job whose tasks are all deployed at 0, with what a detector finds in it."""

    def __init__(self, graph: JobGraph) -> None:
        super().__init__(graph, speculation=SpeculationOptions(enabled=True))
        self.submit()
        for name in graph.order:
            self.deploy(name)

    def took(self, vertex: str, *seconds: float) -> "Stage":
        """The first subtasks of the vertex finished after so long, in this order."""
        for subtask, end in enumerate(seconds):
            self.ended(f"{vertex}[{subtask}]", end)
        return self

    def ended(self, what: str, at: float) -> None:
        (attempt,) = self.attempts(what)
        self.see(ev.AttemptFinished(attempt, at, ev.PartitionOutput(1, 1)))

    def slow_at(self, now: float, **options) -> list[str]:
        found = ExecutionTimeBasedSlowTaskDetector(SlowTaskDetectorOptions(**options)).find_slow(self.graph, now)
        return [str(attempt) for _, attempts, _ in found.slow for attempt in attempts]


@pytest.mark.requirement("S1-5", "S1-6", "S1-7", "S1-12", "S1-13", "S1-14", "S1-16")
class TestTheDefaults:
    """E-9."""

    def test_the_lower_bound_is_a_floor(self):
        stage = Stage(job("A*4")).took("A", 10, 20, 30)
        assert stage.slow_at(59.9) == []
        assert stage.slow_at(60.0) == ["A[3]#0"]

    def test_one_and_a_half_times_the_median(self):
        stage = Stage(job("A*4")).took("A", 100, 200, 300)
        assert stage.slow_at(299.9) == []
        assert stage.slow_at(300.0) == ["A[3]#0"]

    @pytest.mark.requirement("S1-11")
    def test_two_of_four_are_too_few(self):
        assert Stage(job("A*4")).took("A", 10, 20).slow_at(3600.0) == []


@pytest.mark.requirement("S1-12", "S1-23")
class TestTheSample:
    def test_who_finishes_later_does_not_move_the_baseline(self):
        """E-10: the sample is the first 6 of 8; the seventh took ten hours."""
        stage = Stage(job("A*8")).took("A", 100, 100, 100, 100, 100, 100)
        assert stage.slow_at(150.0) == ["A[6]#0", "A[7]#0"]
        stage.took("A", *[100] * 6, 36_000)
        assert stage.slow_at(149.9) == []
        assert stage.slow_at(150.0) == ["A[7]#0"]

    def test_the_first_to_finish_count_and_not_the_shortest(self):
        stage = Stage(job("A*4")).took("A", 200, 300)
        stage.now = 390.0
        stage.fails("A[2]")
        stage.deploy("A[2]")
        stage.now = 410.0
        stage.finish("A[2]")  # after 20 s, the shortest of all
        half = Fraction(1, 2)
        assert stage.slow_at(374.9, baseline_ratio=half) == []
        assert stage.slow_at(375.0, baseline_ratio=half) == ["A[3]#0"]

    def test_what_was_lost_and_is_made_again_does_not_count_meanwhile(self):
        stage = Stage(job("A*4")).took("A", 10, 100, 100)
        stage.now = 100.0
        stage.loses("A/0").restarts("A[0]")
        half = Fraction(1, 2)
        assert stage.slow_at(149.9, baseline_ratio=half) == []
        assert stage.slow_at(150.0, baseline_ratio=half) == ["A[3]#0"]

    @pytest.mark.requirement("S1-24")
    def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two(self):
        stage = Stage(job("A*8")).took("A", 100, 100, 100, 200, 300, 300)
        assert stage.slow_at(224.9) == []
        assert stage.slow_at(225.0) == ["A[6]#0", "A[7]#0"]

    @pytest.mark.requirement("S1-25")
    def test_a_vertex_with_copies_counts_once_and_with_the_attempt_that_finished(self):
        stage = Stage(job("A*4")).took("A", 10, 10)
        stage.now = 100.0
        stage.slow("A[2]#0")
        assert stage.slow_at(200.0) == []
        stage.now = 110.0
        stage.deploy("A[2]#1", node="n2")
        stage.now = 120.0
        stage.finish("A[2]#1")
        assert stage.slow_at(200.0) == ["A[3]#0"]


@pytest.mark.requirement("S1-22")
@pytest.mark.parametrize(
    ("parallelism", "ratio", "needed"),
    [
        (2, "0.75", None),
        (3, "0.75", None),
        (4, "0.75", 3),
        (5, "0.75", 4),
        (10, "0.75", 8),
        (3, "0.5", 2),
        (100, "0.55", 55),
        (100, "0.29", 29),
        (1, "0.1", None),
    ],
)
def test_how_many_must_have_finished(parallelism, ratio, needed):
    """None: all of them, and then there is nobody left to be slow."""
    stage = Stage(job(f"A*{parallelism}"))
    for finished in range(1, parallelism):
        stage.ended(f"A[{finished - 1}]", at=1.0)
        expected = needed is not None and finished >= needed
        assert bool(stage.slow_at(1e6, baseline_ratio=Fraction(ratio))) == expected, finished


@pytest.mark.requirement("S1-26")
class TestTheRatioZero:
    def test_the_baseline_is_the_lower_bound(self):
        stage = Stage(job("A*3"))
        assert stage.slow_at(4.9, baseline_ratio=0, baseline_lower_bound=5) == []
        assert len(stage.slow_at(5.0, baseline_ratio=0, baseline_lower_bound=5)) == 3

    @pytest.mark.requirement("S1-27", "S1-17")
    def test_with_no_lower_bound_either_all_that_runs_is_slow_and_nothing_that_waits(self):
        stage = Stage(job("A*3 => B"))
        assert len(stage.slow_at(0.0, baseline_ratio=0, baseline_lower_bound=0)) == 3
        waiting = Run(job("A*3")).submit()
        detector = ExecutionTimeBasedSlowTaskDetector(
            SlowTaskDetectorOptions(baseline_ratio=Fraction(0), baseline_lower_bound=0)
        )
        assert detector.find_slow(waiting.graph, 1e6).slow == ()


def test_nobody_is_slow_with_a_huge_lower_bound():
    assert Stage(job("A*4")).took("A", 1, 1, 1).slow_at(1e9, baseline_lower_bound=float("inf")) == []


def test_nobody_is_slow_with_a_huge_multiplier():
    assert Stage(job("A*4")).took("A", 10, 10, 10).slow_at(9e6, baseline_multiplier=1e6) == []


@pytest.mark.requirement("S1-10")
def test_each_job_vertex_has_its_own_baseline():
    stage = Stage(job("A*4", "B*4")).took("A", 10, 10, 10).took("B", 1000, 1000, 1000)
    assert stage.slow_at(70.0) == ["A[3]#0"]
    assert stage.slow_at(1500.0) == ["A[3]#0", "B[3]#0"]


@pytest.mark.requirement("S1-2", "S1-20", "S1-21")
class TestAttempts:
    def slow_stage(self) -> Stage:
        stage = Stage(job("A*4", A={"speculative": True})).took("A", 10, 10, 10)
        stage.now = 100.0
        stage.slow("A[3]#0")
        stage.deploy("A[3]#1", node="n2")
        return stage

    def test_a_copy_starts_at_zero_and_can_be_slow_in_its_turn(self):
        stage = self.slow_stage()
        assert stage.slow_at(159.9) == ["A[3]#0"]
        assert stage.slow_at(160.0) == ["A[3]#0", "A[3]#1"]

    def test_a_vertex_that_has_finished_is_not_reported(self):
        stage = Stage(job("A*8")).took("A", *[10.0] * 6)
        assert stage.slow_at(1e6) == ["A[6]#0", "A[7]#0"]
        stage.took("A", *[10.0] * 6, 1e5)
        assert stage.slow_at(1e6) == ["A[7]#0"]

    def test_a_loser_that_is_being_cancelled_is_not_reported(self):
        stage = self.slow_stage()
        stage.finish("A[3]#1")
        assert stage.states("A[3]") == ["CANCELING", "FINISHED"]
        assert stage.slow_at(1e6) == []

    def test_a_failed_attempt_is_not_reported(self):
        stage = self.slow_stage()
        stage.fails("A[3]#0")
        assert stage.slow_at(1e6) == ["A[3]#1"]


@pytest.mark.requirement("S1-3", "S1-19")
def test_a_look_changes_nothing():
    stage = Stage(job("A*4")).took("A", 10, 20, 30)
    before = stage.snapshot()
    stage.slow_at(1e6)
    assert stage.snapshot() == before


@pytest.mark.requirement("S1-29", "S2-40")
def test_an_empty_report_brings_the_gauge_back_to_zero():
    stage = Stage(job("A*4")).took("A", 10, 20, 30)
    detector = ExecutionTimeBasedSlowTaskDetector()
    stage.see(detector.find_slow(stage.graph, 60.0))
    assert stage.graph.metrics().num_slow_execution_vertices == 1
    stage.see(detector.find_slow(stage.graph, 59.0))
    assert stage.graph.metrics().num_slow_execution_vertices == 0


def test_the_evidence_says_what_was_compared():
    stage = Stage(job("A*4")).took("A", 100, 200, 300)
    (found,) = ExecutionTimeBasedSlowTaskDetector().find_slow(stage.graph, 412.0).slow
    assert found[0] == vertex_id("A[3]")
    assert found[2] == ("running for 412.0 s; slow from 300.0 s on (median of the first 3 to finish: 200.0 s)")


@pytest.mark.requirement("S1-11", "S1-12", "S1-13", "S1-14", "S1-22")
@given(
    times=st.lists(st.integers(1, 500), min_size=2, max_size=9),
    finished=st.integers(0, 8),
    ratio=st.fractions(0, Fraction(19, 20), max_denominator=20),
    bound=st.integers(0, 300),
    now=st.integers(0, 1000),
)
def test_the_rules_word_by_word(times, finished, ratio, bound, now):
    """Against the definition, computed in the plainest way."""
    finished = min(finished, len(times) - 1)
    stage = Stage(job(f"A*{len(times)}")).took("A", *times[:finished])
    needed = -(-len(times) * ratio.numerator // ratio.denominator)
    first = sorted(times[:finished])[:needed]
    middle = (first[(len(first) - 1) // 2] + first[len(first) // 2]) / 2 if first else 0
    slow = finished >= needed and now >= max(middle * 1.5, bound)
    expected = [f"A[{subtask}]#0" for subtask in range(finished, len(times))] if slow else []
    assert stage.slow_at(float(now), baseline_ratio=ratio, baseline_lower_bound=bound) == expected
