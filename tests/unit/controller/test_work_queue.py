"""The queue's promises: one look at a key at a time, nothing lost, failures come again."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from rekindle.controller.work_queue import WorkQueue

DEADLINE = 20.0


@asynccontextmanager
async def running(queue: WorkQueue):
    task = asyncio.create_task(queue.run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_many_changes_of_a_key_are_one_look():
    async def case():
        looks: Counter[str] = Counter()

        async def look(key):
            looks[key] += 1

        queue = WorkQueue(look, workers=2)
        for _ in range(50):
            queue.add("a")
        queue.add("b")
        async with running(queue):
            while len(queue):
                await asyncio.sleep(0)
        assert looks == {"a": 1, "b": 1}

    asyncio.run(case())


def test_a_key_is_never_looked_at_twice_at_once_and_what_came_meanwhile_is_looked_at_after():
    async def case():
        inside, most, looks = 0, 0, 0
        first, go_on = asyncio.Event(), asyncio.Event()

        async def look(key):
            nonlocal inside, most, looks
            inside, looks = inside + 1, looks + 1
            most = max(most, inside)
            first.set()
            await go_on.wait()
            inside -= 1

        queue = WorkQueue(look, workers=4)
        async with running(queue):
            queue.add("a")
            await first.wait()
            for _ in range(5):
                queue.add("a")
            await asyncio.sleep(0.05)
            go_on.set()
            while len(queue) or looks < 2:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        assert (most, looks) == (1, 2)

    asyncio.run(case())


def test_a_look_that_fails_comes_again_and_others_are_not_held_up():
    async def case():
        looks: Counter[str] = Counter()

        async def look(key):
            looks[key] += 1
            if key == "bad" and looks["bad"] < 3:
                raise ValueError("not yet")

        queue = WorkQueue(look, workers=1)
        async with running(queue):
            queue.add("bad")
            queue.add("good")
            while looks["bad"] < 3 or looks["good"] < 1:
                await asyncio.sleep(0.01)
        assert looks == {"bad": 3, "good": 1}
        assert queue.statistics.failures == 2

    asyncio.run(case())


@pytest.mark.parametrize("delays", [(5000.0, 0.05), (0.05, 5000.0)])
def test_of_two_delays_the_earlier_counts(delays):
    async def case():
        seen = asyncio.Event()

        async def look(key):
            seen.set()

        queue = WorkQueue(look, workers=1)
        async with running(queue):
            for delay in delays:
                queue.add_after("a", delay)
            await seen.wait()

    asyncio.run(case())


def test_a_look_that_asks_to_come_again_does():
    async def case():
        looks = 0
        enough = asyncio.Event()

        async def look(key):
            nonlocal looks
            looks += 1
            if looks == 3:
                enough.set()
                return None
            return 0.01

        queue = WorkQueue(look, workers=1)
        async with running(queue):
            queue.add("a")
            await enough.wait()
        assert looks == 3

    asyncio.run(case())


def test_a_queue_that_stands_still_is_told_from_one_without_work():
    async def case():
        async def look(key):
            await asyncio.sleep(3600)

        queue = WorkQueue(look, workers=1)
        assert queue.idle_since(1e12) == 0.0
        async with running(queue):
            queue.add("a")
            await asyncio.sleep(0.05)
            now = queue.statistics.last_progress
            assert queue.idle_since(now + 500) == pytest.approx(500)

    asyncio.run(case())


def test_a_look_that_had_to_be_ended_is_no_progress(monkeypatch):
    monkeypatch.setattr("rekindle.controller.work_queue._LOOK_SECONDS", 0.01)

    async def case():
        async def look(key):
            await asyncio.sleep(3600)

        queue = WorkQueue(look, workers=1)
        async with running(queue):
            queue.add("a")
            before = queue.statistics.last_progress
            while not queue.statistics.failures:
                await asyncio.sleep(0.005)
            assert queue.statistics.last_progress == before

    asyncio.run(case())


def test_a_queue_that_is_stopped_just_when_it_wakes_ends():
    async def case():
        async def look(key):
            pass

        queue = WorkQueue(look, workers=1)
        queue.add_after("later", 3600)
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0.01)
        queue.add_after("sooner", 1800)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done

    asyncio.run(asyncio.wait_for(case(), DEADLINE))
