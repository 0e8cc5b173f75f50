"""What a driver is asked, and which of its tasks are found slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.controller.speculation import driver_questions as module
from rekindle.controller.speculation.detection import SlowTask
from rekindle.controller.speculation.spark_rest import DriverUnanswered, StageKey
from rekindle.core.skew import Blame
from rekindle.core.witness import CpuUse
from tests.unit.controller.speculation.scripted_driver import (
    NEVER,
    Attempt,
    ScriptedDriver,
    Watched,
    beside_eight_of,
    straggler,
    took,
    young,
)

ALL = ["stages", "running 1.0", "success 1.0"]


class TestWhatIsAsked:
    def test_tasks_only_once_one_of_them_may_have_run_for_the_lower_bound(self):
        watched = Watched(straggler(10, 20, 30), baselineLowerBound="60s")
        assert watched.asks(59.9) == ["stages"]
        assert watched.asks(60.0) == ALL

    def test_the_first_task_begins_that_and_not_the_stage(self):
        late = ScriptedDriver().stage(Attempt(0, 200.0), Attempt(1, 200.0, 210.0), Attempt(2, 200.0, 210.0))
        watched = Watched(late, baselineRatio=0.5, baselineLowerBound="60s")
        assert [watched.asks(now) for now in (150.0, 259.9)] == [["stages"]] * 2
        assert watched.asks(260.0) == ALL

    @pytest.mark.requirement("S1-11", "S1-22")
    def test_for_no_finished_task_before_the_gate_with_execution_time(self):
        """0.55 of 100 is 55; those that run are asked for, to know how old one can be."""
        stage = took(*[10.0] * 54, 500.0)
        watched = Watched(ScriptedDriver().stage(*stage, Attempt(55, 0.0), tasks=100), baselineRatio=0.55)
        assert watched.asks(499.9) == ["stages", "running 1.0"]
        assert watched.asks(500.0) == ALL

    def test_before_the_gate_for_the_tasks_that_run_only_when_one_may_be_old_enough(self):
        """The oldest is twenty seconds old, and the bound is a minute."""
        script = ScriptedDriver().stage(*took(*[10.0] * 5), Attempt(5, 80.0), tasks=100)
        watched = Watched(script)
        assert watched.asks(100.0) == ["stages", "running 1.0"]
        assert [watched.asks(now) for now in (110.0, 139.0)] == [["stages"], ["stages"]]
        assert watched.asks(140.0) == ["stages", "running 1.0"]

    @pytest.mark.requirement("S1-12")
    def test_finished_tasks_once_with_execution_time(self):
        driver = ScriptedDriver().stage(*took(10, 20, 30, *range(300, 308)), Attempt(11, 0.0), tasks=14)
        watched = Watched(driver, baselineRatio=0.2)
        for now in (100.0, 101.0, 304.0, 310.0):
            watched.look(now)
        assert driver.asked.count("success 1.0") == 1
        assert driver.asked.count("running 1.0") == 4

    def test_with_node_aware_as_soon_as_one_has_finished_and_again_before_twice_as_many_have(self):
        """Nobody is blamed: one node, and so nothing to compare it with. Of seven that are known, half as many more
        have finished at 80 s, and with those that run it may be twice as many."""
        two_more = [Attempt(n, 0.0) for n in (12, 13)]
        driver = ScriptedDriver().stage(*took(30, *range(40, 46), 50, 60, 70, 80, 90), *two_more, tasks=20)
        watched = Watched(driver, detector="nodeAware")
        asked = {now: "success 1.0" in watched.asks(now) for now in (9.0, 30.0, 35.0, 46.0, 60.0, 70.0, 80.0, 90.0)}
        assert [now for now, again in asked.items() if again] == [30.0, 46.0, 80.0]

    def test_nothing_before_one_could_be_slow_by_the_first_that_finishes(self):
        """They are 12 s old, so the first will have taken that; 1.6 times that are 19.2 s."""
        driver = ScriptedDriver().stage(*(Attempt(n, 100.0) for n in range(3)))
        watched = Watched(driver, detector="nodeAware")
        assert watched.asks(112.0) == ["stages", "running 1.0"]
        assert watched.asks(119.1) == ["stages"]
        assert watched.look(112.5).delay == pytest.approx(6.7)

    def one_after_the_other(self) -> list[Attempt]:
        return [Attempt(8, 15.0, 40.0, executor="3"), Attempt(9, 40.0, executor="3")]

    def test_of_its_one_stage_with_node_aware_only_what_runs_and_that_only_when_it_may_be_old_enough(self):
        """Eight of a hundred took 20 s, so that 32 s may be too long."""
        watched = beside_eight_of(20, *self.one_after_the_other(), tasks=100)
        assert watched.asks(26.0) == ALL
        assert watched.asks(46.9) == []
        assert watched.asks(47.0) == ["running 1.0"]
        assert watched.asks(55.9) == []
        assert watched.asks(56.0) == ["stages"]  # half a minute after it was last asked all
        assert watched.asks(72.0) == ["running 1.0", "stages", "running 1.0"]  # as it is

    def test_all_where_executors_come_or_its_stage_goes(self):
        watched = beside_eight_of(20, *self.one_after_the_other(), nodes="12", tasks=100)
        assert watched.asks(26.0) == ALL
        watched.nodes = {**watched.nodes, "3": "n3"}
        assert watched.asks(46.9) == ["stages", "running 1.0"]
        watched.driver.stage(ends=50.0, tasks=100).stage(Attempt(0, 50.0), key=StageKey(2, 0), begins=50.0)
        assert watched.asks(72.5) == ["running 1.0", "stages", "running 2.0"]

    def test_all_where_a_race_is_over(self):
        copy = Attempt(8, 40.0, 45.0, executor="1", number=1)
        watched = beside_eight_of(
            20, Attempt(8, 25.0, 45.0, "3", killed=True), copy, Attempt(9, 40.0, executor="3"), tasks=100
        )
        watched.look(40.0)
        assert watched.counts.num_effective == 0
        watched.look(57.1)
        assert watched.counts.num_effective == 1

    def test_all_where_one_may_be_too_slow(self):
        watched = beside_eight_of(20, *young(7), tasks=100)
        assert watched.slow(26.0) == []
        assert watched.asks(46.9) == []
        assert watched.asks(47.0) == ["running 1.0", "stages", "running 1.0"]
        assert {one.node for one in watched.look(80.0).slow} == {"n3"}

    def test_again_at_once_when_other_nodes_are_known(self):
        """A third of the tasks is on an executor of which the node is told only now."""
        driver = ScriptedDriver().stage(*took(*[20] * 6, executor="1"), Attempt(6, 10.0, executor="2"))
        watched = Watched(driver, {"1": "n1"}, detector="nodeAware")
        assert [watched.asks(now)[1:] for now in (25.0, 26.0)] == [["running 1.0", "success 1.0"], []]
        watched.nodes = {"1": "n1", "2": "n2"}
        assert watched.asks(27.0) == ["stages", "running 1.0"]

    def test_at_once_of_a_driver_whose_clock_was_set_back(self):
        watched = Watched(ScriptedDriver().stage(*took(10, 10, 10), Attempt(3, 1000.0)), baselineLowerBound="60s")
        assert watched.asks(1000.0) == ["stages", "running 1.0", "success 1.0"]
        watched.driver.stage(*took(10, 10, 10), Attempt(3, 0.0))
        assert watched.slow(100.0) == ["stage 1.0[3]"]

    def test_nothing_of_stages_that_do_not_run(self):
        driver = straggler(10, 10, 10).stage(*took(10, 10, 10), Attempt(3, 0.0), ends=100.0)
        assert Watched(driver).asks(100.0) == ["stages"]

    def test_all_pages(self, monkeypatch):
        monkeypatch.setattr(module, "_PAGE", 2)
        watched = Watched(ScriptedDriver().stage(*took(1, 2, 3, 4, 5, 6), *(Attempt(n, 0.0) for n in (6, 7))))
        assert watched.asks(90.0) == ["stages", *["running 1.0"] * 2, *["success 1.0"] * 4]  # the last ones are empty
        assert len(watched.slow(90.0)) == 2

    def test_both_again_after_a_driver_that_did_not_answer(self, monkeypatch):
        driver = straggler(10, 10, 10)
        watched = Watched(driver)

        async def unanswered(*_: object, **__: object) -> None:
            raise DriverUnanswered("it is busy")

        with monkeypatch.context() as patched:
            patched.setattr(driver, "tasks", unanswered)
            with pytest.raises(DriverUnanswered):
                watched.look(60.0)
        assert watched.asks(61.0) == ALL


@pytest.mark.requirement("S1-5", "S1-6", "S1-7", "S1-13", "S1-14")
class TestSlow:
    def test_from_the_baseline_on_and_equal_is_slow(self):
        watched = Watched(straggler(100, 200, 300))
        assert watched.slow(299.9) == []
        assert watched.slow(300.0) == ["stage 1.0[3]"]

    def test_never_below_the_lower_bound(self):
        watched = Watched(straggler(10, 20, 30))
        assert watched.slow(59.9) == []
        assert watched.slow(60.0) == ["stage 1.0[3]"]

    @pytest.mark.requirement("S1-12", "S1-23")
    @pytest.mark.parametrize("first_look", [200.0, 224.5])
    def test_who_finishes_later_moves_nothing(self, first_look):
        """The median of the first six is 150 s, with the seventh it would be 200 s; whenever they are asked for."""
        watched = Watched(straggler(100, 100, 100, 200, 200, 200, 210))
        assert watched.slow(first_look) == []
        (slow,) = watched.look(225.0).slow
        assert "median of the first 6 to finish: 150.0 s" in slow.evidence

    @pytest.mark.requirement("S1-10")
    def test_each_stage_by_its_own_measure(self):
        driver = straggler(10, 10, 10).stage(*took(400, 400, 400), Attempt(3, 0.0), key=StageKey(2, 0))
        watched = Watched(driver)
        assert watched.slow(599.0) == ["stage 1.0[3]"]
        assert watched.slow(600.0) == ["stage 1.0[3]", "stage 2.0[3]"]

    @pytest.mark.requirement("S1-20", "S2-40")
    def test_a_copy_has_its_own_clock_and_a_task_with_two_slow_attempts_is_one(self):
        copy = Attempt(3, 70.0, executor="2", number=1)
        watched = Watched(straggler(10, 10, 10).stage(*took(10, 10, 10), Attempt(3, 0.0), copy), {"1": "n1", "2": "n2"})
        assert [one.node for one in watched.look(129.9).slow] == ["n1"]
        seen = watched.look(130.0)
        assert [one.node for one in seen.slow] == ["n1", "n2"]
        assert seen.num_slow_vertices == 1

    @pytest.mark.requirement("S1-29", "S2-40")
    def test_an_empty_report_when_nothing_is_slow_any_more(self):
        driver = ScriptedDriver().stage(*took(10, 10, 10, 100), Attempt(4, 80.0), tasks=5)
        watched = Watched(driver, baselineRatio=0.5)
        assert watched.look(99.0).num_slow_vertices == 1
        seen = watched.look(100.0)
        assert (seen.slow, seen.num_slow_vertices) == ((), 0)

    @pytest.mark.requirement("S1-26")
    def test_with_the_ratio_0_from_the_lower_bound_on(self):
        driver = ScriptedDriver().stage(Attempt(0, 0.0), tasks=3)
        watched = Watched(driver, baselineRatio=0)
        assert watched.slow(59.9) == []
        assert watched.slow(60.0) == ["stage 1.0[0]"]

    @pytest.mark.requirement("S2-6", "S2-37")
    @pytest.mark.parametrize(("most", "attempts", "left"), [(2, 1, 1), (3, 2, 1), (3, 1, 2), (2, 2, 0), (1, 2, 0)])
    def test_and_how_many_more_attempts_it_may_have(self, most, attempts, left):
        slow = [Attempt(3, float(number), number=number) for number in range(attempts)]
        watched = Watched(ScriptedDriver().stage(*took(10, 10, 10), *slow), maxConcurrentExecutions=most)
        assert {one.copies for one in watched.look(100.0).slow} == {left}


@pytest.mark.parametrize("ahead", [-3600.0, -7.0, 7.0, 3600.0])
def test_the_drivers_clock_is_taken_for_its_times(ahead):
    tasks = [Attempt(n, 5000.0, 5000.0 + end) for n, end in enumerate((100.0, 200.0, 300.0, NEVER))]
    right, wrong = (Watched(ScriptedDriver(clock).stage(*tasks)) for clock in (0.0, ahead))
    for now in (4000.0, 5000.0, 5059.0, 5250.0, 5299.0, 5300.0):
        assert wrong.look(now) == right.look(now)
    assert right.slow(5300.0) != []


class TestTheBlame:
    def blamed(self, now: float = 100.0, *, so_far: int | None, reads: int | None = 100, **settings: Any) -> Blame:
        done = [replace(one, reads=reads) for one in took(10, 10, 10)]
        watched = Watched(ScriptedDriver().stage(*done, Attempt(3, 0.0, so_far=so_far)), **settings)
        (slow,) = watched.look(now).slow
        return slow.blame

    def test_is_the_nodes_where_the_input_explains_nothing(self):
        assert self.blamed(so_far=60) is Blame.NODE

    def test_is_the_inputs_where_there_is_much_more(self):
        assert self.blamed(so_far=1000) is Blame.SKEW

    @pytest.mark.parametrize(("now", "blame"), [(150.0, Blame.SKEW), (1000.0, Blame.NODE)])
    def test_is_the_inputs_where_there_is_somewhat_more_that_is_read_as_fast(self, now, blame):
        driver = ScriptedDriver().stage(*took(100, 100, 100), Attempt(3, 0.0, so_far=150))
        (slow,) = Watched(driver).look(now).slow
        assert slow.blame is blame

    def test_is_not_known_as_long_as_the_task_may_not_have_told(self):
        assert self.blamed(so_far=None) is Blame.UNKNOWN

    def test_is_the_nodes_where_a_task_reads_nothing_for_longer_than_any_heartbeat_takes(self):
        assert self.blamed(so_far=None, now=1000.0) is Blame.NODE

    def test_is_the_nodes_where_nobody_reads(self):
        assert self.blamed(so_far=None, reads=0) is Blame.NODE

    @pytest.mark.parametrize(("factor", "blame"), [(1.5, Blame.SKEW), (4.0, Blame.NODE)])
    def test_goes_by_the_tolerated_factor(self, factor, blame):
        """Three times as slow, with twice as much to read: with `nodeAware`, whose setting it is."""
        done = [Attempt(n, 0.0, 20.0, executor="2") for n in range(6)]
        slow = [Attempt(n, 0.0, executor="1", so_far=200) for n in (6, 7)]
        watched = Watched(
            ScriptedDriver().stage(*done, *slow),
            {"1": "n1", "2": "n2"},
            detector="nodeAware",
            toleratedNodeFactor=factor,
        )
        assert {one.blame for one in watched.look(2000.0).slow} == {blame}


class TestNodeAware:
    NODES = {str(number): f"n{number}" for number in range(3)}  # noqa: RUF012 (nobody changes it)

    def watched(self, *attempts: Attempt) -> Watched:
        return Watched(ScriptedDriver().stage(*attempts), self.NODES, detector="nodeAware")

    def third(self) -> list[Attempt]:
        """A third of the tasks is on n0, where they go on for long."""
        return [Attempt(n, 0.0, 20.0 if n % 3 else 500.0, executor=str(n % 3)) for n in range(9)]

    @pytest.mark.requirement("S1-9")
    def test_a_node_with_a_third_of_the_tasks_is_found_where_execution_time_sees_nothing(self):
        seen = self.watched(*self.third()).look(120.0)
        assert {one.node for one in seen.slow} == {"n0"}
        assert seen.num_slow_vertices == 3
        assert Watched(ScriptedDriver().stage(*self.third()), self.NODES).slow(120.0) == []

    def test_what_executors_have_finished_that_are_gone_since_counts(self):
        watched = self.watched(*self.third())
        assert watched.slow(25.0) == []
        watched.nodes = {"0": "n0"}
        assert {one.node for one in watched.look(120.0).slow} == {"n0"}

    def more(self, end: float) -> list[Attempt]:
        """And one more on each of the others, which began with them and ended then."""
        return [Attempt(n, 0.0, end, executor=str(n - 8)) for n in (9, 10)]

    def test_finished_tasks_are_asked_for_again_before_it_is_blamed(self):
        watched = self.watched(*self.third(), *self.more(100.0))
        assert watched.slow(25.0) == []
        (evidence,) = {one.evidence for one in watched.look(120.0).slow}
        assert " as 8 elsewhere" in evidence
        assert watched.driver.asked.count("success 1.0") == 2

    def test_and_it_is_not_where_they_show_others_to_be_as_slow(self):
        """Of the first six to finish nobody knows where four ran. Five more finish, which is not twice as many."""
        first = [Attempt(n, 0.0, 20.0, executor="1" if n < 2 else "gone") for n in range(6)]
        later = [Attempt(n, 0.0, 110.0, executor=str(1 + n % 2)) for n in range(6, 11)]
        there = [Attempt(n, 0.0, executor="0") for n in range(11, 14)]
        watched = self.watched(*first, *later, *there)
        assert watched.slow(25.0) == []
        assert watched.asks(111.0) == ALL
        assert watched.slow(111.0) == []
        assert self.watched(*first, *there).slow(111.0) != []

    def test_and_so_they_are_though_they_were_for_another_reason_just_now(self):
        """Where the node's tasks run is told only at 118 s, and one more has finished since the look before."""
        watched = self.watched(*self.third(), Attempt(9, 0.0, 117.0, executor="1"))
        watched.nodes = {"1": "n1", "2": "n2"}
        assert "success 1.0" in watched.asks(115.0)
        watched.nodes = self.NODES
        assert "success 1.0" in watched.asks(118.0)

    def test_and_every_ten_seconds_while_it_is(self):
        later = [Attempt(n, 80.0 + n, 100.0 + n, executor="1") for n in range(9, 50)]
        early = [Attempt(n, 0.0, 20.0, executor="2") for n in range(50, 90)]
        watched = self.watched(*self.third(), *early, *later)
        asked = {now: "success 1.0" in watched.asks(now) for now in (120.0, 121.0, 129.0, 130.0, 131.0, 140.0)}
        assert [now for now, again in asked.items() if again] == [120.0, 130.0, 140.0]

    def test_once_for_as_many_as_have_finished(self):
        watched = self.watched(*self.third())
        watched.look(120.0)
        assert watched.asks(121.0) == ["stages", "running 1.0"]

    def test_an_executor_of_which_the_node_is_not_known_is_not_blamed(self):
        driver = ScriptedDriver().stage(*self.third())
        known = {executor: node for executor, node in self.NODES.items() if executor != "0"}
        assert Watched(driver, known, detector="nodeAware").slow(120.0) == []


