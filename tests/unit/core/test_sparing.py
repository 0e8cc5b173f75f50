"""Finished consumers are spared a restart when the second run gives the same rows, by digest."""

import pytest

from rekindle.core import actions as act
from rekindle.core.options import SpeculationOptions
from tests.unit.core.dsl import Run, job, names

pytestmark = pytest.mark.requirement("S7-7", "S7-8")


def suspects(run: Run) -> set[str]:
    return names(run.graph.suspects())


def two_consumers(**attributes) -> Run:
    """C and D read A; C has finished, D has not. C is read by E."""
    run = Run(job("A*2 => C*2 => E", "A => D", **attributes)).submit()
    for subtask in (0, 1):
        run.finish(f"A[{subtask}]", digest=f"rows {subtask}")
    run.finish("C")
    return run


class TestADigest:
    def test_a_finished_consumer_is_held_and_an_unfinished_one_restarts(self):
        run = two_consumers()
        run.loses("A/0").restarts("A[0] D[0]")
        assert suspects(run) == {"C[0]", "C[1]"}
        assert run.versions("C") == [1, 1]

    def test_that_is_equal_spares_it(self):
        run = two_consumers()
        run.loses("A/0")
        answer = run.finish("A[0]", digest="rows 0")
        assert answer.spared == {"C[0]", "C[1]"}
        assert answer.of(act.Spare)[0].reason == "what they read was made again, with equal digests"
        assert answer.restarted == set()
        assert suspects(run) == set()
        assert run.graph.metrics().num_spared_vertices == 2

    def test_that_differs_restarts_it_and_what_reads_it(self):
        run = two_consumers()
        run.loses("A/0")
        answer = run.finish("A[0]", digest="other rows").restarts("C[0] C[1] E[0]")
        assert answer.of(act.Restart)[0].cause == "A/0 differs from the lost one"
        assert set(answer.deployed) == {"C[0]#1", "C[1]#1", "D[0]#1"}
        assert suspects(run) == set()

    def test_that_is_unknown_the_second_time_restarts_it(self):
        run = two_consumers()
        run.loses("A/0")
        run.finish("A[0]", digest=None).restarts("C[0] C[1] E[0]")

    def test_that_was_unknown_the_first_time_does_not_hold_it(self):
        run = Run(job("A => C", "A => D")).submit()
        run.finish("A", digest=None)
        run.finish("C")
        run.loses("A/0").restarts("A[0] C[0] D[0]")
        assert suspects(run) == set()

    def test_all_of_those_lost_must_be_equal(self):
        run = two_consumers()
        run.loses("A/0 A/1")
        assert run.finish("A[0]", digest="rows 0").spared == set()
        assert suspects(run) == {"C[0]", "C[1]"}
        assert run.finish("A[1]", digest="rows 1").spared == {"C[0]", "C[1]"}

    def test_one_that_differs_is_enough(self):
        run = two_consumers()
        run.loses("A/0 A/1")
        run.finish("A[0]", digest="other rows").restarts("C[0] C[1] E[0]")
        assert run.finish("A[1]", digest="rows 1").deployed == ["C[0]#1", "C[1]#1", "D[0]#1"]

    def test_that_is_unknown_of_another_that_is_lost_as_well_ends_the_waiting(self):
        run = Run(job("A*2 => C", "A => D")).submit()
        run.finish("A[0]", digest="x")
        run.finish("A[1]", digest=None)
        run.finish("C")
        run.loses("A/0").restarts("A[0] D[0]")
        assert suspects(run) == {"C[0]"}
        run.loses("A/1").restarts("A[1] C[0]")
        assert suspects(run) == set()

    def test_that_differs_restarts_at_once_what_need_not_wait_for_the_others(self):
        run = Run(job("map*2 ~> B*2")).submit()
        run.finish("map", digest="x")
        run.finish("B[0]")
        run.loses_driver().restarts("map[0] map[1] B[1]")
        assert run.finish("map[0]", digest="y").restarts("B[0]").deployed == ["B[0]#1"]

    @pytest.mark.requirement("S2-39")
    def test_is_told_by_whichever_attempt_finishes_first(self):
        run = Run(job("A => C", "A => D"), speculation=SpeculationOptions(enabled=True)).submit()
        run.finish("A", digest="x")
        run.finish("C")
        run.loses("A/0")
        run.deploy("A").slow("A[0]#1")
        answer = run.finish("A[0]#2", digest="x", node="n2")
        assert (answer.canceled, answer.spared) == (["A[0]#1"], {"C[0]"})


