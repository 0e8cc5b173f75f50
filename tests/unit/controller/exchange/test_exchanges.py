"""The operator and a job master's endpoint: with an API server in this process, three nodes, an executor on each."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from rekindle.api.job_report import JobReport, job_report
from rekindle.api.operator_exchange import Wish, encode, wished
from rekindle.controller.blocks.settings import BlockMode
from rekindle.controller.exchange import client as client_module
from rekindle.controller.exchange.exchanges import Exchanges
from rekindle.controller.exchange.tokens import ExchangeTokens
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.controller.recovery.known_jobs import KnownJobs
from rekindle.controller.resources import EVENT, NODE_BLOCK, POD
from rekindle.runtime.exchange_endpoint import ExchangeEndpoint
from tests.unit.controller.api_server import ApiServer, What, until
from tests.unit.controller.blocks import objects
from tests.unit.controller.speculation.test_scheduler import KEY, FakeDriver, Stage, _short_pauses, before_work
from tests.unit.controller.world import UID
from tests.unit.core.dsl import Run, job

__all__ = ["_short_pauses"]

_PARTS = "rekindle.controller.exchange.exchanges."


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch):
    monkeypatch.setattr(_PARTS + "_ROUND_SECONDS", 0.05)
    monkeypatch.setattr(_PARTS + "_CHANGE_PAUSE", 0.01)
    monkeypatch.setattr(_PARTS + "_UNANSWERED_PAUSES", (0.05,))


class Exchanging(Stage):
    """Beside the scheduler, the exchanges; and the endpoint of a job master. Its driver's REST is silent at first."""

    def __init__(self, server: ApiServer, driver: FakeDriver, mode: BlockMode) -> None:
        super().__init__(server, driver, mode)
        driver.is_silent = True
        self.tokens = ExchangeTokens(server.kube, "ops", "op-exchange")
        self.jobs = KnownJobs()
        acting, events = self.scheduler._acting, self.scheduler._events
        blocks = (self.keeper, acting) if mode is not BlockMode.OFF else ()
        self.exchanges = Exchanges(self.store, self.tokens, self.drivers, events, self.metrics, self.jobs, *blocks)
        self.scheduler.copies_itself = self.exchanges.copies_itself
        self.pods.listen(lambda before, after: self.exchanges.look(KEY))
        self.parts: Any = (*self.parts, self.exchanges)

    def serve(self, stack: AsyncExitStack, monkeypatch, digest: str | None = None) -> ExchangeEndpoint:
        known = digest or self.tokens.digest(UID, "pi-driver")
        assert known is not None
        endpoint = ExchangeEndpoint("127.0.0.1", 0, known, lambda: None)
        stack.callback(endpoint.close)
        monkeypatch.setattr(client_module, "PORT", endpoint.port)
        return endpoint

    def counted(self) -> set[str]:
        """Results of requests that the metrics know."""
        families = (one for one in self.metrics.registry.collect() if one.name == "rekindle_exchanges")
        return {sample.labels["result"] for one in families for sample in one.samples if sample.name.endswith("_total")}

    def messages(self, reason: str) -> list[str]:
        return [one["note"] for one in self.server.all(EVENT) if one["reason"] == reason]


Case = Callable[[Exchanging, ExchangeEndpoint], Awaitable[None]]


def exchanging(
    monkeypatch, case: Case, *, digest: str | None = None, mode: BlockMode = BlockMode.ON, **spec: Any
) -> None:
    async def prepared(stage: Stage) -> None:
        one = Exchanging(stage.server, stage.driver, mode)
        await one.tokens.load()
        async with AsyncExitStack() as stack:
            endpoint = one.serve(stack, monkeypatch, digest)
            async with one.at_work():
                one.start(**spec)
                one.exchanges.look(KEY)
                await case(one, endpoint)

    before_work(monkeypatch, prepared)


def answered(endpoint: ExchangeEndpoint, *wishes: Wish, job: JobReport | None = None) -> None:
    """The job master has prepared this, and does so again for each request that it takes up."""

    def take_up() -> None:
        number = endpoint.request.number if endpoint.request is not None else 0
        endpoint.answer = encode(wished(list(wishes), excludes=True, number=number, job=job))

    endpoint._heard = take_up
    take_up()


def told(endpoint: ExchangeEndpoint) -> dict[str, float]:
    return {block.node: block.end for block in endpoint.request.blocks} if endpoint.request is not None else {}


