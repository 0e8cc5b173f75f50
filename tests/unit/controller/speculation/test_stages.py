"""A stage of Spark's as a job vertex of the core's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.speculation.spark_rest import Stage, StageKey, Task
from rekindle.controller.speculation.stages import FinishedPart, SeenStage, SeenStages, seen_stage
from rekindle.core.execution import ExecutionState
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector
from tests.unit.controller.speculation.scripted_driver import Attempt

NODES = {"1": "n1", "2": "n2", "3": "n3"}


def seen(*attempts: Attempt, tasks: int = 4, now: float = 1000.0) -> SeenStage:
    return made([one.task(now) for one in attempts], tasks)


def made(told: Iterable[Task], tasks: int = 4) -> SeenStage:
    every = list(told)
    stage = Stage(StageKey(3, 1), "count at main.py:7", tasks, 0, 0, 0, 0.0)
    return seen_stage(stage, [one for one in every if not one.running], [one for one in every if one.running], NODES)


def states(stage: SeenStage) -> list[str]:
    """Of the current executions of each subtask."""
    return [" ".join(one.state for one in task.executions) for task in stage.vertex.tasks]


def test_it_is_named_and_sized_as_the_stage():
    stage = seen(tasks=7)
    assert str(stage.vertex.tasks[5].id) == "stage 3.1[5]"
    assert stage.vertex.parallelism == 7
    assert SeenStages([stage]).execution_job_vertices() == [stage.vertex]


@pytest.mark.requirement("S1-15", "S1-16", "S1-17")
def test_running_finished_and_waiting_tasks():
    stage = seen(Attempt(0, 5.0, 25.0, executor="2", reads=70), Attempt(2, 7.0, so_far=30))
    assert states(stage) == ["FINISHED", "CREATED", "RUNNING", "CREATED"]
    assert (stage.vertex.finished, stage.vertex.pending) == ({0}, {1, 3})
    (done,), (waits,), (runs,) = (stage.vertex.tasks[subtask].executions for subtask in (0, 1, 2))
    assert (done.deployed_at, done.finished_at, done.node, done.input_bytes) == (5.0, 25.0, "n2", 70)
    assert (runs.deployed_at, runs.finished_at, runs.node) == (7.0, None, "n1")
    assert [one.execution_time(100.0) for one in (done, waits, runs)] == [20.0, 0.0, 93.0]


def test_each_attempt_leads_back_to_its_task():
    attempts = [Attempt(0, 5.0, 25.0), Attempt(2, 7.0), Attempt(2, 9.0, number=1)]
    stage = seen(*attempts)
    ids = [
        ExecutionAttemptID(ExecutionVertexID("stage 3.1", index), number) for index, number in ((0, 0), (2, 0), (2, 1))
    ]
    assert stage.tasks == {one: attempt.task(1000.0) for one, attempt in zip(ids, attempts, strict=True)}


@pytest.mark.requirement("S1-20", "S2-15")
def test_copies_are_executions_of_one_vertex_each_with_its_clock():
    stage = seen(Attempt(1, 60.0, executor="2", number=1), Attempt(1, 0.0))
    first, copy = stage.vertex.tasks[1].executions
    assert [(one.deployed_at, one.node, one.speculative) for one in (first, copy)] == [
        (0.0, "n1", False),
        (60.0, "n2", True),
    ]


@pytest.mark.requirement("S1-21", "S1-25")
@pytest.mark.parametrize("winner", [0, 1])
def test_of_two_copies_the_one_that_finished_counts_and_the_other_is_not_slow(winner):
    ends = [float("inf")] * 2
    ends[winner] = 90.0
    copies = [Attempt(3, 60.0 * number, ends[number], number=number) for number in (0, 1)]
    stage = seen(*(Attempt(index, 0.0, 10.0) for index in (0, 1)), *copies)
    assert states(stage)[3] == "FINISHED"
    assert stage.vertex.finished == {0, 1, 3}
    assert stage.vertex.finishing_order.typical(3) == 10.0
    assert [one.index for one in stage.tasks.values()] == [0, 1, 3]
    assert ExecutionTimeBasedSlowTaskDetector().find_slow(SeenStages([stage]), 1e6).slow == ()


@pytest.mark.requirement("S1-25", "S2-46")
def test_of_two_that_have_finished_the_first_counts():
    stage = seen(Attempt(0, 0.0, 80.0), Attempt(0, 60.0, 70.0, number=1))
    (execution,) = stage.vertex.tasks[0].executions
    assert execution.execution_time(1000.0) == 10.0


def test_what_was_launched_after_a_task_had_finished_makes_again_what_was_lost():
    stage = seen(Attempt(0, 0.0, 20.0), Attempt(0, 50.0, number=1), Attempt(1, 0.0, 20.0))
    assert states(stage)[:2] == ["RUNNING", "FINISHED"]
    (again,) = stage.vertex.tasks[0].executions
    assert again.deployed_at == 50.0


@pytest.mark.parametrize("order", [1, -1])
def test_though_one_that_was_slower_has_not_been_ended_yet(order):
    late, again = Attempt(0, 10.0, number=1), Attempt(0, 50.0, number=2)
    assert states(seen(Attempt(0, 0.0, 20.0), *[late, again][::order]))[0] == "RUNNING RUNNING"


def test_and_counts_no_more_when_it_has_finished_too():
    assert states(seen(Attempt(0, 0.0, 20.0), Attempt(0, 50.0, 60.0, number=1)))[0] == "FINISHED"


@pytest.mark.requirement("S1-12", "S1-23")
def test_first_is_who_finished_first_and_not_who_began_first_or_took_least():
    """At 110 the one that took 10 s, at 90 and 100 those that took 90 and 100."""
    stage = seen(Attempt(0, 100.0, 110.0), Attempt(1, 0.0, 100.0), Attempt(2, 0.0, 90.0))
    assert [stage.vertex.finishing_order.typical(first) for first in (1, 2, 3)] == [90.0, 95.0, 90.0]


def test_a_task_that_took_no_time_has_finished_at_once():
    (execution,) = made([replace(Attempt(0, 5.0, 5.0).task(9.0), seconds=None)]).vertex.tasks[0].executions
    assert (execution.finished_at, execution.execution_time(9.0)) == (5.0, 0.0)


def test_a_task_that_is_told_twice_is_one():
    attempts = [Attempt(0, 0.0, 20.0), Attempt(1, 0.0)]
    assert states(seen(*attempts, *attempts))[:2] == ["FINISHED", "RUNNING"]


def test_one_that_ended_between_two_questions_has_finished():
    attempt = Attempt(0, 0.0, 20.0)
    assert states(made([attempt.task(19.0), attempt.task(20.0)]))[0] == "FINISHED"


def test_an_index_that_the_stage_has_not_is_passed_over():
    stage = seen(Attempt(4, 0.0, 20.0), Attempt(9, 0.0), Attempt(3, 0.0), tasks=4)
    assert states(stage) == ["CREATED"] * 3 + ["RUNNING"]
    assert [one.index for one in stage.tasks.values()] == [3]


def test_an_executor_that_nobody_knows_is_on_no_node_and_is_never_blamed_for_it():
    elsewhere = [Attempt(index, 0.0, 20.0, executor=str(1 + index % 2)) for index in range(4)]

    def blamed(executor: str) -> set[int]:
        stage = seen(*elsewhere, Attempt(4, 0.0, executor=executor), Attempt(5, 0.0, executor=executor), tasks=6)
        found = NodeAwareSlowTaskDetector().find_slow(SeenStages([stage]), 1000.0)
        return {vertex_id.subtask for vertex_id, _, _ in found.slow}

    assert blamed("3") == {4, 5}
    assert blamed("7") == set()


class TestWhatARunningTaskHasToRead:
    """It tells what it has read so far. Taken for all that it will, that would make each one slow at its beginning."""

    @pytest.mark.parametrize(("so_far", "expected"), [(5, 100), (100, 100), (400, 400), (None, None)])
    def test_is_at_least_what_is_typical(self, so_far, expected):
        done = [Attempt(index, 0.0, 20.0, reads=reads) for index, reads in enumerate((60, 100, 900, None))]
        stage = seen(*done, Attempt(4, 0.0, so_far=so_far), tasks=5)
        assert stage.vertex.tasks[4].representative.input_bytes == expected

    @pytest.mark.parametrize("reads", [None, 0])
    def test_is_what_it_tells_where_others_tell_nothing(self, reads):
        stage = seen(Attempt(0, 0.0, 20.0, reads=reads), Attempt(1, 0.0, so_far=30))
        assert stage.vertex.tasks[1].representative.input_bytes == 30

    def test_so_a_node_whose_tasks_fetch_something_first_is_not_blamed(self):
        """Each task fetches for 15 s, and reads for 15 s then; on n3 they began later than elsewhere."""
        done = [Attempt(index, 0.0, 30.0, executor=str(1 + index % 2)) for index in range(8)]
        begun = [Attempt(index, 20.0, executor="3", so_far=7) for index in range(8, 12)]
        stage = seen(*done, *begun, tasks=12, now=36.0)
        assert NodeAwareSlowTaskDetector().find_slow(SeenStages([stage]), 36.0).slow == ()
        assert NodeAwareSlowTaskDetector().find_slow(SeenStages([stage]), 320.0).slow != ()


ATTEMPTS = st.builds(
    Attempt,
    index=st.integers(0, 5),
    start=st.integers(0, 20).map(float),
    end=st.integers(20, 40).map(float) | st.just(float("inf")),
    executor=st.sampled_from("1237"),
    number=st.integers(0, 2),
    so_far=st.none() | st.integers(0, 200),
)


@given(st.lists(ATTEMPTS, max_size=12), st.randoms(use_true_random=False))
def test_the_order_in_which_a_driver_tells_does_not_matter_and_all_is_consistent(attempts, chance):
    told = [one.task(40.0) for one in {(one.index, one.number): one for one in attempts}.values()]
    stage, shuffled = made(told), list(told)
    chance.shuffle(shuffled)

    def shape(one: SeenStage) -> list[list[tuple[ExecutionState, float | None, float | None]]]:
        return [
            sorted((e.state, e.deployed_at, e.finished_at or 0.0) for e in task.executions) for task in one.vertex.tasks
        ]

    assert shape(made(shuffled)) == shape(stage)
    for task in stage.vertex.tasks:
        task.validate()
        assert task.is_finished == (task.id.subtask in stage.vertex.finished)
        deployed = [one.attempt_id for one in task.executions if one.deployed_at is not None]
        assert set(deployed) == {one for one in stage.tasks if one.vertex_id == task.id}
        assert bool(deployed) != (task.id.subtask in stage.vertex.pending)


@given(st.lists(ATTEMPTS, max_size=12), st.lists(ATTEMPTS, max_size=6))
def test_what_was_made_of_the_finished_ones_is_not_changed_by_what_runs_beside_them(attempts, others):
    told = [one.task(40.0) for one in {(one.index, one.number): one for one in attempts}.values()]
    finished, running = ([one for one in told if one.running is runs] for runs in (False, True))
    stage = Stage(StageKey(3, 1), "count at main.py:7", 6, 0, 0, 0, 0.0)
    part = FinishedPart(stage, finished, NODES)
    part.beside([one.task(39.0) for one in others], stage, NODES)
    again, anew = part.beside(running, stage, NODES), seen_stage(stage, finished, running, NODES)
    assert (states(again), again.tasks, again.typical) == (states(anew), anew.tasks, anew.typical)
    assert (again.vertex.pending, again.vertex.finished) == (anew.vertex.pending, anew.vertex.finished)
    assert part.is_of(stage, finished, NODES)
    assert not part.is_of(stage, list(finished), NODES)
    assert not part.is_of(stage, finished, {**NODES, "7": "n7"})


@given(st.lists(ATTEMPTS, max_size=12), st.lists(ATTEMPTS, max_size=12))
def test_two_that_share_what_has_not_begun_do_not_change_each_other(attempts, others):
    first, second = ([told for one in some if not (told := one.task(40.0)).running] for some in (attempts, others))
    stage = Stage(StageKey(3, 1), "count at main.py:7", 6, 0, 0, 0, 0.0)
    part = FinishedPart(stage, first, NODES)
    later = FinishedPart(stage, second, NODES, part.blank)
    later.beside([one.task(40.0) for one in attempts if one.task(40.0).running], stage, NODES)
    for shared, told in ((part, first), (later, second)):
        alone = FinishedPart(stage, told, NODES)
        assert (states(shared.alone), shared.alone.tasks) == (states(alone.alone), alone.alone.tasks)
        assert shared.alone.vertex.pending == alone.alone.vertex.pending
        assert shared.alone.vertex.finished == alone.alone.vertex.finished
        done = len(alone.alone.vertex.finished)
        assert shared.alone.vertex.finishing_order.typical(done) == alone.alone.vertex.finishing_order.typical(done)
    assert part.blank.pending == set(range(6))


def test_a_stage_of_another_size_shares_nothing():
    small, large = (Stage(StageKey(3, 1), "count at main.py:7", tasks, 0, 0, 0, 0.0) for tasks in (2, 3))
    part = FinishedPart(small, [], NODES)
    assert FinishedPart(large, [], NODES, part.blank).alone.vertex.parallelism == 3
    assert FinishedPart(small, [], NODES, part.blank).blank is part.blank
