"""When vertices are deployed, results released, and the job is over."""

import pytest

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.ids import ResultPartitionID
from tests.unit.core.dsl import Run, job, names


def submitted(*chains: str, **attributes) -> Run:
    return Run(job(*chains, **attributes)).submit()


def all_deployed(run: Run) -> list[str]:
    return run.journal[0][2].deployed


class TestDeployment:
    @pytest.mark.requirement("S6-11", "S7-16")
    def test_first_what_reads_nothing(self):
        assert all_deployed(submitted("A*2 => B", "C => B")) == ["A[0]#0", "A[1]#0", "C[0]#0"]

    @pytest.mark.requirement("S6-11", "S7-16")
    def test_a_consumer_when_its_last_input_is_complete(self):
        run = submitted("A*2 => C", "B => C")
        assert run.finish("A").deployed == []
        assert run.finish("B").deployed == ["C[0]#0"]

    @pytest.mark.requirement("S6-11")
    def test_pointwise_too_a_consumer_waits_for_the_whole_result(self):
        run = submitted("A*2 =1> B*2")
        assert run.finish("A[0]").deployed == []
        assert run.finish("A[1]").deployed == ["B[0]#0", "B[1]#0"]

    @pytest.mark.parametrize("arrow", ["->", "-1>", "~>", "+>"])
    def test_what_is_not_stored_is_deployed_with_its_consumer(self, arrow):
        run = submitted(f"A => B*2 {arrow} C*2")
        (deploy,) = run.finish("A").of(act.Deploy)
        assert [str(one.attempt) for one in deploy.deployments] == ["B[0]#0", "B[1]#0", "C[0]#0", "C[1]#0"]

    def test_the_consumer_of_a_shuffle_is_not_deployed_before_it(self):
        assert all_deployed(submitted("A => map ~> B")) == ["A[0]#0"]

    def test_a_shuffle_may_be_deployed_before_its_consumer(self):
        run = submitted("K +> B", "A => B")
        assert all_deployed(run) == ["K[0]#0", "A[0]#0"]
        assert run.finish("A").deployed == ["B[0]#0"]

    def test_a_pipelined_producer_waits_for_what_its_consumer_waits_for(self):
        run = submitted("A -> C", "B => C")
        assert all_deployed(run) == ["B[0]#0"]
        assert run.finish("B").deployed == ["A[0]#0", "C[0]#0"]

    @pytest.mark.requirement("S7-17")
    def test_a_deployment_says_which_version_to_write(self):
        run = submitted("A")
        run.finish("A")
        (deploy,) = run.loses("A/0").of(act.Deploy)
        assert [(str(one.attempt), one.version, one.speculative) for one in deploy.deployments] == [
            ("A[0]#1", 2, False)
        ]

    def test_what_has_been_deployed_lets_its_consumer_run_although_it_would_have_to_wait_now(self):
        run = submitted("A => K +> B", "A => D", A={"deterministic": True})
        run.finish("A")
        run.finish("K")
        run.loses("A/0").restarts("A[0] D[0]")
        assert run.fails("B[0]").deployed == ["B[0]#1"]

    def test_to_submit_twice_deploys_once(self):
        run = submitted("A")
        assert run.see(run.journal[0][0]) == []

    @pytest.mark.requirement("S2-16")
    def test_the_first_attempts_were_created_when_the_job_began(self):
        run = Run(job("A => B"))
        for run.now in (3.0, 4.0):
            run.submit()
            assert [run.graph.execution_vertices(name)[0].representative.created_at for name in "AB"] == [3.0, 3.0]


