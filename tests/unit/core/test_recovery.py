"""Restarts and retries of a running job: who is reset, what is cancelled, when it is deployed again."""

from collections.abc import Callable

import pytest

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.execution import Execution
from rekindle.core.ids import ResultPartitionID
from rekindle.core.options import FailoverOptions, FailoverStrategyKind, SpeculationOptions
from tests.unit.core.dsl import Run, job

INFRASTRUCTURE = ev.FailureKind.INFRASTRUCTURE


def started(*chains: str, **attributes) -> Run:
    return Run(job(*chains, **attributes)).submit()


def under_way() -> Run:
    """A has finished; a map task runs on n1, the tasks that read its shuffle on n2."""
    graph = job("A*2 => map ~> B*2")
    run = Run(graph, speculation=SpeculationOptions(enabled=True)).submit().has_nodes("n0", "n1", "n2", "n3")
    run.finish("A", digest="x")
    return run.deploy("map", node="n1").deploy("B", node="n2")


def map_made_again(digest: str) -> Callable[[Run], object]:
    """After B[0] has read it, with a lost driver in between."""

    def happens(run: Run) -> None:
        run.finish("map", digest="x")
        run.finish("B[0]")
        run.loses_driver()
        run.finish("map", digest=digest)

    return happens


@pytest.mark.requirement("S2-16", "S6-23")
@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        (lambda run: run.fails("B[0]"), None),
        (lambda run: run.canceled("B[0]"), None),
        (lambda run: run.loses_node("n2"), None),
        (lambda run: run.slow("B[0]#0"), None),
        (lambda run: run.fails("map[0]"), "map[0]#0 failed: it broke"),
        (lambda run: run.canceled("map[0]"), "map[0]#0 was cancelled"),
        (lambda run: run.fails("map[0]", cannot_read="A/0"), "map[0]#0 failed: it broke"),
        (lambda run: [run.slow("map[0]#0"), run.fails("map[0]#0", cannot_read="A/0")], "map[0]#0 failed: it broke"),
        (lambda run: run.loses("A/0"), "a volume is gone"),
        (lambda run: run.loses_node("n1"), "node n1 was lost: it does not answer"),
        (lambda run: [run.finish("map", node="n1"), run.loses_node("n1")], "node n1 was lost: it does not answer"),
        (lambda run: run.loses_driver(), "the driver was lost: killed"),
        (lambda run: run.reruns("map"), "stage map again: somebody asks"),
        (map_made_again("y"), "map/0 differs from the lost one"),
    ],
)
def test_a_new_attempt_has_the_time_of_what_called_for_it_and_a_restart_the_cause(happens, cause):
    run = under_way()
    before = {one.attempt_id for one in executions(run)}
    run.now = 5.0
    happens(run)
    assert {one.created_at for one in executions(run) if one.attempt_id not in before} == {5.0}
    answers = [answer for _, now, answer in run.journal if now == 5.0]
    assert [restart.cause for answer in answers for restart in answer.of(act.Restart)][-1:] == [cause] * bool(cause)
    assert {cancel.reason for answer in answers for cancel in answer.of(act.Cancel)} <= {f"restart: {cause}"}


def executions(run: Run) -> list[Execution]:
    return [one for vertex in run.graph.execution_job_vertices() for task in vertex.tasks for one in task.executions]


