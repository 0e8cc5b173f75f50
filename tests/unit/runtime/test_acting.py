"""What the core decided, carried out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core import actions as act
from rekindle.runtime.acting import Actor
from rekindle.runtime.attempts import AttemptBindings
from rekindle.runtime.scheduler import TaskView
from tests.unit.core.dsl import Run, attempt_id, job

TASK = TaskView(7, 0, "n1", 10.0, "RUNNING", None)
COPY = act.Deploy((act.Deployment(attempt_id("A[0]#1"), 1, speculative=True),), frozenset())


@pytest.mark.parametrize(
    ("ended", "cancelled", "blocked", "adopted"),
    [(False, False, (), True), (True, False, (), False), (False, True, (), False), (False, False, ("n1",), False)],
)
def test_a_task_that_nobody_had_asked_for_is_the_copy_where_it_runs_and_not_on_a_blocked_node(
    ended, cancelled, blocked, adopted
):
    submitted: list[int] = []
    spark_job = type("Job", (), {"ended": ended, "cancelled": cancelled})()
    run = SimpleNamespace(
        planned=True,
        unasked={0: (TASK, spark_job)},
        input_bytes=lambda _: None,
        submit_copy=lambda partition, *_: submitted.append(partition),
    )
    state: Any = SimpleNamespace(
        core=SimpleNamespace(blocked_nodes=lambda now: blocked),
        bindings=AttemptBindings(),
        runs={"A": run},
        see=lambda *_: None,
    )
    Actor(state).do(COPY)
    assert (submitted == []) is adopted
    assert (state.bindings.task_of(attempt_id("A[0]#1")) == 7) is adopted


def test_a_plan_that_is_under_way_when_its_stage_restarts_is_given_up_and_one_that_is_made_is_kept():
    core = Run(job("A*2"))
    done: list[str] = []
    runs = {
        "A": SimpleNamespace(planned=None, cancel=lambda: done.append("A cancelled")),
        "B": SimpleNamespace(planned=True, cancel=lambda: done.append("B cancelled")),
    }
    stages = [SimpleNamespace(name=name, exchange=None) for name in "AB"]
    state: Any = SimpleNamespace(
        graph=SimpleNamespace(stages=stages),
        core=core.graph,
        runs=runs,
        proven={},
        is_deterministic=lambda stage: None,
        retire=lambda name: done.append(f"{name} given up"),
    )
    restarted = tuple(attempt_id(f"{name}[0]#0").vertex_id for name in "AB")
    Actor(state).do(act.Restart(restarted, "lost", 0))
    assert done == ["A given up", "B cancelled"]
