"""A client of job masters, against one that is well and against drivers that mean no good."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json

import pytest

from rekindle.api.operator_exchange import (
    MOST_ANSWER_BYTES,
    ExchangeAnswer,
    ExchangeRequest,
    WireBlock,
    Wish,
    encode,
    wished,
)
from rekindle.controller.exchange import client as module
from rekindle.controller.exchange.client import ExchangeClient, NotServed, Unusable
from rekindle.runtime.exchange_endpoint import ExchangeEndpoint
from tests.unit.controller.speculation.driver import Driver, saying, streaming

REQUEST = ExchangeRequest(blocks=(WireBlock(node="n1", end=100.0, cause="slow"),), nodes={"1": "n1"})


def tell(monkeypatch, port: int, token: str = "secret") -> ExchangeAnswer:
    async def told() -> ExchangeAnswer:
        monkeypatch.setattr(module, "PORT", port)
        client = ExchangeClient()
        try:
            return await client.tell("127.0.0.1", token, REQUEST)
        finally:
            await client.close()

    return asyncio.run(told())


@pytest.fixture
def endpoint():
    endpoint = ExchangeEndpoint("127.0.0.1", 0, hashlib.sha256(b"secret").hexdigest(), lambda: None)
    yield endpoint
    endpoint.close()


def test_a_job_master_hears_and_answers(monkeypatch, endpoint):
    answer = wished([Wish(node="n2", seconds=1.5, cause="slow")], excludes=True)
    endpoint.answer = encode(answer)
    assert tell(monkeypatch, endpoint.port) == answer
    assert endpoint.request == REQUEST


def test_with_another_token_it_does_not(monkeypatch, endpoint):
    with pytest.raises(Unusable, match="it answered 401"):
        tell(monkeypatch, endpoint.port, token="other")


def test_nobody_is_told_apart_from_somebody_who_is_of_no_use(monkeypatch, endpoint):
    endpoint.close()
    with pytest.raises(NotServed, match=r"127\.0\.0\.1"):
        tell(monkeypatch, endpoint.port)


def asked(monkeypatch, answer) -> Driver:
    """The request that a driver got which answers so."""

    async def case() -> Driver:
        async with Driver(answer) as driver:
            monkeypatch.setattr(module, "PORT", driver.address.port)
            client = ExchangeClient()
            try:
                await client.tell("127.0.0.1", "secret", REQUEST)
            finally:
                await client.close()
        return driver

    return asyncio.run(case())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (saying({}, status=500), "it answered 500"),
        (saying("", status=302, Location="http://127.0.0.1:1/v1/exchange"), "it answered 302"),
        (saying(gzip.compress(b"{}"), Content_Encoding="gzip"), "compressed"),
        (saying(b"\xff\x00"), "expected"),
        (saying([]), "expected a mapping"),
        (saying({"wishes": [{"node": "a\nb", "seconds": 1, "cause": ""}]}), r"wishes\[0\].node"),
        (saying({"wishes": [{"node": "n", "seconds": 1, "cause": ""}] * 101}), "wishes"),
        (saying({"excludes": "yes"}), "excludes: expected true or false"),
        (saying("[" * 100_000), "recursion|expected"),
        (saying(json.dumps({"wishes": []}) + " " * MOST_ANSWER_BYTES), "too large: more than 1048576 bytes"),
        (streaming(b"{", b" " * 65536), "too large"),
    ],
)
def test_an_answer_that_is_none_is_refused_in_one_line(monkeypatch, answer, message):
    with pytest.raises(Unusable, match=message) as refused:
        asked(monkeypatch, answer)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 300


def test_who_takes_for_ever_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    with pytest.raises(NotServed, match="no answer in time"):
        asked(monkeypatch, streaming(b"{", b" ", pause=0.05))
