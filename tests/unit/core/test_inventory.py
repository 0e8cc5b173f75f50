"""An inventory says enough of a job: a graph restored from it plans as the one that it was taken from."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.events import AttemptFinished, DriverLost, PartitionOutput, PartitionsLost
from rekindle.core.graph import ExecutionGraph
from rekindle.core.inventory import JobInventory
from rekindle.core.options import FailoverOptions
from rekindle.core.ranges import ranges_of, subtasks_of
from rekindle.core.recovery_plan import RecoveryPlan, plan_driver_lost, plan_of, stored_partitions
from tests.unit.core.dsl import Run, job
from tests.unit.core.test_replay import play, rolls_of_dice, runs


def restored(run: Run, inventory: JobInventory) -> ExecutionGraph:
    """A graph of the same job, with the same options."""
    new = ExecutionGraph(run.job_graph, **run.options)
    new.restore(inventory)
    return new


@given(st.sets(st.integers(0, 40)))
def test_ranges_are_the_subtasks_in_as_few_pairs_as_there_can_be(subtasks):
    ranges = ranges_of(subtasks)
    assert list(subtasks_of(ranges)) == sorted(subtasks)
    assert all(later - last > 1 for (_, last), (later, _) in pairwise(ranges))


@pytest.mark.requirement("S7-9", "S7-12", "S6-22")
@given(run=runs(), rolls=rolls_of_dice)
def test_the_plan_for_a_lost_driver_is_the_job_masters_own(run, rolls):
    """Whatever has happened to the job."""
    play(run, rolls)
    inventory = run.graph.inventory()
    again = restored(run, inventory)
    assert again.inventory() == inventory
    again.validate_state()
    planned = plan_driver_lost(again, "gone", run.now)
    assert planned == plan_of(run.graph, run.graph.handle(DriverLost("gone"), run.now))


@pytest.mark.requirement("S7-9", "S7-12")
@given(run=runs(), rolls=rolls_of_dice, lost=st.integers(0, 1))
def test_so_is_the_plan_for_a_driver_that_is_lost_with_a_volume(run, rolls, lost):
    play(run, rolls)
    again = restored(run, run.graph.inventory())
    planned = plan_driver_lost(again, "gone", run.now, lambda subtask: subtask % 2 == lost)
    again.validate_state()
    # what the next driver tells its graph, which has looked at the store
    gone = tuple(one for one in stored_partitions(run.graph) if one.subtask % 2 == lost)
    actions = run.graph.handle(PartitionsLost(gone, "gone"), run.now) if gone else []
    assert planned == plan_of(run.graph, [*actions, *run.graph.handle(DriverLost("gone"), run.now)])


@pytest.mark.requirement("S7-2", "S7-4", "S7-14")
def test_a_lost_volume_costs_its_share_of_what_somebody_will_read():
    """A was made, three of B are there, and the sink S is not read by anybody but shown."""
    run = Run(job("A*4 => B*4 => C*4", "A => S*2")).submit()
    run.finish("A")
    run.finish("S")
    for subtask in range(3):
        run.finish(f"B[{subtask}]")
    plan = plan_driver_lost(run.graph, "gone", run.now, lambda subtask: subtask % 2 == 1)
    assert plan.restart == {"A": ((1, 1), (3, 3)), "B": ((0, 3),), "S": ((0, 1),)}
    assert plan.reused == 2


@pytest.mark.requirement("S7-2", "S7-14")
def test_what_a_lost_partition_was_made_of_may_be_lost_too():
    """Nobody would read A again if B were there."""
    run = Run(job("A*2 => B*2 => C*2")).submit()
    run.finish("A")
    run.finish("B")
    plan = plan_driver_lost(run.graph, "gone", run.now, lambda subtask: subtask == 0)
    assert plan.restart == {"A": ((0, 0),), "B": ((0, 1),), "C": ((0, 1),)}


def test_of_a_partition_without_rows_a_volume_loses_nothing():
    run = Run(job("A*2 => B")).submit()
    for subtask, size in ((0, 0), (1, 8)):
        [attempt] = run.attempts(f"A[{subtask}]")
        run.see(AttemptFinished(attempt, run.now, PartitionOutput(0, size)))
    plan = plan_driver_lost(restored(run, run.graph.inventory()), "gone", run.now, lambda subtask: True)
    assert plan.restart == {"A": ((1, 1),), "B": ((0, 0),)}
    assert plan.reused == 1


def test_a_job_that_had_failed_loses_volumes_too():
    run = Run(job("A*2 => B*2"), failover=FailoverOptions(max_failures_per_task=1)).submit()
    run.finish("A")
    while not run.graph.has_failed:
        run.fails("B[0]")
    plan = plan_driver_lost(run.graph, "gone", run.now, lambda subtask: subtask == 0)
    assert plan.restart == {"A": ((0, 0),), "B": ((0, 1),)}


def test_losses_of_a_chain_that_promises_the_same_rows_cost_no_more_than_themselves():
    """One event for all of them: what is made again in one is not changed under another that reads it."""
    flags = {"deterministic": True}
    run = Run(job("A*4 => m", "m ~> B*4 => C*4", A=flags, m=flags, B=flags, C=flags)).submit()
    for name in ("A", "m", "B[0]", "B[1]", "B[3]"):
        run.finish(name)
    plan = plan_driver_lost(run.graph, "gone", run.now, lambda subtask: subtask % 2 == 1)
    assert plan.restart == {"A": ((1, 1), (3, 3)), "m": ((0, 0),), "B": ((1, 3),)}


@pytest.mark.requirement("S7-23")
def test_what_is_stored_and_not_released_is_looked_for():
    run = Run(job("A*2 => m", "m ~> B*2 => C*2 => D")).submit()
    for name in ("A", "m", "B", "C[0]"):
        run.finish(name)
    run.loses("B/1")
    assert sorted(map(str, stored_partitions(run.graph))) == ["A/0", "A/1", "B/0"]
    for name in ("m", "B", "C", "D"):
        run.finish(name)
    assert sorted(map(str, stored_partitions(run.graph))) == ["D/0"]


@pytest.mark.requirement("S7-2", "S7-4")
def test_a_plan_tells_what_begins_again_what_stays_and_what_is_left():
    """Two stages that shuffle: the first is stored, and of the second's four partitions two are."""
    run = Run(job("A*3 => m", "m ~> B*4 => C*2")).submit()
    for name in ("A[0]", "A[1]", "A[2]", "m[0]", "B[0]", "B[2]"):
        run.finish(name)
    plan = plan_driver_lost(restored(run, run.graph.inventory()), "gone", run.now)
    assert plan == RecoveryPlan({"m": ((0, 0),), "B": ((0, 3),)}, 3, {"m": 1, "B": 4, "C": 2})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda old: {"X": old["A"]}, "X is no vertex of job graph test"),
        (lambda old: {"B": old["A"]}, "subtasks 0 to 2 of B, which has 2"),
    ],
)
def test_an_inventory_of_another_job_is_refused_by_name(change, said):
    run = Run(job("A*3 => B*2")).submit()
    run.finish("A")
    inventory = JobInventory(change(run.graph.inventory().groups))
    with pytest.raises(ValueError, match=said):
        restored(run, inventory)
