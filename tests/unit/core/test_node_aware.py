"""The detector that finds sick nodes: in drawn cases by the hundred, and rule by rule."""

from __future__ import annotations

import random
from collections import Counter
from statistics import NormalDist, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import detection
from rekindle.core import events as ev
from rekindle.core.node_aware import NodeAwareSlowTaskDetector, Ranking, Sample, student
from rekindle.core.options import NodeAwareOptions, SpeculationOptions
from tests.unit.core.dsl import Run, job

CASES = range(40)
DETECTOR = NodeAwareSlowTaskDetector()


@pytest.mark.requirement("S1-9")
@pytest.mark.parametrize("kind", [kind for kind in detection.SICK if kind != "bytes are not known"])
def test_sick_nodes_are_found(kind):
    found = detection.score(detection.SICK[kind], DETECTOR, CASES)
    assert found.recall is not None
    assert found.recall > 0.8
    assert found.precision == 1.0


@pytest.mark.parametrize("kind", detection.WELL)
def test_where_all_nodes_are_well_there_are_hardly_any_false_alarms(kind):
    found = detection.score(detection.WELL[kind], DETECTOR, CASES)
    assert found.sick == 0
    assert found.false_alarms <= 0.05


def test_it_finds_a_node_with_a_third_of_the_tasks_before_the_detector_of_flip_168_can():
    kind = detection.SICK["a third of the tasks on it"]
    earlier = 0
    for seed in CASES:
        case = kind(random.Random(seed))
        ours, theirs = (detection.look(case, one) for one in detection.DETECTORS.values())
        ((node, _),) = ours.sick.items()
        earlier += ours.called.get(node, float("inf")) < theirs.called.get(node, float("inf"))
    assert earlier > 0.7 * len(CASES)


class Stage(Run):
    """Attempts with a node, a start, an end and bytes to read, by hand."""

    def __init__(self, graph: str) -> None:
        super().__init__(job(graph), speculation=SpeculationOptions(enabled=True))
        self.submit()
        self._next: Counter[str] = Counter()

    def ran(
        self, node: str, start: float, end: float | None = None, reads: int | None = 100, vertex: str = "A"
    ) -> Stage:
        (attempt,) = self.attempts(f"{vertex}[{self._next[vertex]}]")
        self._next[vertex] += 1
        self.see(ev.AttemptDeployed(attempt, node, start, reads))
        if end is not None:
            self.see(ev.AttemptFinished(attempt, end, ev.PartitionOutput(1, 1)))
        return self

    def slow_at(self, now: float, **options) -> dict[str, str]:
        """[slow attempt -> evidence]"""
        found = NodeAwareSlowTaskDetector(NodeAwareOptions(**options)).find_slow(self.graph, now)
        return {str(attempt): why for _, attempts, why in found.slow for attempt in attempts}


def third(*reads: int | None) -> Stage:
    """Four tasks elsewhere took 20 s; two on n0 have run since the start. All read 100 bytes, or so many."""
    stage, sizes = Stage("A*6"), iter(reads or [100] * 6)
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 0.0, 20.0, next(sizes))
    return stage.ran("n0", 0.0, reads=next(sizes)).ran("n0", 0.0, reads=next(sizes))


def test_all_that_runs_there_is_slow_and_the_evidence_is_told_in_words():
    slow = third().slow_at(100.0)
    assert set(slow) == {"A[4]#0", "A[5]#0"}
    (why,) = set(slow.values())
    assert why.startswith("n0 is slow: 2 of its attempts at A take 5.0 times as long per byte as 4 elsewhere; ")


@pytest.mark.parametrize(
    "reads",
    [(None,) * 6, (100, None, 100, 100, None, 100), (None, None, None, None, 100, 100), (0, 0, 0, 0, 0, 0)],
    ids=["of none", "of most", "of the slow ones only", "there is nothing to read"],
)
def test_it_is_found_although_bytes_are_not_known(reads):
    assert set(third(*reads).slow_at(300.0)) == {"A[4]#0", "A[5]#0"}


