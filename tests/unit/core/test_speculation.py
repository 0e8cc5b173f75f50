"""Several attempts of one vertex: when one is slow, fails, finishes or is cancelled."""

import pytest

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import JobVertex
from rekindle.core.options import FailoverOptions, SpeculationOptions
from rekindle.core.speculation import FailureRule, copies_to_make, may_be_copied, rule_for
from tests.unit.core.dsl import Answer, Run, job
from tests.unit.core.test_execution import vertex_with

SPECULATION = SpeculationOptions(enabled=True)


def speculating(*chains: str, cap: int = 2, nodes: int = 10, **attributes) -> Run:
    options = SpeculationOptions(enabled=True, max_concurrent_executions=cap)
    run = Run(job(*(chains or ("A*2 => B*2",)), **attributes), speculation=options).submit()
    return run.has_nodes(*(f"n{number}" for number in range(nodes))).deploy("A", node="n1")


def with_copy(*chains: str, cap: int = 2) -> Run:
    """A[0] runs on n1, and a copy of it on n2."""
    run = speculating(*chains, cap=cap)
    run.slow("A[0]#0")
    return run.deploy("A[0]#1", node="n2")


def deploys(answer: Answer) -> list[act.Deploy]:
    return answer.of(act.Deploy)


@pytest.mark.requirement("S2-6", "S2-37", "S2-47")
class TestTheLimit:
    """E-14."""

    def test_with_2_the_first_report_makes_one_copy_and_the_second_none(self):
        run = speculating(cap=2)
        assert run.slow("A[0]#0").copies == ["A[0]#1"]
        assert run.slow("A[0]#0").copies == []
        assert run.slow("A[0]#0", "A[0]#1").copies == []

    def test_with_3_the_first_report_makes_two(self):
        run = speculating(cap=3)
        assert run.slow("A[0]#0").copies == ["A[0]#1", "A[0]#2"]
        assert run.slow("A[0]#0").copies == []

    @pytest.mark.requirement("S3-11", "S5-12")
    def test_with_1_there_is_no_copy_and_the_node_is_blocked(self):
        answer = speculating(cap=1).slow("A[0]#0")
        assert answer.copies == []
        assert answer.blocked == ["n1"]

    @pytest.mark.requirement("S2-32")
    def test_a_failed_attempt_makes_room(self):
        run = with_copy()
        run.fails("A[0]#1")
        assert run.slow("A[0]#0").copies == ["A[0]#2"]

    @pytest.mark.requirement("S2-32")
    def test_so_does_the_original(self):
        run = with_copy()
        run.fails("A[0]#0")
        assert run.slow("A[0]#1").copies == ["A[0]#2"]

    @pytest.mark.parametrize(
        ("states", "copies"),
        [
            (("RUNNING",), 2),
            (("RUNNING", "CANCELING"), 1),
            (("RUNNING", "CANCELING", "CANCELING"), 0),
            (("CANCELING",), 0),
            (("FINISHED", "CANCELING"), 0),
            (("CREATED",), 0),
        ],
    )
    def test_one_that_is_being_cancelled_counts(self, states, copies):
        options = SpeculationOptions(enabled=True, max_concurrent_executions=3)
        assert copies_to_make(vertex_with(*states), options) == copies

    def test_a_finished_vertex_gets_none(self):
        run = speculating()
        run.finish("A[0]")
        assert run.slow("A[0]#0") == []


