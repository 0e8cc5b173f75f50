"""Nodes are marked as NodeBlocks say, whatever the API server answers meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rekindle.api.node_block import format_instant
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.marks import BLOCKED, is_marked
from rekindle.controller.blocks.settings import BlockSettings
from rekindle.controller.clock import format_time
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import EVENT, NODE, NODE_BLOCK, Object
from tests.unit.controller.api_server import ApiServer, What, served, until
from tests.unit.controller.blocks import objects

NODE_PATCH = "/nodes/n1$"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.work_queue._FIRST_BACKOFF", 0.02)


def soon(seconds: float = 0.3) -> str:
    return format_instant(objects.datetime_of(time.time() + seconds))


def ask(server: ApiServer, node: str = "n1", **more: Any) -> None:
    body = objects.block(node, **more)
    body["metadata"].pop("uid")
    body["metadata"]["creationTimestamp"] = format_time(time.time())
    body["spec"]["end"] = soon(600)
    server.make(NODE_BLOCK, "", body)


class Kept:
    """A keeper at work on a server with five nodes."""

    def __init__(self, server: ApiServer) -> None:
        self.server, self.metrics = server, Metrics()
        self.nodes = Informer(server.kube, NODE)
        self.events = EventRecorder(server.kube, "op", lambda: None)
        self.told: list[list[str]] = []

    async def run(self) -> None:
        keeper = BlockKeeper(
            self.server.kube, self.nodes, BlockSettings(), self.events, self.metrics, lambda application: False
        )
        keeper.listen(lambda active: self.told.append(sorted(active)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.events.run())
            tasks.create_task(keeper.run())

    def node(self, name: str = "n1") -> Object:
        found = self.server.get(NODE, "", name)
        assert found is not None
        return found

    def block(self) -> Object | None:
        return self.server.get(NODE_BLOCK, "", "n1")

    def status(self) -> Object:
        return (self.block() or {}).get("status") or {}

    def condition(self) -> Object:
        return (self.status().get("conditions") or [{}])[0]

    def reason(self) -> str:
        return self.condition().get("reason", "")

    def noted(self, kind: str) -> list[str]:
        return sorted(one["reason"] for one in self.server.all(EVENT) if one["regarding"]["kind"] == kind)


def at_work(case: Callable[[ApiServer, Kept], Awaitable[None]], *prepare: Callable[[ApiServer], None]) -> None:
    async def prepared(server: ApiServer) -> None:
        for number in range(1, 6):
            server.make(NODE, "", objects.node(f"n{number}"))
        for step in prepare:
            step(server)
        kept = Kept(server)
        task = asyncio.create_task(kept.run())
        try:
            await case(server, kept)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    served(prepared)


@pytest.mark.requirement("S3-3", "S3-9", "S3-13")
def test_a_node_is_marked_while_its_block_is_in_force_and_no_longer():
    async def case(server: ApiServer, kept: Kept) -> None:
        ask(server, ours=True)
        await until(lambda: kept.reason() == "NodeBlocked")
        assert is_marked(kept.node())
        server.change(NODE_BLOCK, "", "n1", {"spec": {"end": soon()}})
        await until(lambda: kept.block() is None)
        assert not is_marked(kept.node())
        await until(lambda: kept.noted("Node") == ["NodeBlocked", "NodeUnblocked"])
        await until(lambda: kept.told[-1] == [])
        assert kept.told[0] == ["n1"]

    at_work(case)


@pytest.mark.requirement("S3-13")
def test_what_another_operator_left_is_swept_at_the_start():
    def leave(server: ApiServer) -> None:
        taint = {"key": BLOCKED, "value": "true", "effect": "NoSchedule"}
        theirs = {"key": "pool", "effect": "NoSchedule"}
        server.change(NODE, "", "n1", {"metadata": {"labels": {BLOCKED: "true"}}, "spec": {"taints": [theirs, taint]}})

    async def case(server: ApiServer, kept: Kept) -> None:
        await until(lambda: not is_marked(kept.node()))
        assert kept.node()["spec"]["taints"] == [{"key": "pool", "effect": "NoSchedule"}]

    at_work(case, leave)


def test_a_block_that_is_deleted_frees_its_node():
    async def case(server: ApiServer, kept: Kept) -> None:
        ask(server)
        await until(lambda: is_marked(kept.node()))
        server.remove(NODE_BLOCK, "", "n1")
        await until(lambda: not is_marked(kept.node()))

    at_work(case)


def test_a_mark_that_somebody_takes_off_is_put_on_again():
    async def case(server: ApiServer, kept: Kept) -> None:
        ask(server)
        await until(lambda: is_marked(kept.node()))
        server.change(NODE, "", "n1", {"metadata": {"labels": {BLOCKED: None}}, "spec": {"taints": None}})
        await until(lambda: is_marked(kept.node()))

    at_work(case)


@pytest.mark.requirement("S3-10")
def test_a_renewal_touches_no_node():
    async def case(server: ApiServer, kept: Kept) -> None:
        ask(server)
        await until(lambda: kept.noted("Node") == kept.noted("NodeBlock") == ["NodeBlocked"])
        before = len(server.written("/events$"))
        server.change(NODE_BLOCK, "", "n1", {"spec": {"end": soon(1200)}})
        server.change(NODE_BLOCK, "", "n1", {"metadata": {"generation": 2}})
        await until(lambda: kept.status().get("observedGeneration") == 2)
        assert [call for call in server.written("/events$")[before:] if "/nodes/" in call] == []
        assert kept.noted("NodeBlock") == ["NodeBlocked"]

    at_work(case)


@pytest.mark.parametrize(
    ("what", "more"),
    [(409, {}), (500, {}), (What.LOST, {}), (What.DROPPED, {}), (429, {})],
)
def test_a_node_is_marked_in_the_end_whatever_befalls_the_first_patches(what, more):
    async def case(server: ApiServer, kept: Kept) -> None:
        server.fault("PATCH", NODE_PATCH, what, times=2, **more)
        ask(server)
        await until(lambda: kept.reason() == "NodeBlocked")
        assert is_marked(kept.node())

    at_work(case)


def test_a_node_that_may_not_be_marked_is_not_said_to_be_blocked():
    async def case(server: ApiServer, kept: Kept) -> None:
        server.fault("PATCH", NODE_PATCH, 403, times=99)
        ask(server)
        await until(lambda: kept.reason() == "Refused")
        assert kept.status()["active"] is False
        assert "refused to mark node n1" in kept.condition()["message"]
        assert kept.told == []

    at_work(case)


def test_a_node_that_is_deleted_while_blocked_leaves_a_block_that_says_so():
    async def case(server: ApiServer, kept: Kept) -> None:
        ask(server)
        await until(lambda: kept.reason() == "NodeBlocked")
        server.remove(NODE, "", "n1")
        await until(lambda: kept.reason() == "NoSuchNode")
        server.make(NODE, "", objects.node("n1"))
        await until(lambda: kept.reason() == "NodeBlocked" and is_marked(kept.node()))

    at_work(case)
