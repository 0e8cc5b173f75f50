"""Stand-in drivers: what the operator reads of one, and from when on it is slow."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from benchmarks import following
from benchmarks.on_kubernetes import stand_in_drivers as module
from benchmarks.on_kubernetes.stand_in_drivers import Schedule, StandInDriver, StandInDrivers
from rekindle.api.settings import RekindleSettings
from rekindle.controller.speculation.spark_rest import Address, SparkRest

SCHEDULE = Schedule.drawn(tasks=100, executors=5, cores=2, seconds=30.0)


def test_all_slots_work_all_the_time_and_each_stage_follows_the_last():
    driver = StandInDriver(SCHEDULE, began=1000.0)
    later = driver.stage(1000.0 + 1.5 * SCHEDULE.seconds)
    assert (driver.stage(1100.0).running, driver.stage(1100.0).key.stage_id) == (10, 0)
    assert (later.key.stage_id, later.first_task_at) == (1, 1000.0 + SCHEDULE.seconds)
    assert 0 < later.finished < 100


def test_an_executor_that_stands_still_ends_nothing_and_begins_nothing():
    driver = StandInDriver(SCHEDULE, began=1000.0)
    before = {one.index for one in driver.tasks(1200.0) if one.running and one.executor == "1"}
    driver.freeze(1, 1200.0)
    there = [one for one in driver.tasks(1000.0 + 2 * SCHEDULE.seconds) if one.executor == "1"]
    assert {one.index for one in there if one.running} == before != set()
    assert driver.stage(1000.0 + 2 * SCHEDULE.seconds).key.stage_id == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="127.0.0.1 is its only loopback address")
def test_the_operator_reads_what_the_driver_is(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(module, "UI_PORT", port)
    monkeypatch.setattr(module, "_now", lambda: 1200.0)
    driver = StandInDriver(SCHEDULE, began=1000.0)

    async def case() -> None:
        async with StandInDrivers([StandInDriver(SCHEDULE, began=0.0), driver]):
            rest, address = SparkRest(), Address("127.1.0.2", port)
            try:
                (stage,) = (await rest.stages(address, "spark-1")).found
                told = [await rest.tasks(address, "spark-1", stage.key, what) for what in ("success", "running")]
            finally:
                await rest.close()
        assert stage == driver.stage(1200.0)
        assert sorted((*told[0], *told[1]), key=lambda one: one.index) == driver.tasks(1200.0)
        assert driver.asked == {"stages": 1, "success": 1, "running": 1}

    asyncio.run(case())


@pytest.mark.parametrize(("detector", "least"), [("executionTime", 60.0), ("nodeAware", 1.6 * 24)])
def test_it_is_slow_from_the_moment_on_when_the_detector_says_so_of_all_that_is_known(detector, least):
    driver = StandInDriver(SCHEDULE, began=1000.0)
    frozen_at = 1000.0 + 0.85 * SCHEDULE.seconds
    driver.freeze(1, frozen_at)
    oldest = min(one.launched_at for one in driver.tasks(frozen_at) if one.running and one.executor == "1")
    options = RekindleSettings.model_validate({"speculation": {"enabled": True, "detector": detector}}).to_core()
    since = following.slow_from(driver, 0, options, seen_at=frozen_at + 100)
    if detector == "executionTime":
        assert since == pytest.approx(oldest + least, abs=0.02)
    assert oldest + least <= since < frozen_at + 100