@pytest.mark.requirement("S2-36", "S2-37", "S2-38", "S3-1", "S3-5")
class TestSlowTasks:
    def test_first_the_node_is_blocked_then_the_copy_is_deployed_elsewhere(self):
        block, deploy = speculating().slow("A[0]#0")
        assert isinstance(block, act.Block)
        assert block.node == "n1"
        assert isinstance(deploy, act.Deploy)
        assert deploy.avoid_nodes == {"n1"}

    @pytest.mark.requirement("S2-25", "S7-17")
    def test_a_copy_is_deployed_alone_and_writes_the_same_version(self):
        (deploy,) = deploys(speculating().slow("A[0]#0"))
        attempt = ExecutionAttemptID(ExecutionVertexID("A", 0), 1)
        assert deploy.deployments == (act.Deployment(attempt, version=1, speculative=True),)

    @pytest.mark.requirement("S3-12", "S1-2")
    def test_the_nodes_of_all_slow_attempts_are_blocked(self):
        run = with_copy(cap=3)
        run.now = 70.0
        assert run.slow("A[0]#0", "A[0]#1").blocked == ["n1", "n2"]

    @pytest.mark.requirement("S2-45")
    def test_a_copy_avoids_its_siblings_nodes_when_their_blocks_have_ended(self):
        run = with_copy()
        run.fails("A[0]#1")
        run.now = 1000.0
        run.see(ev.Tick())
        run.see(ev.NodeBlockRequested("n7", until=2000.0, cause="a person"))
        report = ev.SlowTasksFound(((ExecutionVertexID("A", 0), (), "no attempt named"),))
        (deploy,) = deploys(run.see(report))
        assert deploy.avoid_nodes == {"n1", "n7"}

    def test_copies_that_must_avoid_the_same_nodes_are_deployed_together(self):
        run = speculating("A*3")
        (deploy,) = deploys(run.slow("A[0]#0", "A[1]#0"))
        assert [str(one.attempt) for one in deploy.deployments] == ["A[0]#1", "A[1]#1"]

    @pytest.mark.requirement("S2-40")
    def test_the_gauge_counts_vertices_and_not_attempts(self):
        run = with_copy()
        run.slow("A[0]#0", "A[0]#1", "A[1]#0")
        assert run.graph.metrics().num_slow_execution_vertices == 2
        one = ExecutionVertexID("A", 0)  # `nodeAware` has an entry for each node
        by_node = ((one, (ExecutionAttemptID(one, number),), f"n{number + 1}") for number in (0, 1))
        run.see(ev.SlowTasksFound(tuple(by_node)))
        assert run.graph.metrics().num_slow_execution_vertices == 1

    @pytest.mark.requirement("S2-12")
    def test_with_the_switch_off_nothing_happens(self):
        run = Run(job("A*2")).submit().has_nodes("n1", "n2").deploy("A")
        assert run.slow("A[0]#0") == []
        assert run.graph.metrics().num_slow_execution_vertices == 0

    @pytest.mark.requirement("S2-11")
    def test_a_vertex_in_a_larger_region_gets_no_copy(self):
        answer = speculating("A*2 -1> B*2").slow("A[0]#0")
        assert (answer.blocked, answer.copies) == (["n1"], [])

    @pytest.mark.requirement("S2-13", "S3-11", "S5-12")
    def test_a_vertex_that_may_not_be_copied_is_counted_and_its_node_blocked(self):
        run = speculating(A={"speculative": False})
        answer = run.slow("A[0]#0")
        assert (answer.blocked, answer.copies) == (["n1"], [])
        assert run.graph.metrics().num_slow_execution_vertices == 1

    @pytest.mark.requirement("S2-13")
    def test_nor_does_one_that_the_driver_was_told_not_to_copy(self):
        run = speculating("A*2", "B*2").deploy("B", node="n2")
        run.see(ev.OptionsGiven(**run.options, speculative=("B",)))
        assert run.slow("A[0]#0", "B[0]#0").copies == ["B[0]#1"]

    @pytest.mark.requirement("S3-15")
    def test_with_every_other_node_blocked_the_copy_waits_and_is_withdrawn(self):
        run = speculating(nodes=2)
        assert run.slow("A[0]#0").copies == ["A[0]#1"]
        assert run.states("A[0]") == ["RUNNING", "SCHEDULED"]
        answer = run.finish("A[0]#0", node="n1")
        assert answer.canceled == ["A[0]#1"]

    @pytest.mark.requirement("S3-15", "S3-2")
    def test_a_copy_that_waits_is_placed_when_the_block_ends(self):
        run = speculating(nodes=2)
        run.slow("A[0]#0")
        run.now = 60.0
        assert run.see(ev.Tick()).unblocked == ["n1"]
        run.deploy("A[0]#1", node="n1")
        assert run.states("A[0]") == ["RUNNING", "RUNNING"]


