"""What the CPU of its pod says about a slow task, and how that changes who is blamed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.skew import Blame, Typical, Work, blame
from rekindle.core.witness import Case, CpuUse, Says, statement, typical_cores

NODE, SKEW, UNKNOWN = Blame.NODE, Blame.SKEW, Blame.UNKNOWN
STARVED, FED, NOTHING = Says.STARVED, Says.FED, Says.NOTHING
NOW, FACTOR = 1000.0, 1.6

LAST = CpuUse(0.06, 970.0, 985.0)


def said(use: CpuUse | None, typical: float, launched_at: float = 900.0) -> Says:
    return statement(use, launched_at, typical, NOW, FACTOR).says


class TestWhatItSays:
    @pytest.mark.parametrize(
        ("cores", "says"),
        [(0.0, STARVED), (0.06, STARVED), (0.62, STARVED), (0.63, NOTHING), (0.79, NOTHING), (0.8, FED), (2.0, FED)],
    )
    def test_goes_by_what_is_typical_elsewhere(self, cores, says):
        assert said(replace(LAST, cores=cores), 1.0) is says

    def test_with_the_figures(self):
        assert statement(LAST, 900.0, 0.57, NOW, FACTOR).evidence == "its pod uses 0.06 CPU a task, others 0.57"

    @pytest.mark.parametrize(
        ("use", "launched_at"),
        [
            (None, 900.0),
            (LAST, 970.1),  # when it began the task did not run yet
            (CpuUse(0.06, 920.0, 939.9), 900.0),  # too old
            (CpuUse(0.06, 1050.0, 1060.1), 900.0),  # a clock that is wrong
        ],
    )
    def test_is_nothing_without_a_figure_of_the_task_that_is_fresh(self, use, launched_at):
        nothing = statement(use, launched_at, 0.8, NOW, FACTOR)
        assert (nothing.says, nothing.evidence) == (NOTHING, "")

    @pytest.mark.parametrize(("use", "launched_at"), [(LAST, 970.0), (CpuUse(0.06, 920.0, 940.0), 920.0)])
    def test_is_something_up_to_these_bounds(self, use, launched_at):
        assert said(use, 0.8, launched_at) is STARVED

    def test_is_nothing_where_tasks_hardly_compute(self):
        assert said(replace(LAST, cores=0.01), 0.09) is NOTHING
        assert said(replace(LAST, cores=0.01), 0.1) is STARVED


class TestWhatIsTypical:
    def test_is_the_median_of_what_is_fresh(self):
        fresh = [CpuUse(cores, 970.0, 985.0) for cores in (0.1, 0.5, 3.0)]
        assert typical_cores([*fresh, CpuUse(9.0, 900.0, 939.0), CpuUse(9.0, 900.0, 930.0)], NOW) == 0.5

    def test_one_is_enough(self):
        assert typical_cores([LAST], NOW) == 0.06

    def test_and_none_is_nothing(self):
        assert typical_cores([], NOW) == 0.0
        assert said(LAST, typical_cores([], NOW)) is NOTHING


ALIKE = Typical.of([Work(10.0, 100, 1000)] * 4)


def judged(slow: Work, mild_below: float = 0.0, typical: Typical = ALIKE) -> dict[Says, Blame]:
    case = Case(slow, typical, FACTOR, mild_below)
    return {says: case.blame(says) for says in Says}


@pytest.mark.requirement("S3-1")
@pytest.mark.parametrize(
    ("slow", "verdicts"),
    [
        (Work(100.0, 250, 2500), (NODE, SKEW)),  # 2.5 times the input does not take ten times as long
        (Work(40.0, 250, 2500), (SKEW, SKEW)),  # in proportion, within the factor
        (Work(40.1, 250, 2500), (NODE, SKEW)),
        (Work(40.0, 100, 2500), (SKEW, SKEW)),  # rows alone
        (Work(100.0, None, None), (NODE, UNKNOWN)),
        (Work(40.0, None, 2500), (SKEW, SKEW)),
        (Work(50.0, 100, 1000), (NODE, NODE)),
    ],
)
def test_a_starved_pod_says_node_unless_the_input_explains_the_time_in_proportion(slow, verdicts):
    found = judged(slow)
    assert (found[STARVED], found[NOTHING]) == verdicts


def test_of_tasks_that_read_nothing_a_starved_one_is_its_nodes():
    assert judged(Work(50.0, None, None), typical=Typical.of([Work(10.0, 0, 0)]))[STARVED] is NODE


@pytest.mark.parametrize(
    ("slow", "fed"),
    [
        (Work(47.9, 100, 1000), UNKNOWN),
        (Work(48.0, 100, 1000), NODE),  # a throttled clock shows full use
        (Work(40.0, 250, 2500), SKEW),
        (Work(40.0, None, None), UNKNOWN),
    ],
)
def test_a_pod_that_is_fed_speaks_for_its_node_while_the_task_is_hardly_slow(slow, fed):
    assert judged(slow, mild_below=48.0)[FED] is fed


def test_without_a_measure_of_hardly_slow_it_speaks_for_nobody():
    assert judged(Work(11.0, 100, 1000))[FED] is NODE


AMOUNTS = st.none() | st.integers(0, 5000)
WORKS = st.builds(Work, st.integers(1, 500).map(float), AMOUNTS, AMOUNTS)
CASES = st.builds(
    lambda slow, finished, mild: Case(slow, Typical.of(finished), FACTOR, mild),
    WORKS,
    st.lists(WORKS, max_size=6),
    st.integers(0, 500).map(float),
)


@given(CASES)
def test_without_figures_all_is_as_the_input_says(case):
    assert case.blame(NOTHING) is blame(case.work, case.typical, case.tolerated_factor)


@given(CASES)
def test_starved_never_clears_a_node_and_fed_never_blames_one(case):
    if case.blame(NOTHING) is NODE:
        assert case.blame(STARVED) is NODE
    else:
        assert case.blame(FED) is case.blame(NOTHING)


@given(CASES, st.sampled_from(Says))
def test_it_is_asked_wherever_its_word_counts(case, says):
    if not case.needs_witness:
        assert case.blame(says) is case.blame(NOTHING)


@given(CASES, st.integers(0, 500))
def test_a_longer_time_never_clears_the_node_of_a_starved_pod(case, seconds):
    longer = replace(case, work=replace(case.work, seconds=case.work.seconds + seconds))
    if case.blame(STARVED) is NODE:
        assert longer.blame(STARVED) is NODE


USES = st.builds(CpuUse, st.floats(0, 64), st.just(970.0), st.just(985.0))


@given(USES, st.floats(0, 64), st.floats(0, 64))
def test_more_cpu_never_turns_fed_into_starved(use, more, typical):
    order = [STARVED, NOTHING, FED]
    if typical >= 0.1:
        richer = replace(use, cores=use.cores + more)
        assert order.index(said(richer, typical)) >= order.index(said(use, typical))
