"""How many failures are too many."""

from __future__ import annotations

import pytest

from rekindle.core.budget import FailureBudget
from rekindle.core.events import FailureKind
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.options import FailoverOptions

TASK = ExecutionVertexID("A", 0)


@pytest.mark.requirement("S6-24")
def test_lost_infrastructure_is_not_held_against_a_task_that_has_used_up_a_bound_that_was_lowered():
    budget = FailureBudget(FailoverOptions(max_failures_per_task=4))
    assert [budget.record(TASK, FailureKind.TASK) for _ in range(3)] == [None] * 3
    budget.set_options(FailoverOptions(max_failures_per_task=2))
    assert budget.record(TASK, FailureKind.INFRASTRUCTURE) is None
    assert budget.record(TASK, FailureKind.TASK) == "A[0] failed 4 times; maxFailuresPerTask is 2"