@pytest.mark.requirement("S2-13", "S5-1", "S5-2", "S5-3", "S5-5", "S2-4", "S2-8")
@pytest.mark.parametrize(
    ("vertex", "options", "copied"),
    [
        ({}, {}, True),
        ({}, {"enabled": False}, False),
        ({"speculative": False}, {}, False),
        ({"contains_sources": True}, {}, True),
        ({"contains_sources": True}, {"source_enabled": True}, True),
        ({"contains_sources": True}, {"source_enabled": False}, False),
        ({"contains_sinks": True}, {}, False),
        ({"contains_sinks": True}, {"sink_enabled": True}, True),
        ({"contains_sinks": True, "speculative": False}, {"sink_enabled": True}, False),
        ({"contains_sources": True, "contains_sinks": True}, {}, False),
    ],
)
def test_which_vertices_get_copies(vertex, options, copied):
    assert may_be_copied(JobVertex("A", 4, **vertex), SpeculationOptions(**{"enabled": True, **options})) is copied


@pytest.mark.requirement("S2-27", "S2-28", "S2-30", "S2-31")
class TestFailures:
    """E-13."""

    def test_while_a_sibling_runs_nothing_is_restarted(self):
        run = with_copy()
        assert run.fails("A[0]#0") == []
        assert run.states("A[0]") == ["RUNNING"]
        assert run.version("A[0]") == 1

    def test_when_the_sibling_fails_too_the_vertex_is_tried_again(self):
        run = with_copy()
        run.fails("A[0]#0")
        assert run.fails("A[0]#1").deployed == ["A[0]#2"]

    @pytest.mark.requirement("S7-14", "S7-18", "S2-30")
    def test_a_lost_partition_restarts_its_producer_although_a_sibling_runs(self):
        run = speculating("A*2 => B*2")
        run.finish("A")
        run.deploy("B", node="n1")
        run.slow("B[0]#0")
        run.deploy("B[0]#1", node="n2")
        answer = run.fails("B[0]#0", cannot_read="A/1").restarts("A[1] B[0] B[1]")
        assert answer.canceled == ["B[0]#1", "B[1]#0"]
        assert answer.deployed == ["A[1]#1"]

    def test_a_lost_partition_that_nobody_knows_restarts_nothing(self):
        run = with_copy()
        unknown = ev.FailureCause(ev.FailureKind.PARTITION, "it broke")
        attempts = [ExecutionAttemptID(ExecutionVertexID("A", 0), number) for number in (0, 1)]
        assert run.see(ev.AttemptFailed(attempts[0], unknown)) == []
        assert run.states("A[0]") == ["RUNNING"]
        assert run.see(ev.AttemptFailed(attempts[1], unknown)).deployed == ["A[0]#2"]
        assert run.version("A[0]") == 1

    @pytest.mark.requirement("S2-34")
    def test_with_no_sibling_left_the_producer_is_recovered_along_with_the_consumer(self):
        run = Run(job("A*2 => B")).submit()
        run.finish("A")
        run.fails("B[0]", cannot_read="A/1").restarts("A[1] B[0]")

    @pytest.mark.parametrize(
        ("sibling", "kind", "rule"),
        [
            ("RUNNING", ev.FailureKind.TASK, FailureRule.GO_ON),
            ("SCHEDULED", ev.FailureKind.INFRASTRUCTURE, FailureRule.GO_ON),
            ("FINISHED", ev.FailureKind.TASK, FailureRule.GO_ON),
            ("CANCELING", ev.FailureKind.TASK, FailureRule.RESTART_VERTEX),
            ("FAILED", ev.FailureKind.TASK, FailureRule.RESTART_VERTEX),
            ("RUNNING", ev.FailureKind.PARTITION, FailureRule.RESTART_PRODUCER),
            ("CANCELING", ev.FailureKind.PARTITION, FailureRule.RESTART_VERTEX),
        ],
    )
    def test_the_rules_in_their_order(self, sibling, kind, rule):
        assert rule_for(vertex_with("FAILED", sibling), ev.FailureCause(kind, "it broke")) is rule

    @pytest.mark.requirement("S2-33")
    def test_a_failure_that_restarts_nothing_is_counted(self):
        run = with_copy()
        run.fails("A[0]#0")
        assert run.graph.metrics().num_failures == 1

    @pytest.mark.requirement("S6-24", "S2-33")
    def test_and_fails_the_job_if_it_is_one_too_many_although_a_sibling_runs(self):
        run = Run(job("A*2"), speculation=SPECULATION, failover=FailoverOptions(max_failures_per_task=0)).submit()
        run.deploy("A", node="n1")
        run.slow("A[0]#0")
        run.deploy("A[0]#1", node="n2")
        answer = run.fails("A[0]#0")
        assert answer.canceled == ["A[0]#1", "A[1]#0"]
        assert answer.of(act.Fail)

    @pytest.mark.requirement("S6-23")
    def test_what_is_restarted_for_it_names_the_attempt_that_failed(self):
        run = Run(job("A*2 => B")).submit()
        run.finish("A")
        (restart,) = run.fails("B[0]#0", cannot_read="A/1").of(act.Restart)
        assert restart.cause == "B[0]#0 failed: it broke"

    @pytest.mark.requirement("S2-35", "S2-33", "S2-43")
    def test_after_one_has_finished_the_failure_of_a_sibling_changes_nothing(self):
        run = with_copy()
        run.finish("A[0]#1")
        assert run.fails("A[0]#0") == []
        assert run.graph.state(ExecutionVertexID("A", 0)) == "FINISHED"
        assert run.graph.metrics().num_failures == 0

    @pytest.mark.requirement("S2-17")
    def test_a_restart_cancels_all_attempts(self):
        run = speculating("A*2 ~> B")
        run.deploy("B", node="n3")
        run.slow("B[0]#0")
        run.deploy("B[0]#1", node="n4")
        assert run.fails("A[0]").canceled == ["B[0]#0", "B[0]#1"]


