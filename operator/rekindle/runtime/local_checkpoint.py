"""Rows that come out differently each time, drawn once and kept by executors: Spark's local checkpoint, and checks.

Spark may draw a part of them twice: it makes lost map outputs again, and runs a second attempt of a slow task. Where it
has, nobody can tell which draw who has read, and all of them are drawn anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rekindle.runtime.scheduler import JobView, Scheduler
from rekindle.runtime.spark_plan import own_shuffles_of, shuffle_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATUS_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class DrawnTwice(Exception):
    """Rows of two draws may be among those that executors hold."""


def local_checkpoint(frame: DataFrame, scheduler: Scheduler) -> tuple[DataFrame, Any]:
    """`frame`'s rows, computed now, and Spark's RDD of them: rows that are lost are an error for whoever reads them,
    and are not made again.

    Raises DrawnTwice.
    """
    group = scheduler.group()
    held = frame.localCheckpoint(eager=False)
    rows = held._jdf.logicalPlan().rdd()
    try:
        shuffles = shuffle_ids(own_shuffles_of(rows))
        _wait_for_status(scheduler)
        used, before = _map_tasks(scheduler, shuffles), {job.job for job in scheduler.jobs_of(group)}
        held.count()
        _wait_for_status(scheduler)
        jobs = _ended(lambda: scheduler.jobs_of(group), before)
        if scheduler.is_local:  # rows stay in their one place, which Spark's own records forget after a failed fetch
            before = {job.job for job in jobs}
        check_drawn_once(jobs, before, scheduler.holders_of(int(rows.id())))
        _check_same(used, _map_tasks(scheduler, used))
    except BaseException:
        rows.unpersist(False)
        raise
    return held, rows


def _wait_for_status(scheduler: Scheduler) -> None:
    """Until Spark's status has heard of all that has happened."""
    from py4j.protocol import Py4JError

    try:
        scheduler.wait_for_status(_STATUS_SECONDS)
    except Py4JError as error:
        raise DrawnTwice(f"Spark's status was more than {_STATUS_SECONDS:g} s late: {error}") from error


def check_drawn_once(jobs: Iterable[JobView], before: set[int], holders: Iterable[tuple[str, ...]]) -> None:
    """Raises DrawnTwice by what Spark has run and by which executors hold each partition.

    Args:
        before: jobs that had run before those that computed the rows.
    """
    if any(job.ran_again for job in jobs):
        raise DrawnTwice("map outputs were lost while the rows were made of them")
    if len({job.job for job in jobs} - before) > 1:
        raise DrawnTwice("an executor was lost with some of the rows just when all had been made")
    if any(len(executors) > 1 for executors in holders):
        raise DrawnTwice("a slow task had a second attempt, and both have kept their rows")


def _ended(look: Callable[[], list[JobView]], before: set[int]) -> list[JobView]:
    """The jobs, once there is a new one and none has a task that runs: attempts that lost may still be about."""
    deadline = time.monotonic() + _STATUS_SECONDS
    while time.monotonic() < deadline:
        jobs = look()
        if any(job.job not in before for job in jobs) and all(job.is_quiet for job in jobs):
            return jobs
        time.sleep(_LOOK_SECONDS)
    raise DrawnTwice(f"Spark's status did not show within {_STATUS_SECONDS:g} s that the rows were made")


def _map_tasks(scheduler: Scheduler, shuffles: Iterable[int]) -> dict[int, list[int | None]]:
    """[shuffle that was used already -> the tasks that made its map outputs, None where one is missing]"""
    found = {shuffle: scheduler.map_outputs(shuffle) for shuffle in shuffles}
    return {shuffle: [one and one[0] for one in outputs] for shuffle, outputs in found.items() if outputs}


def _check_same(used: dict[int, list[int | None]], now: dict[int, list[int | None]]) -> None:
    """A broadcast may have read the same map outputs before."""
    if used != now or any(None in tasks for tasks in used.values()):
        raise DrawnTwice("map outputs that a broadcast had read were lost, and made again for the other rows")