class TestTheSwitch:
    def test_deterministic_false_turns_the_proof_off(self):
        run = two_consumers(A={"deterministic": False})
        run.loses("A/0").restarts("A[0] C[0] C[1] D[0] E[0]")

    def test_deterministic_true_spares_without_the_proof(self):
        run = two_consumers(A={"deterministic": True})
        run.loses("A/0").restarts("A[0] D[0]")
        assert suspects(run) == set()
        run.finish("A[0]", digest="other rows").restarts_nothing()

    def test_it_is_the_producers_that_counts(self):
        run = two_consumers(C={"deterministic": True})
        run.loses("A/0")
        assert suspects(run) == {"C[0]", "C[1]"}


class TestWhoIsHeld:
    def test_only_who_restarts_for_no_other_reason(self):
        """B cannot be compared, and C reads B too."""
        run = Run(job("A => C", "B => C", "A => D", "B => D")).submit()
        run.finish("A", digest="x")
        run.finish("B", digest=None)
        run.finish("C")
        run.loses("A/0 B/0").restarts("A[0] B[0] C[0] D[0]")

    def test_by_two_producers_until_both_are_proven(self):
        run = Run(job("A => C", "B => C", "A => D", "B => D")).submit()
        run.finish("A", digest="x")
        run.finish("B", digest="y")
        run.finish("C")
        run.loses("A/0 B/0").restarts("A[0] B[0] D[0]")
        assert run.finish("A", digest="x").spared == set()
        assert run.finish("B", digest="y").spared == {"C[0]"}

    def test_pointwise_each_by_the_partitions_it_reads(self):
        run = Run(job("A*2 =1> C*2", "A => D")).submit()
        run.finish("A[0]", digest="x")
        run.finish("A[1]", digest="y")
        run.finish("C")
        run.loses("A/1").restarts("A[1] D[0]")
        assert suspects(run) == {"C[1]"}
        run.loses("A/0").restarts("A[0]")
        assert suspects(run) == {"C[0]", "C[1]"}
        run.finish("A[0]", digest="other").restarts("C[0]")
        assert suspects(run) == {"C[1]"}
        assert run.finish("A[1]", digest="y").spared == {"C[1]"}

    def test_pointwise_too_they_stay_held_when_the_second_run_fails(self):
        run = Run(job("A*2 =1> C*2", "A =1> D*2")).submit()
        run.finish("A[0]", digest="x")
        run.finish("A[1]", digest="y")
        run.finish("C")
        run.loses("A/0").restarts("A[0] D[0]")
        run.fails("A[0]").restarts_nothing()
        assert suspects(run) == {"C[0]"}

    def test_not_a_vertex_of_a_larger_region(self):
        run = Run(job("A => C -> E", "A => D")).submit()
        run.finish("A", digest="x")
        run.finish("C")
        run.finish("E")
        run.loses("A/0").restarts("A[0] C[0] D[0] E[0]")


class TestWhileItIsOpen:
    def test_consumers_of_a_suspect_go_on(self):
        run = two_consumers()
        run.loses("A/0")
        assert run.states("E[0]") == ["SCHEDULED"]
        run.finish("E")
        run.finish("A[0]", digest="other rows").restarts("C[0] C[1] E[0]")

    def test_a_finished_consumer_of_a_suspect_is_a_suspect_in_its_turn(self):
        run = Run(job("A => C => E", "A => D")).submit()
        run.finish("A", digest="x")
        run.finish("C", digest="y")
        run.finish("E")
        run.loses("A/0")
        run.finish("A", digest="other").restarts("C[0]")
        assert suspects(run) == {"E[0]"}
        assert run.finish("C", digest="y").spared == {"E[0]"}

    def test_the_job_is_not_over(self):
        run = two_consumers()
        run.loses("A/0")
        run.finish("E")
        assert not run.graph.is_done

    def test_a_failed_second_run_is_tried_again_and_they_stay_held(self):
        run = two_consumers()
        run.loses("A/0")
        assert run.fails("A[0]").restarts_nothing().deployed == ["A[0]#2"]
        assert suspects(run) == {"C[0]", "C[1]"}
        assert run.finish("A[0]", digest="rows 0").spared == {"C[0]", "C[1]"}

    def test_the_first_digest_is_what_counts_when_the_second_run_is_lost_as_well(self):
        run = two_consumers()
        run.loses("A/0 A/1")
        run.finish("A[0]", digest="rows 0")
        run.loses("A/0")
        run.finish("A[1]", digest="rows 1")
        assert suspects(run) == {"C[0]", "C[1]"}
        assert run.finish("A[0]", digest="rows 0").spared == {"C[0]", "C[1]"}

    def test_a_lost_driver_changes_nothing_about_it(self):
        run = two_consumers()
        run.loses("A/0")
        run.loses_driver()
        assert suspects(run) == {"C[0]", "C[1]"}
        assert run.finish("A[0]", digest="rows 0").spared == {"C[0]", "C[1]"}

    def test_a_suspect_whose_own_partition_is_lost_restarts(self):
        run = two_consumers()
        run.loses("A/0")
        run.loses("C/0").restarts("C[0] E[0]")
        assert suspects(run) == {"C[1]"}


