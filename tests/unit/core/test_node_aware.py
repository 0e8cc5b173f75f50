"""The detector that finds sick nodes: in drawn cases by the hundred, and rule by rule."""

from __future__ import annotations

import math
import random
from collections import Counter
from statistics import NormalDist, median
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks import detection
from rekindle.core import events as ev
from rekindle.core import node_aware
from rekindle.core.node_aware import Comparison, NodeAwareSlowTaskDetector, Ranking, Sample, student
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

    def __init__(self, *chains: str) -> None:
        super().__init__(job(*chains), speculation=SpeculationOptions(enabled=True))
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
    ("reads", "unit"),
    [
        ((100,) * 4 + (None,) * 2, "per byte"),
        ((100,) * 3 + (None,) * 3, "(the bytes they read are not known)"),
        ((1,) * 6, "per byte"),
    ],
    ids=["of most", "of half", "one each"],
)
def test_time_is_compared_per_byte_where_most_bytes_are_known(reads, unit):
    (why,) = set(third(*reads).slow_at(300.0).values())
    assert f" take 15.0 times as long {unit} as 4 elsewhere; " in why


def test_what_is_well_or_has_hardly_begun_is_not_slow_beside_it():
    stage = Stage("A*8")
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 0.0, 20.0)
    stage.ran("n0", 0.0).ran("n0", 0.0).ran("n0", 95.0).ran("n1", 70.0)
    assert set(stage.slow_at(100.0)) == {"A[4]#0", "A[5]#0"}


def test_each_job_vertex_is_looked_at_by_itself():
    stage = Stage("A*6", "B*6")
    for vertex, seconds in (("A", 20.0), ("B", 100.0)):
        for node in ("n1", "n2", "n1", "n2"):
            stage.ran(node, 0.0, seconds, vertex=vertex)
        stage.ran("n0", 0.0, vertex=vertex).ran("n0", 0.0, vertex=vertex)
    assert set(stage.slow_at(100.0)) == {"A[4]#0", "A[5]#0"}


@pytest.mark.parametrize("node", ["*", "unknown"])
def test_attempts_of_which_nobody_knows_where_they_run_are_not_compared(node):
    stage = Stage("A*6")
    for where in ("n1", "n2", "n1", "n2"):
        stage.ran(where, 0.0, 20.0)
    assert stage.ran(node, 0.0).ran(node, 0.0).slow_at(1000.0) == {}


def test_nor_is_one_that_took_no_time():
    stage = Stage("A*7").ran("n1", 0.0, 0.0)
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 0.0, 20.0)
    (why,) = set(stage.ran("n0", 0.0).ran("n0", 0.0).slow_at(100.0).values())
    assert " as 4 elsewhere; " in why


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
    assert third().slow_at(40.0, false_alarm_rate=0.5, tolerated_factor=1.0) != {}


@pytest.mark.parametrize("unit", [1, 100])
def test_more_bytes_may_take_longer(unit):
    stage = third(*[unit] * 4, 5 * unit, 5 * unit)
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


@pytest.mark.parametrize(
    ("took", "cold_start", "reads", "now", "slow"),
    [
        (20.0, 0.0, 100, 150.0, True),
        (20.0, 60.0, 100, 90.0, False),
        (20.0, 60.0, 100, 100.0, False),
        (20.0, 60.0, 100, 150.0, False),
        (20.0, 60.0, 100, 240.0, True),
        (20.0, 60.0, 500, 240.0, False),
        (0.01, 30.0, 100, 70.5, True),
    ],
)
def test_a_nodes_first_attempt_gets_an_allowance_where_there_are_no_first_ones_elsewhere(
    took, cold_start, reads, now, slow
):
    stage = Stage("Z*2 => A*5")
    stage.ran("n1", 0.0, 20.0, vertex="Z").ran("n2", 0.0, 20.0, vertex="Z")
    for start in (20.0, 40.0):
        stage.ran("n1", start, start + took).ran("n2", start, start + took)
    stage.ran("n0", 40.0, reads=reads)
    assert bool(stage.slow_at(now, cold_start=cold_start)) is slow


def test_a_later_attempt_is_compared_with_first_ones_where_there_are_no_others():
    stage = Stage("Z => A*5").ran("n0", 0.0, 20.0, vertex="Z")
    for node in ("n1", "n2", "n1", "n2"):
        stage.ran(node, 20.0, 40.0)
    stage.ran("n0", 20.0)
    assert stage.slow_at(50.0) == {}
    assert stage.slow_at(150.0) != {}


def test_first_attempts_are_compared_with_each_other():
    stage = Stage("A*9")
    stage.ran("n1", 0.0, 100.0).ran("n2", 0.0, 100.0)
    for start in (100.0, 105.0, 110.0):
        stage.ran("n1", start, start + 5.0).ran("n2", start, start + 5.0)
    stage.ran("n0", 50.0)
    assert stage.slow_at(150.0, cold_start=0.0) == {}  # a hundred seconds, as the first ones elsewhere


@pytest.mark.parametrize("rounds", [3, 7])
def test_a_node_that_was_well_and_hangs_is_found_by_what_runs_now(rounds):
    """After seven rounds all its attempts together are no slower than a node may be for good."""
    stage, now = Stage(f"A*{3 * rounds + 3}"), 20.0 * rounds
    for start in range(rounds):
        for node in ("n0", "n1", "n2"):
            stage.ran(node, 20.0 * start, 20.0 * (start + 1))
    for node in ("n1", "n2"):
        stage.ran(node, now, now + 20.0)
    stage.ran("n0", now)
    assert stage.slow_at(now + 40.0) == {}
    assert set(stage.slow_at(now + 340.0)) == {f"A[{3 * rounds + 2}]#0"}


