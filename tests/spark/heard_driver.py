"""A driver that an operator may talk to, and the operator's part of that."""

from __future__ import annotations

import http.client

from rekindle.api.operator_exchange import PATH, ExchangeAnswer, ExchangeRequest, decode, encode

TOKEN = "a token"

LISTENS = """
import hashlib, os, socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
os.environ |= {
    "REKINDLE_EXCHANGE_PORT": str(port),
    "REKINDLE_EXCHANGE_TOKEN_SHA256": hashlib.sha256(b"a token").hexdigest(),
}
"""
"""How the program of a `tests.spark.asked_driver.Driver` begins, so that it listens on `port`."""


def post(port: int, request: ExchangeRequest) -> ExchangeAnswer:
    """What the driver that listens there answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", PATH, encode(request), {"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    assert response.status == 200
    return decode(response.read(), ExchangeAnswer)
