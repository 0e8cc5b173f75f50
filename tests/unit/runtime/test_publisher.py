"""Publishing by Spark: the job master goes on answering, and ends it where it is fenced."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.runtime.errors import Fenced
from rekindle.runtime.publisher import Publisher
from rekindle.runtime.spark_sink import WriteFailed


class Driver:
    """What a publisher uses of a run. `jobs`: those that Spark has begun."""

    def __init__(self, check: Callable[[], None] = lambda: None, jobs: int = 0) -> None:
        self.cancelled, self.ended, self.told, self.may_end = list[str](), list[str](), list[float](), threading.Event()
        scheduler = SimpleNamespace(
            cancel_group=self.cancel, jobs_of=lambda group: ["job"] * jobs, without_speculation=contextlib.nullcontext
        )
        lease = SimpleNamespace(check_renewed=check)
        state: Any = SimpleNamespace(open_run=SimpleNamespace(lease=lease), scheduler=scheduler)
        self.publisher = Publisher(state, lambda: None, self.told.append)

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)
        self.may_end.set()

    def run(self, work: Callable[[], None]) -> None:
        self.publisher.in_background(work, "group", lambda: self.ended.append("well"))


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_the_work_raises_is_told_with_whether_spark_had_begun(jobs):
    def fail() -> None:
        raise OSError("it is away")

    driver = Driver(jobs=jobs)
    with pytest.raises(WriteFailed, match="it is away") as failed:
        driver.run(fail)
    assert failed.value.has_begun == bool(jobs)
    assert (driver.cancelled, driver.ended) == ([], [])


def test_the_operator_is_answered_meanwhile():
    driver = Driver()
    driver.run(lambda: assert_set(driver.may_end, lambda: len(driver.told) > 1))
    assert driver.ended == ["well"]


def fenced() -> None:
    raise Fenced("another driver has taken this store")


def test_a_driver_that_is_fenced_meanwhile_cancels_it():
    driver = Driver(fenced)

    def cut_off() -> None:
        assert driver.may_end.wait(10)
        raise OSError("cancelled")

    with pytest.raises(Fenced):
        driver.run(cut_off)
    assert (driver.cancelled, driver.ended) == (["group"], [])


def test_what_has_come_to_its_end_all_the_same_is_made_known():
    driver = Driver(fenced)
    with pytest.raises(Fenced):
        driver.run(lambda: assert_set(driver.may_end))
    assert (driver.cancelled, driver.ended) == (["group"], ["well"])


def assert_set(event: threading.Event, seen: Callable[[], bool] = lambda: False) -> None:
    for _ in range(1000):
        if event.wait(0.01) or seen():
            return
    raise AssertionError("it was never so")