@pytest.mark.requirement("S6-2", "S6-26", "S2-24")
class TestARetry:
    """A task that failed alone is tried again; nothing else is touched."""

    @pytest.mark.parametrize("kind", [ev.FailureKind.TASK, INFRASTRUCTURE])
    def test_it_is_a_new_attempt_of_the_same_version(self, kind):
        run = started("A*2 => B").deploy("A")
        answer = run.fails("A[1]", kind=kind)
        assert [type(action) for action in answer] == [act.Deploy]
        assert answer.deployed == ["A[1]#1"]
        assert run.versions("A") == [1, 1]

    def test_its_inputs_are_read_again_and_not_made_again(self):
        """A consumer of stored results."""
        run = started("A*2 => B*2 => C")
        run.finish("A")
        assert run.fails("B[0]").deployed == ["B[0]#1"]
        assert run.graph.is_finished("A")

    def test_it_is_counted(self):
        run = started("A*2").deploy("A")
        run.fails("A[0]")
        metrics = run.graph.metrics()
        assert (metrics.num_retries, metrics.num_restarts, metrics.num_failures) == (1, 0, 1)

    @pytest.mark.requirement("S7-5")
    def test_it_is_not_enough_where_others_read_what_it_was_making(self):
        run = started("map ~> B*2").deploy("map")
        run.finish("B[0]")
        run.fails("map[0]").restarts("map[0] B[0] B[1]")


@pytest.mark.requirement("S7-17", "S6-23")
class TestARestart:
    def lost(self) -> Run:
        run = started("A*3 => B*2 => C")
        run.finish("A")
        run.deploy("B")
        return run

    def test_it_cancels_then_resets_then_deploys_what_has_its_inputs(self):
        answer = self.lost().loses("A/1")
        assert [type(action) for action in answer] == [act.Cancel, act.Restart, act.Deploy]
        assert answer.canceled == ["B[0]#0", "B[1]#0"]
        assert answer.deployed == ["A[1]#1"]

    def test_it_cancels_nothing_where_nothing_runs(self):
        run = started("A*2 => B")
        run.finish("A[0]")
        assert [type(action) for action in run.loses("A/0")] == [act.Restart, act.Deploy]

    def test_it_raises_the_versions_of_what_it_resets_and_no_others(self):
        run = self.lost()
        run.loses("A/1")
        assert run.versions("A") == [1, 2, 1]
        assert run.versions("B") == [2, 2]
        assert run.versions("C") == [1]

    @pytest.mark.requirement("S7-10")
    def test_it_names_producers_first_what_caused_it_and_what_stays(self):
        (restart,) = self.lost().loses("A/1").of(act.Restart)
        assert [str(one) for one in restart.vertices] == ["A[1]", "B[0]", "B[1]"]
        assert restart.cause == "a volume is gone"
        assert restart.reused == 2

    @pytest.mark.requirement("S7-16", "S7-10")
    def test_consumers_wait_for_the_new_result(self):
        run = self.lost()
        run.loses("A/1")
        assert run.waiting("B") == [0, 1]
        assert run.finish("A[1]").deployed == ["B[0]#1", "B[1]#1"]

    def test_late_news_of_old_attempts_changes_nothing(self):
        run = self.lost()
        run.loses("A/1")
        before = run.snapshot()
        assert run.fails("B[0]#0") == []
        assert run.canceled("B[1]#0") == []
        assert run.finish("B[1]#0") == []
        assert run.snapshot() == before

    @pytest.mark.requirement("S6-21")
    def test_the_job_goes_on(self):
        run = self.lost()
        run.loses("A/1")
        assert not run.graph.has_failed

    @pytest.mark.requirement("S6-22", "S6-27")
    def test_a_second_failure_is_judged_by_what_the_first_left(self):
        run = self.lost()
        run.loses("A/1")
        run.deploy("A")
        assert run.fails("A[1]").deployed == ["A[1]#2"]
        run.loses("A/0").restarts("A[0]")
        assert run.finish("A").deployed == ["B[0]#1", "B[1]#1"]

    def test_it_is_counted(self):
        run = self.lost()
        run.loses("A/1")
        metrics = run.graph.metrics()
        assert (metrics.num_restarts, metrics.num_restarted_vertices, metrics.num_retries) == (1, 3, 0)


