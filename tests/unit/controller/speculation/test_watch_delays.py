"""When a driver is looked at again: as seldom as can be, and in time for whatever becomes slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.controller.speculation.spark_rest import StageKey
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.job_graph import JobVertex
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector
from tests.unit.controller.speculation.scripted_driver import (
    Attempt,
    ScriptedDriver,
    Watched,
    beside_eight_of,
    straggler,
    took,
    young,
)


def delay(driver: ScriptedDriver, now: float, **speculation: Any) -> float:
    return Watched(driver, **speculation).look(now).delay


class TestInOneCase:
    def test_a_task_is_waited_for_until_it_has_run_for_the_lower_bound(self):
        assert delay(straggler(1, 2, 3), 50.0, baselineLowerBound="60s") == 10.0

    def test_and_past_the_gate_until_it_reaches_the_baseline(self):
        assert delay(straggler(100, 200, 250), 293.0) == 7.0

    def test_the_oldest_that_is_not_slow_yet_comes_first(self):
        tasks = [Attempt(5 + place, start) for place, start in enumerate((60.0, 54.0, 90.0))]
        assert delay(ScriptedDriver().stage(*took(*[10] * 5), *tasks), 101.0, baselineRatio=0.5) == 13.0

    def test_the_gate_may_be_passed_at_any_time(self):
        assert delay(straggler(10, 10), 100.0, checkInterval="3s", baselineRatio=0.9) == 3.0

    @pytest.mark.requirement("S1-4")
    def test_what_is_slow_is_looked_at_each_interval(self):
        assert delay(straggler(10, 10, 10), 100.0, checkInterval="3s") == 3.0

    def test_with_node_aware_what_runs_past_the_lower_bound_is_too(self):
        driver = ScriptedDriver().stage(*took(10, 10), Attempt(2, 0.0), Attempt(3, 95.0))
        assert delay(driver, 100.0, checkInterval="3s", detector="nodeAware") == 3.0

    @pytest.mark.parametrize(("now", "expected"), [(105.0, 10.0), (250.0, 5.0), (255.0, 1.0), (300.0, 1.0)])
    def test_and_no_sooner_than_one_could_be_beyond_what_is_tolerated(self, now, expected):
        """1.6 times the 100 s that all took elsewhere. The next stage is looked for every 10 s, which is its bound."""
        assert beside_eight_of(100, Attempt(8, 95.0, executor="3")).look(now).delay == pytest.approx(expected)

    @pytest.mark.parametrize(("running", "expected"), [(7, 5.0), (3, 10.0)])
    def test_or_twice_as_many_could_have_finished(self, running, expected):
        """Eight more, if each slot ends one now and then one every 5 s, as long as the shortest took."""
        assert beside_eight_of(20, *young(running), tasks=100, shortest=5).look(26.0).delay == pytest.approx(expected)

    @pytest.mark.parametrize(("waiting", "expected"), [(0, 10.0), (4, 10.0), (5, 21.0)])
    def test_or_a_task_of_the_next_stage_could_have_run_for_the_bound(self, waiting, expected):
        """It gets no slot before those that wait: four may begin at once, and a fifth 20 s later."""
        assert beside_eight_of(20, *young(4), tasks=12 + waiting).look(26.0).delay == pytest.approx(expected)

    def test_which_it_can_at_any_time_where_stages_share_the_slots(self):
        watched = beside_eight_of(20, *young(4), tasks=100)
        watched.driver.stage(Attempt(0, 16.0, executor="1"), key=StageKey(2, 0), begins=16.0, ends=25.0, tasks=1)
        assert [watched.look(now).delay for now in (22.0, 26.0)] == [4.0, 10.0]

    @pytest.mark.parametrize("told", [{"first_task_at": None}, {"running": 0}, {"failed": 1}])
    def test_or_nothing_says_when(self, told):
        """The first stage has begun nothing yet, counts none that runs though one does, or has lost one."""
        assert beside_eight_of(20, *young(4), tasks=100, **told).look(26.0).delay == 10.0

    def test_the_next_stage_waits_for_the_first_and_not_for_one_that_began_before_it(self):
        """Stage 2 has filled its slots; stage 0 has its last task running, and what follows it comes before stage 2."""
        watched = beside_eight_of(20, *young(4), tasks=100)
        watched.driver.stage(Attempt(0, -4.0, 29.0, executor="1"), key=StageKey(0, 0), begins=-4.0, tasks=1)
        watched.look(26.0)
        assert watched.look(30.0).delay == 10.0

    @pytest.mark.parametrize("tasks", [0, 5], ids=["no stage", "a stage that waits for executors"])
    def test_where_nothing_runs_what_begins_next_is_waited_for(self, tasks):
        driver = ScriptedDriver()
        if tasks:
            driver.stage(tasks=tasks)
        assert delay(driver, 100.0, baselineLowerBound="4s") == 4.0
        longest = delay(driver, 100.0, baselineLowerBound="1h")
        assert 4.0 < longest == delay(driver, 100.0, baselineLowerBound="2h")

    @pytest.mark.parametrize("interval", [0.25, 1.0, 300.0])
    def test_never_sooner_than_an_interval(self, interval):
        assert delay(straggler(10, 10, 10), 59.5, checkInterval=interval) == max(interval, 0.5)
        assert delay(ScriptedDriver(), 0.0, checkInterval=interval, baselineLowerBound=0) == interval


STEP = 0.125
"""The oracle looks each time after so many seconds, and all times of a history are in these, so that sums are exact."""


@dataclass(frozen=True)
class History:
    """The tasks of a stage, some with a copy, until the last one has finished. Each attempt has a node of its own."""

    key: StageKey
    begins: float
    attempts: tuple[Attempt, ...]

    @property
    def ends(self) -> float:
        return max(one.end for one in self.attempts)

    def at(self, now: float) -> ExecutionJobVertex:
        """The core's job vertex, by all that is known at `now`."""
        tasks = 1 + max(one.index for one in self.attempts)
        vertex = ExecutionJobVertex.create(JobVertex(f"stage {self.key}", tasks))
        for one in sorted((one for one in self.attempts if one.has_finished(now)), key=lambda one: one.end):
            vertex.admit(vertex.schedule(one.index).deployed(f"n{one.executor}", one.start), one.end)
        for one in (one for one in self.attempts if one.runs(now)):
            task = vertex.tasks[one.index]
            is_first = one.index in vertex.pending
            if not is_first:
                task.put(task.create(one.start, speculative=True).to(ExecutionState.SCHEDULED))
            execution = vertex.schedule(one.index) if is_first else task.executions[-1]
            task.put(execution.deployed(f"n{one.executor}", one.start))
        return vertex


