"""The key from which all tokens are made, and what drivers get of it."""

from __future__ import annotations

import asyncio
import base64
import hashlib

import pytest

from rekindle.controller.exchange.tokens import ExchangeTokens
from rekindle.controller.resources import SECRET, Object
from tests.unit.controller.api_server import ApiServer, What, served


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.exchange.tokens._PAUSE", 0.01)


async def loaded(server: ApiServer) -> ExchangeTokens:
    tokens = ExchangeTokens(server.kube, "ops", "op-exchange")
    await tokens.load()
    return tokens


def test_the_next_operator_makes_the_same_tokens():
    async def case(server: ApiServer) -> None:
        first, second = await loaded(server), await loaded(server)
        token = first.token("uid", "pi-driver")
        assert token is not None
        assert second.token("uid", "pi-driver") == token
        assert second.digest("uid", "pi-driver") == hashlib.sha256(token.encode()).hexdigest()
        assert len(server.all(SECRET)) == 1

    served(case)


def test_each_driver_has_another_one():
    async def case(server: ApiServer) -> None:
        tokens = await loaded(server)
        drivers = [("uid", "pi-1-driver"), ("uid", "pi-2-driver"), ("other", "pi-1-driver")]
        assert len({tokens.token(*driver) for driver in drivers}) == 3

    served(case)


def test_two_operators_that_begin_together_have_one_key():
    async def case(server: ApiServer) -> None:
        first, second = await asyncio.gather(loaded(server), loaded(server))
        assert first.token("uid", "p") == second.token("uid", "p") is not None

    served(case)


@pytest.mark.parametrize("data", [{}, {"key": "!"}, {"key": base64.b64encode(b"short").decode()}, None])
def test_a_secret_without_a_key_is_left_alone_and_told_of(data, caplog):
    async def case(server: ApiServer) -> None:
        body: Object = {"metadata": {"name": "op-exchange"}, "data": data}
        server.make(SECRET, "ops", body)
        assert (await loaded(server)).token("uid", "p") is None
        assert "Secret op-exchange: it has no data.key of 32 bytes; delete it" in caplog.text

    served(case)


def test_without_the_right_there_are_no_tokens_and_it_is_told(caplog):
    async def case(server: ApiServer) -> None:
        server.fault("GET", "/secrets/op-exchange$", 403)
        tokens = await loaded(server)
        assert (tokens.token("uid", "p"), tokens.digest("uid", "p")) == (None, None)
        assert "job masters are not asked: Secret op-exchange" in caplog.text

    served(case)


@pytest.mark.parametrize("what", [503, What.LOST, What.DROPPED])
def test_a_server_that_is_away_is_asked_again(what):
    async def case(server: ApiServer) -> None:
        server.fault("POST", "/secrets$", what)
        assert (await loaded(server)).token("uid", "p") is not None
        assert len(server.all(SECRET)) == 1

    served(case)