@pytest.mark.parametrize(
    ("reads", "elsewhere", "usual", "weight", "seen"),
    [
        (100, (10.0, 20.0, 40.0), 0.25, 20, 1.4826 * math.log(2)),
        (100, (20.0, 20.0), 0.25, 20, 0.25),
        (None, (20.0, 20.0), 0.8, 8, 0.8),
    ],
    ids=["enough was seen", "too little was seen", "bytes are not known"],
)
def test_the_margin_is_for_the_usual_spread_corrected_by_the_one_seen_elsewhere(reads, elsewhere, usual, weight, seen):
    stage, count = Stage("A*5"), len(elsewhere)
    for node, seconds in zip(("n1", "n2", "n1"), elsewhere, strict=False):
        stage.ran(node, 0.0, seconds, reads)
    stage.ran("n0", 0.0, 10.0, reads).ran("n0", 0.0, reads=reads)
    verdict = Comparison.of(stage.graph.execution_vertices("A"), {}, 1e5, NodeAwareOptions()).verdict("n0")
    spread = math.sqrt((weight * usual**2 + count * seen**2) / (weight + count))
    error = spread * math.sqrt(1 / 2 + 1 / count)
    margin = 1.6 * math.exp(student(0.01 / 2 / 3, weight + count) * error)
    factor = math.sqrt((10 / 20) * (1e5 / 20))
    assert verdict is not None
    assert (verdict.factor, verdict.margin) == pytest.approx((factor, margin))
    assert (verdict.attempts, verdict.elsewhere, verdict.by_bytes) == (2, count, reads is not None)


def test_the_margin_is_students():
    """Against the normal distribution, which it becomes, and two lines of a printed table; and the sum of the first
    three terms of its series, 1.96 + (1.96^3 + 1.96) / 4 + ..., with one degree each of them counts."""
    assert student(0.025, 1e9) == pytest.approx(NormalDist().inv_cdf(0.975))
    assert student(0.025, 20) == pytest.approx(2.086, abs=0.002)
    assert student(0.0005, 10) == pytest.approx(4.587, abs=0.1)
    assert student(0.025, 1) == pytest.approx(7.15473, abs=0.0001)


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


FINISHED = st.tuples(
    st.sampled_from("abc"), st.integers(0, 40), st.sampled_from([1, 20, 30, 60]), st.integers(0, 400) | st.none()
)
RUNNING = st.tuples(st.sampled_from("abcd"), st.sampled_from([0.5, 0.999]), st.integers(0, 400) | st.none())


@pytest.mark.requirement("S1-9")
@settings(max_examples=300)
@given(
    finished=st.lists(FINISHED, min_size=1, max_size=8),
    running=st.lists(RUNNING, max_size=12),
    known=st.sampled_from(["all", "none", "some"]),
    factor=st.sampled_from([1.0, 1.6, 3.0]),
)
@example(
    finished=[("a", 0, 1, 1), ("a", 0, 1, 0), ("b", 0, 1, 0), ("a", 0, 20, 1)],  # half a byte is typical
    running=[("a", 0.5, 0)],
    known="all",
    factor=1.0,
)
@example(
    finished=[("a", 0, 2, 1), ("b", 0, 2, 1), ("c", 0, 10, 10), ("a", 0, 20, 1000), ("b", 0, 20, 1000)],
    running=[("d", 0.999, 10), *[("d", 0.2, 1000)] * 3],  # they make a thousand typical
    known="all",
    factor=1.0,
)
@example(
    finished=[*[("a", 0, 10, 10)] * 4, *[("b", 0, 10, 10)] * 4, *[("c", 0, 100, 100)] * 3],
    running=[("c", 0.9, None), *[("d", 0.1, None)] * 12],  # and so nobody's bytes count
    known="all",
    factor=1.0,
)
def test_before_the_least_seconds_no_attempt_makes_its_node_sick_whatever_else_runs(finished, running, known, factor):
    """Those that run have, each, a share of that behind them; they will read what is typical at least, or more.

    So it is without any margin for chance, which the real detector has beside.
    """
    options = {"tolerated_factor": factor, "lower_bound": 0.0}
    stage = Stage("A*40")
    finished = [*finished]
    for place, (node, start, seconds, reads) in enumerate(finished):
        told = {"all": reads or 0, "none": None, "some": reads}[known]
        finished[place] = (node, start, seconds, told)
        stage.ran(node, float(start), float(start + seconds), told)
    (vertex,) = stage.graph.execution_job_vertices()
    least = NodeAwareSlowTaskDetector(NodeAwareOptions(**options)).least_seconds(
        vertex, outnumbered=len(running) >= len(finished)
    )
    typical = int(median([reads for *_, reads in finished if reads is not None] or [0]))
    now = 1000.0
    for node, share, reads in running:
        stage.ran(node, now - share * min(least, 500.0), reads=None if reads is None else max(reads, typical))
    with mock.patch.object(node_aware, "student", return_value=0.0):
        assert stage.slow_at(now, **options) == {}