@pytest.mark.requirement("S6-2", "S6-3", "S6-12", "S6-15")
class TestAPipelinedRegion:
    def running(self) -> Run:
        return started("A*2 -1> B*2 => C").deploy("A").deploy("B")

    def test_it_is_deployed_anew_as_a_whole_and_the_other_goes_on(self):
        run = self.running()
        answer = run.fails("A[0]").restarts("A[0] B[0]")
        assert answer.canceled == ["B[0]#0"]
        assert answer.deployed == ["A[0]#1", "B[0]#1"]
        assert (run.states("A[1]"), run.states("B[1]")) == (["RUNNING"], ["RUNNING"])

    def test_what_its_other_end_had_passed_on_is_made_again(self):
        run = self.running()
        run.finish("A[0]")
        run.fails("B[0]").restarts("A[0] B[0]")


@pytest.mark.requirement("S7-3", "S7-13")
class TestLostPartitions:
    def test_one_that_nobody_needs_costs_nothing(self):
        run = started("A*2 => B => C*2")
        run.finish("A")
        run.finish("B")
        assert run.loses("A/0 A/1") == []
        assert run.graph.output(ResultPartitionID("A", 0)) is None

    def test_nor_one_that_only_a_shuffle_reads_which_nobody_needs(self):
        run = started("A => map ~> B => C")
        run.finish("A")
        run.finish("B")
        run.loses("A/0").restarts_nothing()
        run.loses("B/0").restarts("A[0] map[0] B[0] C[0]")

    def test_it_is_made_again_when_it_is_needed_after_all(self):
        run = started("A*2 => B => C*2")
        run.finish("A")
        run.finish("B")
        run.loses("A/0")
        run.loses("B/0").restarts("A[0] B[0] C[0] C[1]")

    def test_one_that_a_vertex_yet_to_be_deployed_will_read_is_made_again_at_once(self):
        run = started("A*2 => B")
        run.finish("A[0]")
        run.loses("A/0").restarts("A[0]")
        assert run.finish("A").deployed == ["B[0]#0"]

    def test_a_result_of_the_job_itself_is_needed(self):
        run = started("A*2")
        assert run.finish("A").of(act.Finish)
        run.loses("A/1").restarts("A[1]")
        assert not run.graph.is_done
        assert run.finish("A").of(act.Finish)

    def test_pointwise_what_its_own_reader_has_finished_with_is_not_needed(self):
        run = started("A*2 =1> B*2 => C")
        run.finish("A")
        run.finish("B[0]")
        run.loses("A/0").restarts_nothing()
        run.loses("A/1").restarts("A[1] B[1]")

    @pytest.mark.requirement("S7-14")
    def test_several_at_a_time_make_one_restart(self):
        run = started("A*3 => B")
        run.finish("A")
        run.loses("A/0 A/2").restarts("A[0] A[2] B[0]")
        assert run.graph.metrics().num_restarts == 1


@pytest.mark.requirement("S7-5", "S6-10")
class TestTheShuffleInsideAStage:
    def test_lost_while_the_stage_runs_all_of_the_stage_is_written_again(self):
        run = started("A => map ~> B*3 => C")
        run.finish("A")
        run.finish("map")
        run.finish("B[0]")
        answer = run.loses("map/0").restarts("map[0] B[0] B[1] B[2]")
        assert answer.deployed == ["map[0]#1", "B[0]#1", "B[1]#1", "B[2]#1"]

    def test_it_may_be_lost_before_its_end_was_heard_of(self):
        """Spark ran some of the map side again by itself: what was read before is of no use."""
        run = started("map ~> B*2 => C")
        run.finish("B[0]")
        run.loses("map/0").restarts("map[0] B[0] B[1]")

    def test_lost_after_the_stage_has_finished_it_costs_nothing(self):
        run = started("map ~> B*2 => C")
        run.finish("map")
        run.finish("B")
        assert run.loses("map/0") == []
        run.loses("B/1").restarts("map[0] B[0] B[1] C[0]")

    def test_a_partition_is_made_again_from_a_shuffle_that_is_still_there(self):
        run = started("map ~> B*2 => C")
        run.finish("map")
        run.finish("B")
        run.loses("B/1").restarts("B[1] C[0]")

    def test_a_map_side_that_ends_after_its_stage_is_nobodys_concern(self):
        run = started("map ~> B")
        assert run.finish("B").of(act.Finish)
        assert run.fails("map[0]") == []
        assert run.graph.is_done
        run.loses("B/0").restarts("map[0] B[0]")