@pytest.mark.requirement("S2-3", "S2-39", "S2-46")
class TestTheFirstToFinish:
    def test_all_others_are_cancelled_whatever_they_do(self):
        run = speculating(cap=4)
        run.slow("A[0]#0")
        run.deploy("A[0]#1", node="n2")  # #2 and #3 still wait
        answer = run.finish("A[0]#1")
        assert answer.canceled == ["A[0]#0", "A[0]#2", "A[0]#3"]
        assert answer.of(act.Cancel)[0].reason == "A[0]#1 finished first"
        run.canceled("A[0]#2")
        assert run.states("A[0]") == ["CANCELING", "FINISHED", "CANCELING"]

    def test_the_job_is_over_although_a_loser_still_runs(self):
        answer = with_copy("A").finish("A[0]#1")
        assert answer.canceled == ["A[0]#0"]
        assert answer[-1] == act.Finish()

    @pytest.mark.requirement("S2-14", "S2-19")
    def test_consumers_are_deployed_by_the_finish_of_a_copy_and_copied_in_their_turn(self):
        run = with_copy("A => B*3")
        assert run.finish("A[0]#1").deployed == ["B[0]#0", "B[1]#0", "B[2]#0"]
        run.deploy("B", node="n3")
        assert run.slow("B[0]#0").copies == ["B[0]#1"]

    def test_the_second_to_finish_is_discarded(self):
        run = with_copy()
        run.finish("A[0]#1")
        output = run.graph.output(ResultPartitionID("A", 0))
        run.now = 5.0
        attempt = ExecutionAttemptID(ExecutionVertexID("A", 0), 0)
        assert run.see(ev.AttemptFinished(attempt, 5.0, ev.PartitionOutput(7, 7))) == []
        assert run.graph.output(ResultPartitionID("A", 0)) == output

    @pytest.mark.requirement("S2-26")
    def test_a_cancelled_loser_leaves(self):
        run = with_copy()
        run.finish("A[0]#1")
        run.canceled("A[0]#0")
        assert run.states("A[0]") == ["FINISHED"]
        assert run.canceled("A[0]#0") == []

    @pytest.mark.requirement("S2-2")
    def test_the_original_has_no_precedence(self):
        run = with_copy()
        assert run.finish("A[0]#1").canceled == ["A[0]#0"]
        run = with_copy()
        assert run.finish("A[0]#0").canceled == ["A[0]#1"]