def test_it_waits_until_chance_is_no_explanation():
    assert third().slow_at(40.0) == {}
    assert third().slow_at(100.0, tolerated_factor=6.0) == {}
    assert third().slow_at(60.0) == {}
    assert third().slow_at(60.0, false_alarm_rate=0.5) != {}


def test_more_bytes_may_take_longer():
    stage = Stage("A*6")
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 0.0, 20.0)
    stage.ran("n0", 0.0, reads=500).ran("n0", 0.0, reads=500)
    assert stage.slow_at(100.0) == {}
    assert stage.slow_at(500.0) != {}


def test_nothing_is_said_before_anything_has_finished_elsewhere():
    stage = Stage("A*3").ran("n0", 0.0).ran("n1", 90.0).ran("n2", 90.0)
    assert stage.slow_at(1000.0) == {}


def test_no_attempt_is_evidence_that_runs_and_has_run_for_less_than_the_lower_bound():
    stage = Stage("A*6")
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 0.0, 1.0)
    stage.ran("n0", 0.0).ran("n0", 0.0)
    assert stage.slow_at(9.9) == {}
    assert stage.slow_at(10.0) != {}
    assert stage.slow_at(9.9, lower_bound=9.0) != {}


@pytest.mark.parametrize(("cold_start", "now", "slow"), [(0.0, 150.0, True), (60.0, 150.0, False), (60.0, 240.0, True)])
def test_a_nodes_first_attempt_gets_an_allowance_where_there_are_no_first_ones_elsewhere(cold_start, now, slow):
    stage = Stage("Z*2 => A*5")
    stage.ran("n1", 0.0, 20.0, vertex="Z").ran("n2", 0.0, 20.0, vertex="Z")
    for start in (20.0, 40.0):
        stage.ran("n1", start, start + 20.0).ran("n2", start, start + 20.0)
    stage.ran("n0", 40.0)
    assert bool(stage.slow_at(now, cold_start=cold_start)) is slow


def test_first_attempts_are_compared_with_each_other():
    stage = Stage("A*9")
    stage.ran("n1", 0.0, 100.0).ran("n2", 0.0, 100.0)
    for start in (100.0, 105.0, 110.0):
        stage.ran("n1", start, start + 5.0).ran("n2", start, start + 5.0)
    stage.ran("n0", 50.0)
    assert stage.slow_at(150.0, cold_start=0.0) == {}  # a hundred seconds, as the first ones elsewhere


def test_a_node_that_was_well_and_hangs_is_found_by_what_runs_now():
    stage = Stage("A*12")
    for start in (0.0, 20.0, 40.0):
        for node in ("n0", "n1", "n2"):
            stage.ran(node, start, start + 20.0)
    for node in ("n1", "n2"):
        stage.ran(node, 60.0, 80.0)
    stage.ran("n0", 60.0)
    assert stage.slow_at(100.0) == {}
    assert set(stage.slow_at(400.0)) == {"A[11]#0"}


def test_the_margin_is_students():
    """Against the normal distribution, which it becomes, and two lines of a printed table."""
    assert student(0.025, 1e9) == pytest.approx(NormalDist().inv_cdf(0.975))
    assert student(0.025, 20) == pytest.approx(2.086, abs=0.002)
    assert student(0.0005, 10) == pytest.approx(4.587, abs=0.1)


@given(
    st.lists(
        st.builds(
            Sample,
            node=st.sampled_from("abc"),
            seconds=st.just(1.0),
            work=st.just(1.0),
            distance=st.integers(-4, 4).map(float),
            running=st.booleans(),
            cold=st.just(False),
        )
    )
)
def test_medians_without_a_node_are_those_of_a_list_without_it(samples):
    ranking = Ranking.of(samples)
    for node in "abcd":
        elsewhere = [one for one in samples if one.node != node]
        finished = [one.distance for one in elsewhere if not one.running]
        assert ranking.finished_without(node) == len(finished)
        expected = None
        if finished:
            longer = [one.distance for one in elsewhere if one.running and one.distance > median(finished)]
            expected = median([*finished, *longer])
        assert ranking.median_without(node) == expected
        assert Counter(ranking.of_node(node)) == Counter(one for one in samples if one.node == node)