@pytest.mark.requirement("S3-9", "S3-14")
def test_a_job_master_hears_of_blocks_until_they_end(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        await until(lambda: endpoint.request is not None and len(endpoint.request.nodes) == 3)
        assert endpoint.request is not None
        assert endpoint.request.nodes == {"1": "n1", "2": "n2", "3": "n3"}
        await until(lambda: stage.counted() == {"answered"})
        end = time.time() + 600
        stage.server.make(NODE_BLOCK, "", objects.block("n1", name="mine", end=end - objects.NOW))
        await until(lambda: told(endpoint))
        assert told(endpoint) == {"n1": pytest.approx(end, abs=1.0)}
        stage.server.remove(NODE_BLOCK, "", "mine")
        await until(lambda: not told(endpoint))

    exchanging(monkeypatch, case)


def asked(stage: Exchanging) -> float:
    """How often its job master has answered."""
    return stage.metrics.exchanges.labels("answered")._value.get()


@pytest.mark.requirement("S7-22")
@pytest.mark.parametrize("spec", [{}, {"speculation": {}, "recovery": {"store": "s3://team/pi"}}])
def test_what_is_told_of_a_job_is_heard_also_where_nobody_looks_for_slow_tasks(monkeypatch, spec):
    run = Run(job("A*3 => B")).submit()
    run.finish("A[1]")
    report = job_report(run.job_graph, run.graph.inventory(), {})

    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint, Wish(node="n1", seconds=20.0, cause="slow"), job=report)
        driver = next(one for one in stage.server.all(POD) if one["metadata"]["name"] == "pi-driver")
        await until(lambda: stage.jobs.of(KEY, driver["metadata"]["uid"]) == facts_of(report))
        if not spec:
            return
        answers = asked(stage)
        await until(lambda: asked(stage) > answers + 1)  # the wish of the first has been taken, or not
        assert stage.server.all(NODE_BLOCK) == []  # it is of somebody who must not wish

    exchanging(monkeypatch, case, **spec)


@pytest.mark.requirement("S3-15", "S7-22")
def test_an_operator_that_blocks_no_nodes_hears_of_jobs_all_the_same(monkeypatch):
    """And says that it does not heed what else it is asked for."""
    run = Run(job("A*3 => B")).submit()
    report = job_report(run.job_graph, run.graph.inventory(), {})

    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(
            endpoint, *(Wish(node=node, seconds=20.0, cause="slow") for node in ("n1", "n2", "elsewhere")), job=report
        )
        driver = next(one for one in stage.server.all(POD) if one["metadata"]["name"] == "pi-driver")
        await until(lambda: stage.jobs.of(KEY, driver["metadata"]["uid"]) == facts_of(report))
        answers = asked(stage)
        await until(lambda: asked(stage) > answers + 5)
        assert sorted(stage.messages("NodeBlockRefused")) == [
            "elsewhere is not blocked: no executor of the application is there",
            "n1 is not blocked: this operator blocks none (nodeBlocks.enabled, watchNodes)",
        ]
        assert (told(endpoint), stage.server.all(NODE_BLOCK)) == ({}, [])

    exchanging(monkeypatch, case, mode=BlockMode.OFF)


@pytest.mark.requirement("S3-1", "S3-2")
def test_a_wish_becomes_a_block_that_lasts_as_long_as_is_wished(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint, Wish(node="n1", seconds=20.0, cause="slow task A[3]:\n too slow"))
        [block] = await until(lambda: stage.server.all(NODE_BLOCK))
        assert block["spec"]["cause"] == "slow task A[3]: too slow"
        assert block["spec"]["applications"] == ["team/pi"]
        await until(lambda: told(endpoint))
        assert told(endpoint)["n1"] <= time.time() + 21
        await until(lambda: stage.messages("SlowNode"))

    exchanging(monkeypatch, case)


@pytest.mark.requirement("S3-2")
def test_no_wish_blocks_for_longer_than_the_application_says(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint, Wish(node="n1", seconds=1e9, cause="slow"))
        await until(lambda: told(endpoint))
        assert told(endpoint)["n1"] <= time.time() + 61

    exchanging(monkeypatch, case)