@dataclass(frozen=True)
class Histories:
    """What the oracle looks at."""

    vertices: Sequence[ExecutionJobVertex]

    def execution_job_vertices(self) -> Sequence[ExecutionJobVertex]:
        return self.vertices

    def slow(self, detector: ExecutionTimeBasedSlowTaskDetector, now: float) -> set[str]:
        """Nodes of slow attempts."""
        tasks = {task.id: task for vertex in self.vertices for task in vertex.tasks}
        slow = detector.find_slow(self, now).slow
        executions = [tasks[vertex_id].current(attempt) for vertex_id, attempts, _ in slow for attempt in attempts]
        return {one.node for one in executions if one is not None and one.node is not None}


@st.composite
def histories(draw: st.DrawFn, number: int) -> History:
    begins = STEP * draw(st.integers(0, 40))
    attempts: list[Attempt] = []
    for index in range(draw(st.integers(1, 5))):
        start = begins + STEP * draw(st.integers(0, 30))
        end, copy = (start + STEP * draw(st.integers(1, 80)) for _ in range(2))
        both = [f"{number}{index}{attempt}" for attempt in range(2)]
        if copy >= end:
            attempts.append(Attempt(index, start, end, both[0]))
            continue
        copy_end = copy + STEP * draw(st.integers(1, 80))
        first = min(end, copy_end)
        attempts.append(Attempt(index, start, first, both[0], killed=copy_end < end))
        attempts.append(Attempt(index, copy, first, both[1], number=1, killed=end <= copy_end))
    return History(StageKey(number, 0), begins, tuple(attempts))


@pytest.mark.requirement("S1-4", "S1-10", "S1-11", "S1-12", "S1-13", "S1-14", "S1-20", "S1-21", "S1-25", "S1-29")
@settings(max_examples=80)
@given(
    stages=st.tuples(histories(1), histories(2)) | st.tuples(histories(1)),
    interval=st.sampled_from([0.5, 1.0, 2.0]),
    bound=st.integers(0, 40).map(lambda steps: STEP * steps),
    ratio=st.integers(0, 9),
    multiplier=st.sampled_from([0.5, 1.0, 1.5, 2.0]),
)
def test_each_slow_attempt_is_found_at_most_an_interval_late_and_no_other_is(
    stages, interval, bound, ratio, multiplier
):
    """Beside an oracle that knows all and looks all the time."""
    driver = ScriptedDriver()
    for stage in stages:
        driver.stage(*stage.attempts, key=stage.key, begins=stage.begins, ends=stage.ends)
    watched = Watched(
        driver,
        {one.executor: f"n{one.executor}" for stage in stages for one in stage.attempts},
        checkInterval=interval,
        baselineLowerBound=bound,
        baselineRatio=f"0.{ratio}",
        baselineMultiplier=multiplier,
    )
    detector = ExecutionTimeBasedSlowTaskDetector(watched.options.slow_tasks)

    def oracle(now: float) -> set[str]:
        there = [stage.at(now) for stage in stages if stage.begins <= now < stage.ends]
        return Histories(there).slow(detector, now)

    over, now, looks = max(stage.ends for stage in stages), 0.0, 0
    found: dict[str, float] = {}
    while now <= over:
        seen = watched.look(now)
        nodes = {one.node for one in seen.slow}
        assert nodes == oracle(now)
        assert seen.num_slow_vertices == len({one.task for one in seen.slow})
        assert seen.delay >= interval
        found = dict.fromkeys(nodes, now) | found
        now, looks = now + seen.delay, looks + 1

    ends = {f"n{one.executor}": one.end for stage in stages for one in stage.attempts}
    slow_since: dict[str, float] = {}
    for step in range(int(over / STEP) + 1):
        slow_since = dict.fromkeys(oracle(step * STEP), step * STEP) | slow_since
    for node, since in slow_since.items():
        assert found.get(node, ends[node]) <= since + interval

    tasks_asked = [one for one in driver.asked if one != "stages"]
    assert driver.asked.count("stages") == looks <= over / interval + 1
    copies = {stage.key: sum(one.number > 0 for one in stage.attempts) for stage in stages}
    for key, most in copies.items():  # and for each race, to know who won
        assert tasks_asked.count(f"success {key}") <= 1 + most
        assert tasks_asked.count(f"killed {key}") <= most
    assert len(tasks_asked) <= (looks + 1) * len(stages) + 2 * sum(copies.values())
