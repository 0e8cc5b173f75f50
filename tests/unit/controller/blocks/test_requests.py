"""Blocks in the name of applications: made once, renewed by a merge, refused with a reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

import pytest

from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.blocks.settings import BlockSettings
from rekindle.controller.clock import format_time, parse_time
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import NODE, NODE_BLOCK, Object
from tests.unit.controller.api_server import ApiServer, served, until
from tests.unit.controller.blocks import objects

HALF = Fraction(1, 2)
Case = Callable[[ApiServer, BlockRequests, BlockKeeper], Awaitable[None]]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.work_queue._FIRST_BACKOFF", 0.02)


def asked(case: Case, **settings: Any) -> None:
    async def prepared(server: ApiServer) -> None:
        for number in range(1, 6):
            server.make(NODE, "", objects.node(f"n{number}"))
        nodes, chosen = Informer(server.kube, NODE), BlockSettings(**settings)
        events = EventRecorder(server.kube, "op", lambda: None)
        keeper = BlockKeeper(server.kube, nodes, chosen, events, Metrics(), lambda application: False)

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(nodes.run())
                tasks.create_task(keeper.run())

        task = asyncio.create_task(run())
        try:
            await nodes.wait_until_listed()
            await case(server, BlockRequests(server.kube, keeper, nodes, chosen), keeper)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    served(prepared)


def the_block(server: ApiServer) -> Object:
    [block] = server.all(NODE_BLOCK)
    return block


@pytest.mark.requirement("S3-1", "S3-2", "S3-7", "S3-8")
def test_a_block_is_made_with_its_cause_its_end_and_who_asked():
    async def case(server: ApiServer, requests: BlockRequests, keeper: BlockKeeper) -> None:
        began = time.time()
        assert await requests.ask("team/pi", "n1", 60.0, "slow task a[1]", remove_when_done=False)
        spec = the_block(server)["spec"]
        assert (spec["node"], spec["action"], spec["cause"]) == ("n1", "MarkBlocked", "slow task a[1]")
        assert spec["applications"] == ["team/pi"]
        assert began + 59 <= parse_time(spec["end"]) <= time.time() + 61
        await until(lambda: "n1" in keeper.active)

    asked(case)


@pytest.mark.requirement("S3-10", "S3-14")
def test_renewals_move_the_end_seldom_and_never_back_and_add_who_asks():
    async def case(server: ApiServer, requests: BlockRequests, keeper: BlockKeeper) -> None:
        await requests.ask("team/pi", "n1", 60.0, "first", remove_when_done=True)
        await until(lambda: "n1" in keeper.active)
        end, writes = the_block(server)["spec"]["end"], len(server.written("/events$|status$"))
        for _ in range(5):
            assert not await requests.ask("team/pi", "n1", 60.0, "first", remove_when_done=True)
        assert len(server.written("/events$|status$")) == writes, "reports of the same second write nothing"
        await requests.ask("team/pi", "n1", 20.0, "shorter", remove_when_done=True)
        assert the_block(server)["spec"]["end"] == end
        for _ in range(100):  # of a version that the keeper has written over nothing is renewed, and it is asked again
            await until(lambda: keeper.stored() == server.all(NODE_BLOCK))
            await requests.ask("team/other", "n1", 120.0, "later", remove_when_done=False)
            if (spec := the_block(server)["spec"])["end"] != end:
                break
        assert parse_time(spec["end"]) > parse_time(end) + 50
        assert (spec["cause"], spec["applications"]) == ("later", ["team/pi", "team/other"])
        assert "removeWhenDone" not in spec, "one of them wants it to its end"

    asked(case)


def test_what_an_application_may_not_cause_is_refused_with_the_reason():
    async def case(server: ApiServer, requests: BlockRequests, keeper: BlockKeeper) -> None:
        assert requests.refusal("spark", "n1", HALF) is None
        said = requests.refusal("web", "n1", HALF)
        assert said is not None
        assert "namespace web may cause no blocks" in said

    asked(case, namespaces=("spark",))


def test_somebody_elses_block_of_that_name_is_left_alone():
    async def case(server: ApiServer, requests: BlockRequests, keeper: BlockKeeper) -> None:
        theirs = objects.block("n2", name="slow-n1")
        theirs["metadata"] = {"name": "slow-n1"}
        theirs["spec"]["end"] = format_time(time.time() + 600)
        made = server.make(NODE_BLOCK, "", theirs)
        await until(lambda: "n2" in keeper.active)
        assert await requests.ask("team/pi", "n1", 60.0, "slow", remove_when_done=False)
        assert (server.get(NODE_BLOCK, "", "slow-n1") or {})["spec"] == made["spec"]
        assert sorted(block["spec"]["node"] for block in server.all(NODE_BLOCK)) == ["n1", "n2"]

    asked(case, max_blocked_share=HALF)


def test_an_application_may_want_fewer_blocks_than_the_cluster_allows():
    async def case(server: ApiServer, requests: BlockRequests, keeper: BlockKeeper) -> None:
        await requests.ask("team/pi", "n1", 60.0, "first", remove_when_done=False)
        await until(lambda: "n1" in keeper.active)
        assert requests.refusal("team", "n1", Fraction(1, 5)) is None, "it is blocked, and may be renewed"
        said = requests.refusal("team", "n2", Fraction(1, 5))
        assert said is not None
        assert said.startswith("1 of 5 nodes are blocked, and it wants at most 1")
        assert requests.refusal("team", "n2", HALF) is None

    asked(case, max_blocked_share=HALF)