class TestTheShuffleInsideAStage:
    """The map side carries a digest of all it has put out."""

    def stage(self, digest: str | None = "x", **attributes) -> Run:
        run = Run(job("map ~> B*3 => C", **attributes)).submit()
        run.finish("map", digest=digest)
        run.finish("B[0]")
        run.finish("B[1]")
        return run

    def test_after_a_lost_driver_committed_partitions_are_held(self):
        run = self.stage()
        run.loses_driver().restarts("map[0] B[2]")
        assert suspects(run) == {"B[0]", "B[1]"}

    def test_and_kept_when_the_map_side_comes_out_equal(self):
        run = self.stage()
        run.loses_driver()
        assert run.finish("map", digest="x").spared == {"B[0]", "B[1]"}
        assert run.finish("B[2]").deployed == ["C[0]#0"]

    def test_and_written_again_when_it_does_not(self):
        run = self.stage()
        run.loses_driver()
        run.finish("map", digest="y").restarts("B[0] B[1]")
        assert run.versions("B") == [2, 2, 2]

    def test_without_a_digest_they_are_written_again_at_once(self):
        self.stage(digest=None).loses_driver().restarts("map[0] B[0] B[1] B[2]")

    def test_and_also_when_the_map_side_had_not_ended(self):
        """Nobody knows what they had read."""
        run = Run(job("map ~> B*2")).submit()
        run.finish("B[0]")
        run.loses_driver().restarts("map[0] B[0] B[1]")

    def test_and_also_when_part_of_the_map_side_had_not_ended(self):
        run = Run(job("map*2 ~> B*2")).submit()
        run.finish("map[0]", digest="x")
        run.finish("B[0]")
        run.loses("map/0").restarts("map[0] B[0] B[1]")

    def test_pointwise_too_where_a_part_that_it_reads_had_not_ended(self):
        run = Run(job("map*4 ~1> B*2", "map ~> D")).submit()
        run.finish("map[0]", digest="x")
        run.finish("B[0]")
        run.loses("map/0").restarts("map[0] B[0] D[0]")

    def test_and_when_it_is_lost_again_before_it_ended(self):
        run = self.stage()
        run.loses_driver()
        run.finish("B[2]")  # from the second map side, whose digest is not known
        run.loses("map/0").restarts("map[0] B[2] C[0]")
        assert suspects(run) == {"B[0]", "B[1]"}

    def test_deterministic_false_writes_them_again(self):
        run = self.stage(map={"deterministic": False})
        run.loses_driver().restarts("map[0] B[0] B[1] B[2]")


class TestWhatItReadsHasChanged:
    """A => map ~> B => C, and C reads A too: so when C cannot read A, A is made again with B finished."""

    def stage(self, **flags: bool | None) -> Run:
        promise = {"deterministic": flags.pop("promise", None)}
        run = Run(job("A*2 => map ~> B*2 => C", "A => C", map=promise, B=promise, A=flags)).submit()
        for name in ("A", "map", "B"):
            run.finish(name, digest="x" if name != "A" else None)
        return run.deploy("C")

    def test_no_promise_holds_for_other_input(self):
        self.stage(promise=True).fails("C[0]", cannot_read="A/0").restarts("A[0] map[0] B[0] B[1] C[0]")

    def test_a_promise_holds_for_the_same_input(self):
        self.stage(promise=True, deterministic=True).fails("C[0]", cannot_read="A/0").restarts("A[0] C[0]")

    def test_nobody_waits_for_a_shuffle_that_no_task_asks_for(self):
        """Its digest would show whether B fits; but B has finished, so nothing makes the shuffle."""
        self.stage().fails("C[0]", cannot_read="A/0").restarts("A[0] map[0] B[0] B[1] C[0]")

    def test_an_input_that_differs_from_the_lost_one_voids_the_promise(self):
        run = Run(job("A => B => C => D", "A => D", B={"deterministic": True})).submit()
        for name in ("A", "B", "C"):
            run.finish(name, digest="x")
        run.deploy("D")
        run.fails("D[0]", cannot_read="A/0").restarts("A[0] D[0]")
        assert run.finish("A", digest="y").restarted == {"B[0]"}
        assert names(run.graph.suspects()) == {"C[0]"}  # not spared unseen
        assert "C[0]" in run.finish("B", digest="y").restarted


