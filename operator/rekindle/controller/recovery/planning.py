"""The plan for a driver that follows a lost one.

It is the core's, worked out as the next driver will work it out over the store. That one is right: it tells what it
did, and where that is something else the status says so.
"""

import gc
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pydantic import ValidationError

from rekindle.api.application_status import MOST_COUNTED, RecoveryStatus, RecoverySummary
from rekindle.api.job_report import JobReport, WireRecovery
from rekindle.api.settings import CoreOptions
from rekindle.controller.clock import format_time
from rekindle.controller.recovery.job_facts import MOST_STAGES
from rekindle.controller.text import shortened
from rekindle.core.actions import EDITED
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ranges import Ranges, count, shown
from rekindle.core.recovery_plan import RecoveryPlan, plan_driver_lost

log = logging.getLogger(__name__)

_MOST_RANGES = 20

_MOST_WHY = 1_000
"""Bytes."""


def job_of(recovery: RecoveryStatus) -> JobReport | None:
    """The job as the status has it; None where it has none that can be read."""
    try:
        return JobReport.model_validate_json(json.dumps(recovery.job)) if recovery.job else None
    except (ValidationError, ValueError, RecursionError):
        return None


def planned(
    job: JobReport,
    options: CoreOptions,
    attempt: int,
    cause: str,
    now: float,
    is_lost: Callable[[int], bool] | None = None,
) -> RecoverySummary | None:
    """What the loss of the driver costs, as the next one, of that attempt, will find it. None where nobody can tell: a
    plan is for people, and what a driver has told must not keep the next one from beginning.

    `is_lost`: of a subtask, whether the volume on which its stored partition lies is gone.
    """
    try:
        with _uncollected():
            graph = ExecutionGraph(
                job.job_graph(), speculation=options.speculation, failover=options.failover, blocklist=options.blocklist
            )
            graph.restore(job.inventory())
            plan = plan_driver_lost(graph, cause, now, is_lost)
            left, saved = _seconds(plan, job)
    except Exception:
        log.exception("no recovery can be planned")
        return None
    return RecoverySummary(
        attempt=attempt,
        planned_at=format_time(now),
        cause=cause,
        restarted=_shown(plan.restart),
        restarted_vertices=sum(map(count, plan.restart.values())),
        reused_partitions=plan.reused,
        expected_task_seconds=min(MOST_COUNTED, round(left)),
        saved_task_seconds=min(MOST_COUNTED, round(saved)),
    )


def confirmed(summary: RecoverySummary, done: WireRecovery) -> RecoverySummary:
    """With what the driver did: it has looked at the store."""
    restart = {one.vertex: one.subtasks for one in done.restart}
    update = {
        "restarted": _shown(restart),
        "restarted_vertices": sum(map(count, restart.values())),
        "reused_partitions": done.reused,
    }
    same = all(getattr(summary, name) == value for name, value in update.items())
    as_planned = same and EDITED not in done.why  # the plan was for another graph, whatever it came to
    saved = summary.saved_task_seconds if as_planned else 0
    why = shortened(", ".join(done.why), _MOST_WHY)
    return summary.model_copy(update={**update, "as_planned": as_planned, "saved_task_seconds": saved, "why": why})


def told(summary: RecoverySummary) -> str:
    """In a sentence."""
    what = ", ".join(f"{name}[{subtasks}]" for name, subtasks in summary.restarted.items()) or "nothing"
    why = f": {summary.why}" if summary.why else ""
    return f"{what} again, {summary.reused_partitions} result partitions stay{why}"


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage among a graph's many objects: that would take as long as all else."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _seconds(plan: RecoveryPlan, job: JobReport) -> tuple[float, float]:
    """Of all tasks that are still to run, and of the others, as far as it is known how long one takes."""
    left = sum(plan.left.get(one.name, 0) * (one.seconds or 0.0) for one in job.vertices)
    return left, sum(one.parallelism * (one.seconds or 0.0) for one in job.vertices) - left


def _shown(restart: Mapping[str, Ranges]) -> dict[str, str]:
    """`0-3,5` for each vertex; not more of it than a person reads."""
    some = list(restart.items())[:MOST_STAGES]
    return {name: shown(ranges[:_MOST_RANGES]) + (",…" if len(ranges) > _MOST_RANGES else "") for name, ranges in some}
