"""What to do about slow, failed and finished attempts, where a vertex may have several (FLIP-168).

Pure questions and answers; `core.attempts` and `core.slow_nodes` act on them.
"""

from __future__ import annotations

from enum import StrEnum

from rekindle.core.events import FailureCause, FailureKind
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.job_graph import JobVertex
from rekindle.core.options import SpeculationOptions


class FailureRule(StrEnum):
    """What the failure of one attempt calls for."""

    RESTART_VERTEX = "RESTART_VERTEX"
    """No current execution can finish any more (S2-28)."""
    RESTART_PRODUCER = "RESTART_PRODUCER"
    """A sibling could finish, but an input partition is lost (S2-30)."""
    GO_ON = "GO_ON"
    """A sibling can still finish (S2-31)."""


def rule_for(task: ExecutionVertex, cause: FailureCause) -> FailureRule:
    """The rules in their order (S2-28 to S2-31); the failed execution is FAILED already."""
    if not task.can_finish:
        return FailureRule.RESTART_VERTEX
    if cause.kind is FailureKind.PARTITION:
        return FailureRule.RESTART_PRODUCER
    return FailureRule.GO_ON


def may_be_copied(vertex: JobVertex, options: SpeculationOptions) -> bool:
    """Whether the vertex may get copies at all (S2-13)."""
    if vertex.contains_sources and options.source_enabled is False:
        return False
    if vertex.contains_sinks and not options.sink_enabled:
        return False
    return options.enabled and vertex.speculative


def copies_to_make(task: ExecutionVertex, options: SpeculationOptions) -> int:
    """How many copies a slow vertex gets: up to the limit, to which CANCELING executions count (S2-37)."""
    if not task.live or task.representative.state is ExecutionState.CREATED:
        return 0
    return max(0, options.max_concurrent_executions - len(task.executions))


def nodes_of_siblings(task: ExecutionVertex) -> frozenset[str]:
    """Where the current executions are: a copy goes elsewhere, even if they are not blocked (S2-45)."""
    return frozenset(one.node for one in task.executions if one.node is not None)