@pytest.mark.requirement("S7-6", "S7-7")
class TestAPromiseWhileWhatIsReadIsMadeAgain:
    """B promises the same rows from the same input; its input is under way, and may be another."""

    def test_of_one_that_is_held_for_its_input(self):
        run = Run(job("A => B => C", "A => D", "B => E", B={"deterministic": True})).submit()
        run.finish("A", digest="x")
        run.finish("B")
        run.finish("C")
        run.loses("A/0").restarts("A[0] D[0]")
        assert names(run.graph.suspects()) == {"B[0]"}
        run.loses("B/0").restarts("B[0] C[0] E[0]")

    def test_of_one_that_is_lost_together_with_its_input(self):
        """It restarts anyway, so nobody waits to see whether its input differs."""
        run = Run(job("A => B => C", "A => D", "B => E", B={"deterministic": True})).submit()
        run.finish("A", digest="x")
        run.finish("B")
        run.finish("C")
        run.loses("A/0 B/0").restarts("A[0] B[0] C[0] D[0] E[0]")

    def test_of_one_that_is_lost_together_with_what_its_input_is_made_of(self):
        """A promises too, but from Q's rows, which may be others."""
        promise = {"deterministic": True}
        run = Run(job("Q => A => B => C", "Q => D", "B => E", A=promise, B=promise)).submit()
        for name in "QABC":
            run.finish(name)
        run.loses("Q/0 B/0").restarts("Q[0] A[0] B[0] C[0] D[0] E[0]")

    def test_of_one_that_waits_to_run_again(self):
        promise = {"deterministic": True}
        run = Run(job("A => B => C", "Q => B => E", B=promise, Q=promise)).submit()
        for name in "AQBC":
            run.finish(name)
        run.loses("B/0 Q/0").restarts("Q[0] B[0] E[0]")
        run.loses("A/0").restarts("A[0] C[0]")

    def test_pointwise_of_those_that_read_what_is_made_again(self):
        promise = {"deterministic": True}
        run = Run(job("A*2 =1> B*2 =1> C*2", "Q*2 =1> B =1> E*2", B=promise, Q=promise)).submit()
        for name in "AQBC":
            run.finish(name)
        run.loses("B/0 B/1 Q/0 Q/1").restarts("Q[0] Q[1] B[0] B[1] E[0] E[1]")
        run.loses("A/0").restarts("A[0] C[0]")

    def test_not_if_the_input_is_promised_too(self):
        promise = {"deterministic": True}
        run = Run(job("A => B => C", "Q => B => E", A=promise, B=promise, Q=promise)).submit()
        for name in "AQBC":
            run.finish(name)
        run.loses("B/0 Q/0")
        run.loses("A/0").restarts("A[0]")

    def test_nor_if_what_the_input_promises_is_doubted(self):
        promise = {"deterministic": True}
        run = Run(job("A => B => C", "Q => B => E", A=promise, B=promise, Q=promise)).submit()
        for name in "AQBC":
            run.finish(name)
        run.loses("B/0 Q/0")
        run.reruns("A").restarts("A[0] C[0]")


class TestOneThatIsHeldNeedsNothingMeanwhile:
    def test_a_cached_input_that_was_given_up_stays_so(self):
        run = Run(job("K +> B => E", "P => B", "P => D")).submit()
        run.finish("P", digest="x")
        assert run.finish("B").canceled == ["K[0]#0"]
        run.loses("P/0").restarts("P[0] D[0]")
        run.canceled("K[0]#0").restarts_nothing()
        run.finish("P", digest="x")
        assert run.finish("E").of(act.Finish) or run.finish("D").of(act.Finish)

    def test_the_job_is_not_over_before_the_proof(self):
        run = Run(job("K +> map ~> B")).submit()
        for name in ("K", "map", "B"):
            run.finish(name, digest="x")
        assert not run.reruns("K").of(act.Finish)
        assert run.finish("K", digest="x").of(act.Finish)


@pytest.mark.requirement("S7-4", "S7-14")
def test_what_cannot_be_read_behind_two_kept_results_is_made_again_with_both():
    promise = {"deterministic": True}
    run = Run(job("A => K +> map ~> B*2", A=promise, K=promise, map=promise, B=promise)).submit()
    for name in ("A", "K", "map", "B[0]"):
        run.finish(name)
    run.deploy("B[1]")
    run.fails("B[1]", cannot_read="A/0").restarts("A[0] K[0] map[0] B[1]")


@pytest.mark.requirement("S7-4", "S7-14")
@pytest.mark.parametrize("promise", [None, True])
def test_what_cannot_be_read_behind_a_shuffle_is_made_again_with_the_shuffle(promise):
    """The map side has finished, and is made again because an executor is gone: its input is needed after all."""
    flags = {"deterministic": promise}
    run = Run(job("A*2 => map ~> B*2", map=flags, B=flags, A={"deterministic": True})).submit()
    run.finish("A")
    run.finish("map")
    run.finish("B[0]")
    run.deploy("B[1]")
    again = "A[0] map[0] B[1]" if promise else "A[0] map[0] B[0] B[1]"
    run.fails("B[1]", cannot_read="A/0").restarts(again)