PROMISE = {"deterministic": True}


@pytest.mark.requirement("S7-4", "S7-14")
class TestWhatCannotBeReadBehindKeptResults:
    def test_is_made_again_with_all_of_them(self):
        """B reads A only through K and L, so these have to be gone."""
        run = started("A => K +> B", "A => L +> B", A=PROMISE, K=PROMISE, L=PROMISE)
        for name in "AKL":
            run.finish(name)
        run.fails("B[0]", cannot_read="A/0").restarts("A[0] K[0] L[0] B[0]")

    def test_but_not_with_one_that_is_made_of_something_else(self):
        run = started("A => B", "X => K +> B")
        for name in "AXK":
            run.finish(name)
        run.fails("B[0]", cannot_read="A/0").restarts("A[0] B[0]")


@pytest.mark.requirement("S6-9", "S6-10")
def test_a_cached_result_is_computed_again_with_all_that_read_it():
    run = started("A => K +> B => D", "K +> C")
    run.finish("A")
    run.finish("K")
    run.finish("B")
    run.loses("K/0").restarts("K[0] B[0] C[0] D[0]")


class TestALostNode:
    def test_what_ran_there_is_tried_again(self):
        run = started("A*4 => B").deploy("A[0]", "n1").deploy("A[1]", "n2").deploy("A[2]", "n1")
        answer = run.loses_node("n1")
        assert answer.deployed == ["A[0]#1", "A[2]#1"]
        assert answer.restarted == set()
        assert run.graph.metrics().num_failures == 2

    def test_what_was_stored_from_there_stays(self):
        run = started("A*2 => B")
        run.finish("A", node="n1")
        assert run.loses_node("n1") == []

    @pytest.mark.requirement("S7-5", "S6-10")
    def test_a_shuffle_kept_there_is_lost(self):
        run = started("map ~> B*2")
        run.finish("map", node="n1")
        run.finish("B[0]", node="n2")
        run.loses_node("n1").restarts("map[0] B[0] B[1]")