@pytest.mark.requirement("S2-41", "S2-42")
class TestEffectiveCopies:
    def effective(self, run: Run) -> int:
        return run.graph.metrics().num_effective_speculative_executions

    def test_a_copy_that_finishes_first_counts(self):
        run = with_copy()
        run.finish("A[0]#1")
        assert self.effective(run) == 1
        assert run.graph.metrics().num_speculative_executions == 1

    def test_an_original_that_finishes_first_does_not(self):
        run = with_copy()
        run.finish("A[0]#0")
        assert self.effective(run) == 0

    @pytest.mark.requirement("S2-24")
    def test_a_reset_takes_it_off_and_the_new_attempt_is_an_original(self):
        run = with_copy()
        run.finish("A[0]#1")
        run.loses("A/0").restarts("A[0]")
        assert self.effective(run) == 0
        run.finish("A[0]")
        assert self.effective(run) == 0

    def test_a_reset_takes_nothing_off_for_an_original(self):
        run = with_copy()
        run.finish("A[0]#0")
        run.loses("A/0").restarts("A[0]")
        assert self.effective(run) == 0

    def test_nor_for_a_copy_that_has_not_finished(self):
        run = with_copy("A*2 ~> B*2")
        run.fails("A[0]#0")
        run.fails("A[0]#1").restarts("A[0] B[0] B[1]")
        assert self.effective(run) == 0


class TestCommitsOfAttemptsThatWereGivenUp:
    """A task may commit and be reported lost: what is stored under the current version is valid."""

    def test_a_failed_attempt_that_had_committed_finishes_its_vertex(self):
        run = Run(job("A => B")).submit().deploy("A")
        run.fails("A[0]#0", kind=ev.FailureKind.INFRASTRUCTURE)
        answer = run.finish("A[0]#0")
        assert answer.canceled == ["A[0]#1"]
        assert answer.deployed == ["B[0]#0"]
        assert run.states("A[0]") == ["FINISHED", "CANCELING"]

    def test_nor_does_it_matter_how_many_were_made_since(self):
        run = Run(job("A => B")).submit().deploy("A")
        run.fails("A[0]#0")
        run.fails("A[0]#1")
        assert run.finish("A[0]#0").canceled == ["A[0]#2"]

    @pytest.mark.requirement("S7-16")
    def test_one_that_waits_for_its_inputs_meanwhile_is_not_deployed_any_more(self):
        run = Run(job("A*2 =1> B*2")).submit()
        run.finish("A")
        run.deploy("B")
        run.loses("A/0").restarts("A[0] B[0]")
        assert run.fails("B[1]#0", kind=ev.FailureKind.INFRASTRUCTURE) == []
        run.finish("B[1]#0")
        assert run.states("B[1]") == ["FINISHED"]
        assert run.finish("A").deployed == ["B[0]#1"]

    @pytest.mark.requirement("S7-17")
    def test_not_if_a_restart_has_begun_another_version(self):
        run = Run(job("A => B")).submit()
        run.finish("A[0]")
        run.loses("A/0")
        assert run.finish("A[0]#0") == []
        assert run.graph.unfinished("A") == (0,)

    def test_not_if_what_it_made_is_not_stored(self):
        run = Run(job("K +> B", "A => B")).submit().deploy("K")
        assert run.fails("K[0]#0").deployed == ["K[0]#1"]
        run.finish("K[0]#0")
        assert not run.graph.is_finished("K")