@pytest.mark.requirement("S7-22", "S7-23", "S7-25")
class TestRelease:
    def test_when_its_consumer_has_finished_and_nobody_reads_on(self):
        run = submitted("A*2 => B*2")
        run.finish("A")
        assert run.finish("B[0]").released == []
        assert run.finish("B[1]").released == ["A"]
        assert run.graph.output(ResultPartitionID("A", 0)) is None

    def test_not_before_all_of_its_consumers_have(self):
        run = submitted("A => B", "A => C")
        run.finish("A")
        assert run.finish("B").released == []
        assert run.finish("C").released == ["A"]

    def test_not_while_its_consumers_result_is_still_to_be_read(self):
        """It could be lost, and would have to be made again."""
        run = submitted("A => B => C => D")
        run.finish("A")
        assert run.finish("B").released == []
        assert run.finish("C").released == ["A"]
        assert run.finish("D").released == ["B", "C"]

    def test_not_while_a_consumer_could_restart_along(self):
        """B would restart with P, which D still reads (S7-5), and would read A again."""
        run = submitted("A => B", "P => B", "P => D")
        run.finish("A")
        run.finish("P")
        assert run.finish("B").released == []
        assert run.finish("D").released == ["A", "P"]

    def test_looking_through_a_shuffle_which_may_be_gone(self):
        run = submitted("A => m ~> B => n ~> C => D")
        run.finish("A")
        run.finish("m")
        assert run.finish("B").released == []
        assert run.finish("n").released == ["A"]
        assert run.finish("C").released == []
        assert run.finish("D").released == ["B", "C"]

    def test_once(self):
        run = submitted("A => B => C", "B => D")
        run.finish("A")
        run.finish("B")
        released = run.finish("C").released + run.finish("D").released
        assert released == ["A", "B"]

    def test_what_was_released_is_made_again_if_two_generations_are_lost(self):
        run = submitted("A => B => C => D")
        for name in "ABC":
            run.finish(name)
        run.loses("B/0").restarts_nothing()
        run.loses("C/0").restarts("A[0] B[0] C[0] D[0]")
        assert [run.finish(name).released for name in "ABCD"] == [[], [], ["A"], ["B", "C"]]

    def test_a_region_has_finished_with_its_last_vertex(self):
        run = submitted("A => B -> C")
        run.finish("A")
        assert run.finish("B").released == []
        assert run.finish("C").released == ["A"]

    def test_a_consumer_that_has_to_run_again_still_reads(self):
        run = submitted("A => B*2")
        run.finish("A")
        run.finish("B[0]")
        run.loses("B/0")
        assert run.finish("B[1]").released == []
        assert run.finish("B[0]").released == ["A"]

    @pytest.mark.requirement("S7-19", "S7-20", "S6-4")
    def test_a_result_is_released_as_a_whole_after_it_was_read_often(self):
        run = submitted("A*2 => B*2", "A => C")
        run.finish("A")
        run.finish("B[0]")
        assert run.fails("B[1]").deployed == ["B[1]#1"]
        run.fails("C[0]").restarts_nothing()
        run.finish("B[1]")
        (release,) = run.finish("C").of(act.Release)
        assert release == act.Release("A")

    def test_what_a_suspect_reads_is_kept(self):
        run = submitted("A => B => C", "P => B", "P => D")
        run.finish("A")
        run.finish("P", digest="x")
        run.finish("B")
        run.finish("C")
        run.loses("P/0")
        assert "B[0]" in names(run.graph.suspects())
        assert run.finish("P", digest="x").released == []
        assert sorted(run.finish("D").released) == ["A", "B", "P"]

    def test_finished_for_good(self):
        run = submitted("A => B => C")
        run.finish("A")
        run.finish("B")
        assert [run.graph.is_finished_for_good(name) for name in "ABC"] == [False, False, False]
        run.finish("C")
        assert [run.graph.is_finished_for_good(name) for name in "ABC"] == [True, True, True]


class TestTheEnd:
    def test_when_all_results_are_there(self):
        run = submitted("A => B", "C")
        run.finish("A")
        assert not run.finish("B").of(act.Finish)
        assert run.finish("C")[-1] == act.Finish()
        assert run.graph.is_done

    def test_once(self):
        run = submitted("A")
        run.finish("A")
        assert run.see(ev.Tick()) == []
        assert run.see(ev.JobSubmitted()) == []

    @pytest.mark.parametrize("arrow", ["~>", "+>"])
    def test_not_waiting_for_what_only_passed_on(self, arrow):
        run = submitted(f"A {arrow} B", f"C {arrow} B")
        answer = run.finish("B")
        assert answer.canceled == ["A[0]#0", "C[0]#0"]
        assert {cancel.reason for cancel in answer.of(act.Cancel)} == {"all who read it have finished"}
        assert answer[-1] == act.Finish()

    @pytest.mark.requirement("S7-7")
    def test_not_while_it_is_open_whether_a_vertex_must_restart(self):
        run = submitted("map ~> B*2")
        run.finish("map", digest="x")
        run.finish("B[0]")
        run.loses("map/0")
        assert not run.finish("B[1]").of(act.Finish)
        assert run.finish("map", digest="x")[-1] == act.Finish()


def test_a_job_knows_its_graph():
    graph = job("A => B")
    assert Run(graph).graph.job_graph == graph


def test_of_no_vertex_nothing_can_be_read():
    assert submitted("A").graph.output(ResultPartitionID("nowhere", 0)) is None