class TestALostDriver:
    @pytest.mark.requirement("S7-13")
    def test_what_was_stored_stays_and_the_rest_begins_anew(self):
        run = started("A*2 => B*3 => C")
        run.finish("A")
        run.finish("B[0]")
        run.deploy("B[1]")
        answer = run.loses_driver().restarts("B[1] B[2]")
        assert answer.deployed == ["B[1]#1", "B[2]#1"]
        assert answer.canceled == []
        assert run.versions("B") == [1, 2, 2]

    @pytest.mark.requirement("S7-5", "S6-10")
    def test_the_map_side_is_gone_and_with_it_what_the_stage_had_committed(self):
        run = started("A => map ~> B*3 => C")
        run.finish("A")
        run.finish("map")
        run.finish("B[0]")
        run.loses_driver().restarts("map[0] B[0] B[1] B[2]")

    @pytest.mark.requirement("S7-7", "S7-8")
    def test_a_deterministic_stage_keeps_what_it_had_committed(self):
        run = started("A => map ~> B*3 => C", map={"deterministic": True}, B={"deterministic": True})
        run.finish("A")
        run.finish("map")
        run.finish("B[0]")
        run.loses_driver().restarts("map[0] B[1] B[2]")
        assert run.version("B[0]") == 1

    def test_a_stage_that_had_finished_is_not_restarted(self):
        run = started("map ~> B*2 => C*2")
        run.finish("map")
        run.finish("B")
        run.loses_driver().restarts("C[0] C[1]")

    def test_nor_is_a_map_side_that_nobody_waits_for(self):
        run = started("map ~> B => C")
        run.finish("B")
        run.loses_driver().restarts("C[0]")

    def test_a_shuffle_of_the_old_driver_is_gone_for_later_restarts_too(self):
        run = started("map ~> B => C")
        run.finish("B")
        run.loses_driver()
        run.loses("B/0").restarts("map[0] B[0] C[0]")

    def test_what_was_never_deployed_waits_on(self):
        run = started("A => B => C")
        run.loses_driver().restarts("A[0]")
        assert run.versions("C") == [1]

    def test_a_cached_result_that_is_still_to_be_read_is_computed_again(self):
        run = started("K +> B", "A => B")
        run.finish("K")
        run.loses_driver().restarts("K[0] A[0]")

    def test_a_job_that_has_finished_says_so_again(self):
        run = started("A => B")
        run.finish("A")
        assert run.finish("B").of(act.Finish)
        assert run.loses_driver() == [act.Finish()]

    def test_a_job_that_had_failed_goes_on_with_a_fresh_budget(self):
        run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=1)).submit()
        run.finish("A")
        run.fails("B[0]")
        assert run.fails("B[0]").of(act.Fail)
        assert run.loses_driver().restarts("B[0]").deployed == ["B[0]#2"]
        assert run.fails("B[0]").deployed == ["B[0]#3"]
        assert run.finish("B").of(act.Finish)

    def test_nor_does_what_failed_before_count_against_the_job(self):
        run = Run(job("A*2"), failover=FailoverOptions(max_total_failures=1)).submit()
        run.fails("A[0]")
        assert run.fails("A[0]").of(act.Fail)
        run.loses_driver()
        assert run.fails("A[1]").of(act.Fail) == []
        assert run.fails("A[1]").of(act.Fail)

    def test_before_the_job_began_nothing_happens(self):
        run = Run(job("A"))
        assert run.loses_driver() == []
        assert run.submit().states("A[0]") == ["SCHEDULED"]


@pytest.mark.requirement("S6-13", "S6-20")
def test_restart_all_begins_anew():
    options = FailoverOptions(strategy=FailoverStrategyKind.RESTART_ALL)
    run = Run(job("A*2 => B => C"), failover=options).submit()
    run.finish("A")
    answer = run.fails("B[0]").restarts("A[0] A[1] B[0]")
    assert answer.deployed == ["A[0]#1", "A[1]#1"]