@pytest.mark.requirement("S2-17")
class TestWhatEndsAllAttempts:
    def test_a_lost_driver(self):
        run = with_copy()
        answer = run.loses_driver()
        assert "A[0]#2" in answer.deployed
        assert run.states("A[0]") == ["SCHEDULED"]

    def test_a_lost_node_ends_those_on_it(self):
        run = with_copy()
        assert run.loses_node("n1").deployed == ["A[1]#1"]
        assert run.states("A[0]") == ["RUNNING"]
        run = with_copy()
        assert run.loses_node("n2") == []
        assert run.states("A[0]") == ["RUNNING"]

    def test_and_the_vertex_is_tried_again_if_it_had_them_all(self):
        run = speculating()
        run.slow("A[0]#0")
        run.deploy("A[0]#1", node="n1")
        assert run.loses_node("n1").deployed == ["A[0]#2", "A[1]#1"]
        assert run.graph.metrics().num_failures == 3

    @pytest.mark.parametrize("lost", ["node", "driver"])
    def test_a_loser_is_gone_and_what_finished_stays(self, lost):
        run = with_copy()
        run.finish("A[0]#1", node="n2")
        assert run.states("A[0]") == ["CANCELING", "FINISHED"]
        if lost == "node":
            run.loses_node("n1")
        else:
            run.loses_driver()
        assert run.states("A[0]") == ["FINISHED"]


class TestAnAttemptThatSomebodyEnded:
    def test_it_is_tried_again_and_no_failure_is_counted(self):
        run = Run(job("A")).submit().deploy("A")
        assert run.canceled("A[0]#0").deployed == ["A[0]#1"]
        assert run.graph.metrics().num_failures == 0

    def test_not_while_a_sibling_runs(self):
        run = with_copy()
        assert run.canceled("A[0]#0") == []
        assert run.states("A[0]") == ["RUNNING"]


@pytest.mark.parametrize(
    "event",
    [
        ev.AttemptDeployed(ExecutionAttemptID(ExecutionVertexID("A", 0), 7), "n1", 0.0),
        ev.AttemptDeployed(ExecutionAttemptID(ExecutionVertexID("B", 0), 0), "n1", 0.0),
        ev.AttemptFinished(ExecutionAttemptID(ExecutionVertexID("A", 9), 0), 0.0, ev.PartitionOutput(1, 1)),
        ev.AttemptFinished(ExecutionAttemptID(ExecutionVertexID("B", 0), 0), 0.0, ev.PartitionOutput(1, 1)),
        ev.AttemptFailed(ExecutionAttemptID(ExecutionVertexID("X", 0), 0), ev.FailureCause(ev.FailureKind.TASK, "")),
        ev.AttemptCanceled(ExecutionAttemptID(ExecutionVertexID("B", 0), 0)),
        ev.PartitionsLost((ResultPartitionID("X", 0), ResultPartitionID("A", 5)), "unknown"),
        ev.PartitionsLost((ResultPartitionID("A", 0),), "it was never made"),
        ev.NodeLost("n99", "unknown"),
        ev.JobSubmitted(),
        ev.Tick(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_about_something_that_is_not_so_changes_nothing(event):
    run = Run(job("A => B")).submit().deploy("A")
    before = run.snapshot()
    assert run.see(event) == []
    assert run.snapshot() == before
