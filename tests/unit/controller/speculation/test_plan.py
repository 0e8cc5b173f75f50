"""What is done about slow tasks: which steps, in which order, and which are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.controller.speculation.detection import SlowTask
from rekindle.controller.speculation.executors import Executor
from rekindle.controller.speculation.plan import (
    MOVE_SECONDS,
    AskForBlock,
    Drain,
    Duplicate,
    Remove,
    Situation,
    steps_for,
)
from rekindle.core.skew import Blame

FIRST = 1_000_000


def executor(
    number: int, node: str, *, terminating: bool = False, pending: bool = False, profile: str = "0", grace: int = 3600
) -> Executor:
    return Executor(
        id=number,
        pod=f"app-exec-{number}",
        uid=f"uid-{number}",
        node="" if pending else node,
        is_running=not pending,
        is_terminating=terminating,
        is_duplicate=number >= FIRST,
        profile=profile,
        grace=grace if terminating else 0,
    )


def slow(task: str = "stage 1.0[7]", node: str = "n1", blame: Blame = Blame.NODE, copies: int = 1) -> SlowTask:
    return SlowTask(task, "1", node, "running for 9 s", blame, copies)


E1, E2, E3 = executor(1, "n1"), executor(2, "n2"), executor(3, "n3")
COPY = executor(FIRST, "n2")


def steps(*executors: Executor, **more: Any) -> list[Any]:
    situation: dict[str, Any] = {
        "executors": executors or (E1, E2, E3),
        "slow": (),
        "blocked": {},
        "instances": 3,
        "slots": 1,
        "most_duplicates": 2,
        "block_seconds": 60.0,
        "quiet_seconds": 0.0,
        "waiting_seconds": 1000.0,
        "is_answered": True,
    }
    return steps_for(Situation(**{**situation, **more}))


def kinds(found: list[Any]) -> list[type]:
    return [type(step) for step in found]


@pytest.mark.requirement("S2-36", "S3-5")
def test_first_the_node_is_blocked_and_nothing_else_before_it_is():
    assert kinds(steps(slow=[slow()])) == [AskForBlock]
    [ask] = steps(slow=[slow()])
    assert (ask.node, ask.cause) == ("n1", "slow task stage 1.0[7]: running for 9 s")


@pytest.mark.requirement("S3-12")
def test_all_nodes_of_slow_tasks_are_asked_for_once_each():
    found = steps(slow=[slow("a[0]", "n1"), slow("a[1]", "n1"), slow("a[2]", "n2")])
    assert [step.node for step in found] == ["n1", "n2"]


@pytest.mark.parametrize("blame", [Blame.SKEW, Blame.UNKNOWN])
def test_skew_blocks_no_node_and_makes_no_duplicate(blame):
    assert steps(slow=[slow(blame=blame)]) == []
    assert steps(slow=[slow(blame=blame)], blocked={"n9": False}) == []


@pytest.mark.requirement("S2-36", "S2-38", "S3-3")
def test_once_the_node_is_blocked_its_executors_are_drained_and_duplicated_elsewhere():
    found = steps(slow=[slow()], blocked={"n1": False})
    assert kinds(found) == [AskForBlock, Drain, Duplicate]
    assert (found[1].executor, found[1].at_once) == (E1, False)
    assert (found[2].count, found[2].avoid) == (1, frozenset()), "the label of the node keeps it off"
    assert found[2].original in (E2, E3), "one that stays is the model"


@pytest.mark.requirement("S2-47")
def test_the_same_again_makes_nothing_twice():
    draining = executor(1, "n1", terminating=True)
    assert kinds(steps(draining, E2, E3, COPY, slow=[slow()], blocked={"n1": False})) == [AskForBlock]
    pending = executor(FIRST, "n2", pending=True)
    assert kinds(steps(draining, E2, E3, pending, slow=[slow()], blocked={"n1": False})) == [AskForBlock]


def test_a_block_that_somebody_else_wants_drains_too():
    assert kinds(steps(blocked={"n1": False})) == [Drain]
    draining = executor(1, "n1", terminating=True)
    assert kinds(steps(draining, E2, E3, blocked={"n1": False})) == [Duplicate]


@pytest.mark.requirement("S3-3")
def test_of_a_pipeline_only_tasks_that_are_to_be_moved_are():
    """Its job master excludes executors, and asks for blocks, itself."""
    found = steps(slow=[slow()], blocked={"n1": False}, copies_itself=True)
    assert kinds(found) == [Duplicate]
    assert steps(blocked={"n1": True}, copies_itself=True) == [Drain(E1, at_once=True)]


def test_where_tasks_are_to_be_moved_executors_end_at_once():
    [drain] = steps(blocked={"n1": True})
    assert drain.at_once


class TestEvacuation:
    """The executor on the blocked node is drained already, and its task goes on."""

    DRAINING = executor(1, "n1", terminating=True)

    def step(self, *others: Executor, is_proven: bool = True, **more: Any) -> list[Any]:
        tasks = [replace(slow(), is_proven=is_proven)]
        more = {"evacuates": True, "now": MOVE_SECONDS, **more}
        found = steps(self.DRAINING, E2, E3, *others, slow=tasks, blocked={"n1": False}, **more)
        return [one for one in found if isinstance(one, Drain)]

    def test_once_the_duplicate_runs_the_executor_ends(self):
        assert self.step(COPY) == [Drain(self.DRAINING, at_once=True)]

    def test_not_before(self):
        assert self.step() == []
        assert self.step(executor(FIRST, "n2", pending=True)) == []

    def test_not_before_it_had_time_to_move_what_others_fetch(self):
        assert self.step(COPY, now=MOVE_SECONDS - 0.1) == []

    def test_duplicates_that_stand_for_others_are_no_room(self):
        """Of four two are drained, and one duplicate runs."""
        assert self.step(executor(4, "n1", terminating=True), COPY) == []

    def test_not_where_all_others_are_gone(self):
        tasks = [replace(slow(), is_proven=True)]
        more = {"evacuates": True, "now": MOVE_SECONDS, "waiting_seconds": 0.0}
        assert steps(self.DRAINING, slow=tasks, blocked={"n1": False}, instances=None, **more) == [
            AskForBlock("n1", "slow task stage 1.0[7]: running for 9 s")
        ]

    def test_without_one_where_no_task_waits_for_a_slot(self):
        assert self.step(waiting_seconds=0.0) == [Drain(self.DRAINING, at_once=True)]

    def test_only_where_the_application_allows_it_and_the_node_is_proven_to_be_slow(self):
        assert self.step(COPY, evacuates=False) == []
        assert self.step(COPY, is_proven=False) == []

    def test_it_is_drained_first(self):
        found = steps(
            slow=[replace(slow(), is_proven=True)], blocked={"n1": False}, evacuates=True, waiting_seconds=0.0
        )
        assert Drain(E1, at_once=False) in found


def test_at_most_as_many_are_drained_as_are_left_elsewhere():
    crowd = [executor(number, "n1") for number in range(1, 10)]
    found = steps(*crowd, executor(10, "n2"), executor(11, "n3"), blocked={"n1": False}, instances=11)
    assert kinds(found) == [Drain, Drain]


def test_an_executor_is_drained_for_others_of_its_resource_profile_only():
    big = executor(4, "n1", profile="1")
    assert steps(E1, E2, big, blocked={"n1": False}) == [Drain(E1)]
    drained = executor(4, "n1", profile="1", terminating=True)
    [step] = steps(E2, executor(5, "n3", profile="1"), drained, blocked={"n1": False}, instances=None)
    assert step.original.profile == "1"


def test_an_executor_that_its_driver_removes_is_not_replaced():
    idle = executor(1, "n1", terminating=True, grace=30)
    assert steps(idle, E2, blocked={"n1": False}, instances=None) == []


def test_one_that_is_drained_ends_at_once_when_somebody_wants_more():
    drained = executor(1, "n1", terminating=True)
    assert Drain(drained, at_once=True) in steps(drained, E2, E3, COPY, blocked={"n1": True})
    ending = executor(1, "n1", terminating=True, grace=30)
    assert steps(ending, E2, E3, COPY, blocked={"n1": True}) == []


def test_in_a_dry_run_blocks_are_asked_for_and_nothing_else():
    assert kinds(steps(slow=[slow()], block_seconds=0.0, is_dry_run=True)) == []
    assert kinds(steps(slow=[slow()], blocked={"n1": False}, is_dry_run=True)) == [AskForBlock]


def test_no_executor_is_drained_where_none_is_left_elsewhere():
    alone = steps(E1, slow=[slow()], blocked={"n1": False}, instances=1, most_duplicates=1)
    assert kinds(alone) == [AskForBlock, Duplicate], "first another one"
    waiting = steps(E1, executor(FIRST, "n2", pending=True), blocked={"n1": False}, instances=1)
    assert kinds(waiting) == []
    there = steps(E1, COPY, slow=[slow()], blocked={"n1": False}, instances=1, most_duplicates=1)
    assert kinds(there) == [AskForBlock, Drain]


def test_as_many_duplicates_as_slow_tasks_need_within_the_share():
    many = [slow(f"a[{number}]") for number in range(9)]
    draining = executor(1, "n1", terminating=True)
    [_, step] = steps(draining, E2, E3, slow=many, blocked={"n1": False}, slots=4, most_duplicates=9)
    assert step.count == 3
    [_, step] = steps(draining, E2, E3, slow=many, blocked={"n1": False}, slots=4, most_duplicates=2)
    assert step.count == 2
    assert kinds(steps(draining, E2, E3, slow=many, blocked={"n1": False}, most_duplicates=0)) == [AskForBlock]


@pytest.mark.requirement("S2-6")
def test_tasks_that_have_all_the_attempts_that_they_may_need_no_duplicate():
    assert kinds(steps(slow=[slow(copies=0)], block_seconds=0.0)) == []
    assert kinds(steps(slow=[slow(copies=0)], blocked={"n1": False})) == [AskForBlock, Drain]


def test_an_original_that_dies_beside_duplicates_is_replaced_by_one_more():
    """Its driver counts the duplicates as its own, and makes none."""
    [step] = steps(E2, COPY, blocked={"n1": False}, instances=3)
    assert (type(step), step.count) == (Duplicate, 1)


def test_without_duplicates_the_driver_replaces_its_own():
    assert steps(E2, E3, instances=3) == []
    assert steps(executor(1, "n1", pending=True), instances=3) == []


def test_with_dynamic_allocation_only_what_is_drained_is_replaced():
    draining = executor(1, "n1", terminating=True)
    [step] = steps(draining, E2, blocked={"n1": False}, instances=None)
    assert (type(step), step.count) == (Duplicate, 1)
    assert steps(E2, COPY, blocked={"n1": False}, instances=None) == []


def test_a_driver_that_does_not_answer_gets_no_duplicates():
    """Its executors may be gone because it is about to end."""
    draining = executor(1, "n1", terminating=True)
    assert steps(draining, E2, E3, blocked={"n1": False}, is_answered=False) == []


def test_no_duplicate_is_made_that_would_come_too_late():
    """Two executors are left: they are done with forty seconds of work in twenty."""
    draining = executor(1, "n1", terminating=True)
    late = {"slow": [slow()], "blocked": {"n1": False}}
    assert kinds(steps(draining, E2, E3, waiting_seconds=39.9, **late)) == [AskForBlock]
    assert kinds(steps(draining, E2, E3, waiting_seconds=40.0, **late)) == [AskForBlock, Duplicate]
    assert kinds(steps(draining, E2, E3, waiting_seconds=40.0, slots=2, **late)) == [AskForBlock]
    assert kinds(steps(E1, waiting_seconds=0.0, instances=1, **late)) == [AskForBlock, Duplicate], "none is left"


def test_surplus_duplicates_go_once_all_has_been_quiet():
    assert kinds(steps(E1, E2, E3, COPY, quiet_seconds=59.0)) == []
    found = steps(E1, E2, E3, COPY, quiet_seconds=60.0)
    assert found == [Remove(COPY)]
    assert steps(E2, E3, COPY, quiet_seconds=60.0) == [], "it stands for one that is gone"
    assert steps(E1, E2, E3, COPY, quiet_seconds=60.0, is_answered=False) == []
    assert steps(E1, E2, E3, COPY, quiet_seconds=60.0, slow=[slow(blame=Blame.SKEW)]) == []
    assert kinds(steps(E1, E2, E3, COPY, quiet_seconds=60.0, blocked={"n1": False})) == [Drain]


def test_where_nothing_is_to_be_blocked_duplicates_are_made_all_the_same():
    found = steps(slow=[slow()], block_seconds=0.0)
    assert kinds(found) == [Duplicate]
    assert found[0].avoid == {"n1"}


def test_a_node_that_is_not_known_is_not_blocked():
    assert steps(slow=[slow(node="unknown")]) == []