class TestBudgets:
    pytestmark = pytest.mark.requirement("S6-24", "S2-33")

    def test_one_task_may_fail_so_often_and_not_once_more(self):
        run = Run(job("A*2"), failover=FailoverOptions(max_failures_per_task=2)).submit()
        for _ in range(2):
            assert run.fails("A[0]").of(act.Deploy)
        assert run.fails("A[1]").of(act.Deploy)
        answer = run.fails("A[0]")
        assert answer.canceled == ["A[1]#1"]
        (cancel,), (fail,) = answer.of(act.Cancel), answer.of(act.Fail)
        assert fail.cause == "A[0] failed 3 times; maxFailuresPerTask is 2: it broke"
        assert cancel.reason == f"the job has failed: {fail.cause}"

    def test_by_default_four(self):
        run = started("A")
        for _ in range(4):
            assert not run.fails("A[0]").of(act.Fail)
        assert run.fails("A[0]").of(act.Fail)

    def test_lost_infrastructure_is_not_held_against_a_task(self):
        run = started("A")
        for _ in range(20):
            assert not run.fails("A[0]", kind=INFRASTRUCTURE).of(act.Fail)
            assert not run.deploy("A", node="n1").loses_node("n1").of(act.Fail)

    def test_but_against_the_job(self):
        run = Run(job("A*2"), failover=FailoverOptions(max_total_failures=2)).submit()
        run.fails("A[0]", kind=INFRASTRUCTURE)
        run.fails("A[1]")
        (fail,) = run.fails("A[0]", kind=INFRASTRUCTURE).of(act.Fail)
        assert fail.cause == "3 failures in all; maxTotalFailures is 2: it broke"

    def test_a_lost_partition_counts_against_who_could_not_read_it(self):
        run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=1)).submit()
        run.finish("A")
        run.fails("B[0]", cannot_read="A/0")
        run.finish("A")
        assert run.fails("B[0]", cannot_read="A/0").of(act.Fail)

    def test_a_lost_node_counts_once_for_each_attempt(self):
        run = Run(job("A*3"), failover=FailoverOptions(max_total_failures=2)).submit().deploy("A")
        (fail,) = run.loses_node("n1").of(act.Fail)
        assert fail.cause == "3 failures in all; maxTotalFailures is 2: it does not answer"

    @pytest.mark.requirement("S6-25")
    def test_restarts_do_not_count_however_many_tasks_they_reset(self):
        run = Run(job("A*3 => B*3"), failover=FailoverOptions(max_failures_per_task=0, max_total_failures=0)).submit()
        run.finish("A")
        for _ in range(10):
            assert not run.loses("A/0").restarts("A[0] B[0] B[1] B[2]").of(act.Fail)
            run.finish("A")

    def test_cancellations_do_not_count(self):
        run = Run(job("A"), failover=FailoverOptions(max_failures_per_task=0, max_total_failures=0)).submit()
        for _ in range(10):
            assert not run.canceled("A[0]").of(act.Fail)

    def test_once_failed_only_what_a_new_driver_begins_with_changes_anything(self):
        run = Run(job("A => B*2"), failover=FailoverOptions(max_failures_per_task=0)).submit()
        run.finish("A")
        run.fails("B[0]")
        assert run.graph.has_failed
        before = run.snapshot()
        assert run.finish("B[1]") == []
        assert run.see(ev.NodeBlockRequested("n1", until=100.0, cause="a person")) == []
        assert run.snapshot() == before
        run.loses("A/0").restarts("A[0] B[0] B[1]")
        assert run.graph.has_failed


class TestARerunThatSomebodyAsksFor:
    def test_it_takes_what_was_made_from_it_along_and_nothing_else(self):
        run = started("A*2 => B*2 => C", "A => D*2")
        for vertex in ("A", "B", "D"):
            run.finish(vertex)
        answer = run.reruns("B").restarts("B[0] B[1] C[0]")
        assert answer.deployed == ["B[0]#1", "B[1]#1"]
        assert run.versions("A") == [1, 1]
        assert run.versions("B") == [2, 2]

    def test_no_promise_spares_the_readers_of_what_is_doubted(self):
        run = started("A => B => C", A={"deterministic": True}, B={"deterministic": True})
        run.finish("A")
        run.finish("B")
        run.reruns("A").restarts("A[0] B[0] C[0]")

    def test_what_it_reads_is_made_again_if_it_was_released(self):
        run = started("A => B => C => D")
        for vertex in ("A", "B", "C"):
            run.finish(vertex)
        assert run.graph.is_finished_for_good("A")
        assert "A[0]" in run.reruns("B").restarted

    def test_what_was_never_deployed_or_is_unknown_costs_nothing(self):
        run = started("A => B")
        run.reruns("B").restarts_nothing()
        run.reruns("nobody").restarts_nothing()

    def test_a_job_that_has_failed_does_it_when_a_new_driver_begins(self):
        run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=0)).submit()
        run.finish("A")
        run.deploy("B")
        run.fails("B[0]")
        assert run.graph.has_failed
        run.reruns("A")
        run.loses_driver()
        assert run.versions("A") == [2]
        assert run.finish("A").deployed == ["B[0]#1"]

    def test_a_job_that_is_done_is_not_done_any_more(self):
        run = started("A => B")
        run.finish("A")
        run.finish("B")
        done = [run.graph.is_done]
        run.reruns("B")
        done.append(run.graph.is_done)
        assert done == [True, False]
        run.finish("A")
        assert run.finish("B").of(act.Finish)