class TestStagesComeAndGo:
    def test_one_that_is_gone_is_forgotten(self):
        driver = straggler(10, 10, 10)
        watched = Watched(driver)
        watched.look(60.0)
        driver.stage(*took(10, 10, 10), Attempt(3, 0.0), ends=70.0)
        watched.look(70.0)
        driver.stage(*took(10, 10, 10), Attempt(3, 0.0))
        assert watched.asks(80.0) == ALL

    @pytest.mark.requirement("S1-10")
    def test_one_that_is_tried_again_starts_anew(self):
        """Its first attempt took 10 s a task; of the second one that took 200 s each is not slow at 250 s."""
        driver = straggler(10, 10, 10)
        watched = Watched(driver)
        assert watched.slow(60.0) == ["stage 1.0[3]"]
        again = [Attempt(n, 100.0, 300.0 if n < 3 else NEVER) for n in range(4)]
        driver.stage(*took(10, 10, 10), ends=100.0).stage(*again, key=StageKey(1, 1))
        assert watched.slow(350.0) == []
        assert watched.slow(400.0) == ["stage 1.1[3]"]


class TestThePods:
    NODES = {"1": "n1", "2": "n2", "3": "n3"}  # noqa: RUF012 (nobody changes it)

    def watched(self, *, so_far: int | None = 50, ahead: float = 0.0, **settings: Any) -> Watched:
        """Three of four tasks took 40 s, the last one runs on executor 1; others of a stage that is younger elsewhere.

        So 60 s are slow, and 96 s are more than hardly slow.
        """
        driver = ScriptedDriver(ahead).stage(*took(40, 40, 40, executor="2"), Attempt(3, 0.0, so_far=so_far))
        driver.stage(*(Attempt(n, 50.0, executor=str(2 + n % 2)) for n in range(2)), key=StageKey(2, 0), tasks=40)
        return Watched(driver, self.NODES, **settings)

    def tell(self, watched: Watched, now: float, *, here: float, elsewhere: float = 0.57) -> None:
        uses = {"1": here, "2": elsewhere, "3": elsewhere}
        watched.uses = {executor: CpuUse(cores, now - 20.0, now - 5.0) for executor, cores in uses.items()}

    def look(self, watched: Watched, now: float) -> SlowTask:
        (slow,) = watched.look(now).slow
        return slow

    def test_are_not_asked_while_nothing_is_slow_nor_where_it_would_change_nothing(self):
        watched = self.watched()
        assert watched.slow(59.9) == []
        assert self.look(watched, 96.0).blame is Blame.NODE
        assert watched.asked_for_uses == 0

    @pytest.mark.requirement("S3-1")
    def test_one_that_is_starved_says_node_with_the_figures(self):
        watched = self.watched(so_far=None)
        before = self.look(watched, 60.0)
        assert (before.blame, before.is_proven) == (Blame.UNKNOWN, False)
        self.tell(watched, 80.0, here=0.06)
        slow = self.look(watched, 80.0)
        assert (slow.blame, slow.is_proven) == (Blame.NODE, True)
        assert slow.evidence.endswith("40.0 s); its pod uses 0.06 CPU a task, others 0.57")

    def test_one_that_is_fed_speaks_for_its_node_until_the_task_is_more_than_hardly_slow(self):
        watched = self.watched()
        self.tell(watched, 60.0, here=0.57)
        assert self.look(watched, 60.0).blame is Blame.UNKNOWN
        self.tell(watched, 95.9, here=0.57)
        assert self.look(watched, 95.9).blame is Blame.UNKNOWN
        slow = self.look(watched, 96.0)
        assert slow.blame is Blame.NODE
        assert "its pod uses 0.57 CPU a task" in slow.evidence

    def test_tell_as_long_as_nobody_does_nothing(self):
        assert self.look(self.watched(), 60.0).blame is Blame.NODE

    def test_are_asked_again_after_a_while_and_the_driver_only_where_they_told(self):
        watched = self.watched()
        assert watched.asks(60.0) == ALL
        watched.look(74.9)
        assert watched.asked_for_uses == 1
        self.tell(watched, 75.0, here=0.57)
        assert watched.asks(75.0) == ["stages", "running 1.0", "running 2.0"]
        assert watched.asked_for_uses == 2

    def test_the_figures_are_for_each_task_that_runs(self):
        """Executor 2 runs four tasks of the other stage, and executor 1 one of either."""
        watched = self.watched()
        others = [Attempt(n, 50.0, executor="2" if n else "1") for n in range(5)]
        watched.driver.stage(*others, key=StageKey(2, 0), tasks=40)
        self.tell(watched, 80.0, here=1.8, elsewhere=3.6)
        slow = self.look(watched, 80.0)
        assert slow.blame is Blame.UNKNOWN
        assert slow.evidence.endswith("its pod uses 0.90 CPU a task, others 0.90")

    def test_those_that_run_nothing_or_are_on_the_same_node_are_no_measure(self):
        watched = self.watched(so_far=None)
        watched.driver.stage(Attempt(0, 50.0, executor="2"), key=StageKey(2, 0), tasks=40)
        beside = Watched(watched.driver, {**self.NODES, "2": "n1"})
        for one, blame in ((watched, Blame.NODE), (beside, Blame.UNKNOWN)):
            self.tell(one, 80.0, here=0.06)
            assert self.look(one, 80.0).blame is blame

    def test_say_nothing_of_a_time_before_the_task_ran(self):
        watched = self.watched(so_far=None)
        watched.uses = {executor: CpuUse(cores, -0.1, 59.0) for executor, cores in (("1", 0.06), ("2", 0.57))}
        assert self.look(watched, 60.0).blame is Blame.UNKNOWN

    @pytest.mark.parametrize("ahead", [90.0, 3600.0])
    def test_are_told_by_our_clock_and_not_by_the_drivers(self, ahead):
        watched = self.watched(so_far=None, ahead=ahead)
        self.tell(watched, 80.0, here=0.06)
        assert self.look(watched, 80.0).blame is Blame.NODE

    def test_clear_no_node_with_node_aware(self):
        third = [Attempt(n, 0.0, 20.0 if n % 3 else 500.0, executor=str(1 + n % 3)) for n in range(9)]
        watched = Watched(ScriptedDriver().stage(*third), self.NODES, detector="nodeAware")
        self.tell(watched, 120.0, here=9.0)
        assert {one.blame for one in watched.look(120.0).slow} == {Blame.NODE}
        assert watched.asked_for_uses == 0
