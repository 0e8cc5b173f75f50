"""Events are bounded in number and length, and what is not sent is counted."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from rekindle.controller import event_recorder
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.resources import EVENT, Object
from tests.unit.controller.api_server import ApiServer, What, served, until

EVENTS = "/events$"
BURST = 25


class Desk:
    """A recorder and how many events it has dropped."""

    def __init__(self, server: ApiServer) -> None:
        self.dropped = 0
        self.recorder = EventRecorder(server.kube, "op-1", self._count)

    def _count(self) -> None:
        self.dropped += 1

    def say(self, times: int = 1, name: str = "pi", note: str = "the driver runs") -> None:
        for _ in range(times):
            self.recorder.record(application(name), Said("Normal", "SparkDriverRunning", note))


def application(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-of-{name}"}}


@asynccontextmanager
async def sending(desk: Desk) -> AsyncIterator[None]:
    task = asyncio.create_task(desk.recorder.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_an_event_says_what_happened_to_which_application():
    async def case(server: ApiServer):
        desk = Desk(server)
        async with sending(desk):
            desk.say()
            (event,) = await until(lambda: server.all(EVENT))
        assert event["metadata"]["namespace"] == "team"
        assert event["metadata"]["name"].startswith("pi.")
        assert (event["type"], event["reason"], event["note"]) == ("Normal", "SparkDriverRunning", "the driver runs")
        assert (event["reportingController"], event["reportingInstance"]) == ("rekindle.dev/operator", "op-1")
        assert event["regarding"] == {
            "apiVersion": "rekindle.dev/v1beta2",
            "kind": "SparkApplication",
            "namespace": "team",
            "name": "pi",
            "uid": "uid-of-pi",
        }

    served(case)


def test_of_many_at_once_a_burst_is_sent_and_the_others_are_counted():
    async def case(server: ApiServer):
        desk = Desk(server)
        async with sending(desk):
            desk.say(BURST + 7)
            desk.say(1, "another")
            await until(lambda: len(server.all(EVENT)) == BURST + 1)
        assert desk.dropped == 7

    served(case)


def test_after_a_burst_there_is_one_in_five_seconds(monkeypatch):
    async def case(server: ApiServer):
        now = 1000.0
        monkeypatch.setattr(event_recorder, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
        desk = Desk(server)
        desk.say(BURST)
        assert desk.dropped == 0
        now += 4.0
        desk.say()
        assert desk.dropped == 1
        now += 1.0
        desk.say(2)
        assert desk.dropped == 2
        now += 3600.0
        desk.say(BURST + 1)
        assert desk.dropped == 3

    served(case)


def test_a_queue_that_is_full_drops_what_comes():
    async def case(server: ApiServer):
        desk = Desk(server)
        for number in range(1000):
            desk.say(1, f"app-{number}")
        assert desk.dropped == 0
        desk.say(3, "one-more")
        assert desk.dropped == 3

    served(case)


def test_it_knows_only_so_many_applications(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setattr(event_recorder, "_MOST_KNOWN", 2)
        desk = Desk(server)
        desk.say(BURST, "a")
        desk.say(1, "b")
        desk.say(1, "a")
        assert desk.dropped == 1
        desk.say(1, "c")  # b was heard of longest ago
        desk.say(1, "a")
        assert desk.dropped == 2

    served(case)


@pytest.mark.parametrize("what", [403, 404, 409, 422, 500, What.LOST, What.GARBLED])
def test_an_event_that_is_not_taken_is_counted_and_the_next_is_sent(what):
    async def case(server: ApiServer):
        desk = Desk(server)
        server.fault("POST", EVENTS, what)
        async with sending(desk):
            desk.say(note="first")
            await until(lambda: desk.dropped)
            desk.say(note="second")
            await until(lambda: server.all(EVENT) and server.all(EVENT)[-1]["note"] and len(server.calls) == 2)
            assert "second" in [event["note"] for event in server.all(EVENT)]
        assert desk.dropped == 1

    served(case)


def test_a_server_that_hangs_holds_up_nobody_who_records():
    async def case(server: ApiServer):
        desk = Desk(server)
        late = server.fault("POST", EVENTS, What.LATE)
        async with sending(desk):
            desk.say(5)
            await until(lambda: late.hits)
            assert len(server.all(EVENT)) == 1
            late.release.set()
            await until(lambda: len(server.all(EVENT)) == 5)
        assert desk.dropped == 0

    served(case)


def test_a_long_note_and_a_long_name_are_shortened_to_what_the_api_takes():
    async def case(server: ApiServer):
        desk = Desk(server)
        async with sending(desk):
            desk.say(1, "n" * 253, "x" * 5000)
            desk.say(1, "n" * 253, "y" * 1024)
            await until(lambda: len(server.all(EVENT)) == 2)
        first, second = sorted(server.all(EVENT), key=lambda event: event["note"])
        assert first["note"] == "x" * 1020 + " ..."
        assert second["note"] == "y" * 1024
        assert len(first["metadata"]["name"]) <= 63
        assert first["regarding"]["name"] == "n" * 253

    served(case)