@pytest.mark.requirement("S3-9")
def test_wishes_for_nodes_of_others_and_for_too_many_are_refused_and_told(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint, *(Wish(node=node, seconds=20.0, cause="slow") for node in ("elsewhere", "n1", "n2", "n3")))
        await until(lambda: len(stage.messages("NodeBlockRefused")) == 3)
        said = sorted(stage.messages("NodeBlockRefused"))
        assert said[0] == "elsewhere is not blocked: no executor of the application is there"
        assert "maxBlockedShare" in said[1]
        assert len(stage.server.all(NODE_BLOCK)) == 1

    exchanging(monkeypatch, case)


@pytest.mark.requirement("S3-3")
def test_while_it_answers_its_executors_are_not_drained_and_when_it_does_not_they_are(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint)
        await until(lambda: stage.exchanges.copies_itself(KEY))
        stage.driver.is_silent = False
        stage.server.make(NODE_BLOCK, "", objects.block("n2", name="mine", end=time.time() + 600 - objects.NOW))
        await until(lambda: told(endpoint))
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 10)
        assert not stage.ends("pi-1-exec-2")
        assert [block["metadata"]["name"] for block in stage.server.all(NODE_BLOCK)] == ["mine"]
        endpoint.close()
        await until(lambda: stage.ends("pi-1-exec-2"))

    exchanging(monkeypatch, case)


def test_one_that_cannot_exclude_has_its_executors_drained(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        stage.driver.is_silent = False
        await until(lambda: stage.ends("pi-1-exec-1"))
        await until(lambda: told(endpoint))
        assert not stage.exchanges.copies_itself(KEY)

    exchanging(monkeypatch, case)


@pytest.mark.requirement("S3-13")
def test_an_operator_that_begins_tells_of_no_block_s_end_before_it_knows_the_blocks(monkeypatch):
    async def prepared(stage: Stage) -> None:
        one = Exchanging(stage.server, stage.driver, BlockMode.ON)
        await one.tokens.load()
        assert one.exchanges.copies_itself(KEY)
        slow = one.server.fault("LIST", "/nodeblocks$", What.LATE)
        one.server.make(NODE_BLOCK, "", objects.block("n1", name="mine", end=time.time() + 600 - objects.NOW))
        async with AsyncExitStack() as stack:
            endpoint = one.serve(stack, monkeypatch)
            async with one.at_work():
                one.start()
                one.exchanges.look(KEY)
                await until(lambda: slow.hits and one.exchanges._talks)
                assert endpoint.request is None
                slow.release.set()
                await until(lambda: endpoint.request is not None)
                assert told(endpoint)

    before_work(monkeypatch, prepared)


@pytest.mark.requirement("S3-14")
def test_a_wish_from_before_a_block_was_lifted_blocks_nothing(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        endpoint.answer = encode(wished([Wish(node="n1", seconds=20.0, cause="slow")], excludes=True, number=7))
        await until(lambda: KEY in stage.exchanges._talks and stage.exchanges._talks[KEY].turn > 3)
        assert stage.server.all(NODE_BLOCK) == []

    exchanging(monkeypatch, case)


def test_a_wish_for_a_moment_blocks_nothing(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        answered(endpoint, Wish(node="n1", seconds=0.1, cause="slow"))
        await until(lambda: KEY in stage.exchanges._talks and stage.exchanges._talks[KEY].turn > 3)
        assert stage.server.all(NODE_BLOCK) == []

    exchanging(monkeypatch, case)


def test_a_driver_that_runs_no_pipeline_is_not_told_of(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        endpoint.close()
        await until(lambda: stage.exchanges._talks and stage.exchanges._talks[KEY].unanswered > 3)
        assert stage.reasons() <= {"DriverUnanswered"}
        assert stage.counted() == {"not_served"}

    exchanging(monkeypatch, case)


def test_a_job_master_that_does_not_know_the_token_is_told_of_once(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        await until(lambda: stage.messages("JobMasterUnanswered"))
        await until(lambda: stage.exchanges._talks[KEY].unanswered > 3)
        assert stage.messages("JobMasterUnanswered") == [
            "what its job master answers the operator cannot be used: it answered 401"
        ]
        assert endpoint.request is None
        assert stage.counted() == {"unusable"}

    exchanging(monkeypatch, case, digest="0" * 64)


def test_it_ends_with_the_driver(monkeypatch):
    async def case(stage: Exchanging, endpoint: ExchangeEndpoint) -> None:
        await until(lambda: endpoint.request)
        stage.server.remove(POD, "team", "pi-driver")
        await until(lambda: not stage.exchanges._talks)

    exchanging(monkeypatch, case)
