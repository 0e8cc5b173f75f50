"""The port on which a job master answers, asked by the operator and by others."""

import hashlib
import http.client
import socket
import threading

import pytest

from rekindle.api.operator_exchange import (
    MOST_REQUEST_BYTES,
    PATH,
    PORT_VARIABLE,
    TOKEN_VARIABLE,
    ExchangeAnswer,
    ExchangeRequest,
    WireBlock,
    Wish,
    encode,
    wished,
)
from rekindle.runtime import exchange_endpoint
from rekindle.runtime.exchange_endpoint import ExchangeEndpoint, endpoint_of_environment

TOKEN = "secret"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
REQUEST = ExchangeRequest(blocks=(WireBlock(node="n1", end=100.0, cause="slow"),), nodes={"1": "n1"})
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def endpoint(heard):
    endpoint = ExchangeEndpoint("127.0.0.1", 0, DIGEST, lambda: heard.append("heard"))
    yield endpoint
    endpoint.close()


def ask(endpoint, method="POST", path=PATH, body=None, headers=BEARER) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=20)
    connection.request(method, path, encode(REQUEST) if body is None else body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def test_what_is_told_is_left_for_the_job_master_and_answered_with_what_it_prepared(endpoint, heard):
    assert ask(endpoint) == (200, encode(ExchangeAnswer()))
    endpoint.answer = encode(wished([Wish(node="n2", seconds=1.0, cause="slow")], excludes=True))
    assert ask(endpoint) == (200, endpoint.answer)
    assert endpoint.request == REQUEST
    assert heard == ["heard"]  # the second told nothing new


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"headers": {}}, 401),
        ({"headers": {"Authorization": "Bearer other"}}, 401),
        ({"headers": {"Authorization": f"Bearer {DIGEST}"}}, 401),
        ({"headers": {"Authorization": "Bearer \xff"}}, 401),
        ({"path": "/"}, 404),
        ({"path": f"{PATH}?x"}, 404),
        ({"method": "GET"}, 501),
        ({"method": "PUT"}, 501),
        ({"body": b"{"}, 400),
        ({"body": b'{"nodes": []}'}, 400),
        ({"body": iter([b"{}"])}, 411),
        ({"body": b"", "headers": {**BEARER, "Content-Length": "-1"}}, 411),
        ({"body": b"", "headers": {**BEARER, "Content-Length": "50000000"}}, 413),
        ({"body": b"", "headers": {**BEARER, "Content-Length": "9" * 4000}}, 413),
    ],
)
def test_what_is_not_the_operators_request_is_refused_and_changes_nothing(endpoint, heard, asked, status):
    assert ask(endpoint, **asked)[0] == status
    assert (endpoint.request, heard) == (None, [])


def test_who_is_refused_while_still_sending_hears_why(endpoint):
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=20) as asking:
        asking.sendall(f"POST {PATH} HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n".encode())
        assert asking.recv(1, socket.MSG_PEEK) == b"H"
        for _ in range(100):
            asking.sendall(b"x" * 10_000)
        asking.shutdown(socket.SHUT_WR)
        with asking.makefile("rb") as answer:
            assert answer.readline().startswith(b"HTTP/1.0 401")


def test_who_does_not_stop_sending_is_not_read_for_long(endpoint):
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=20) as asking:
        asking.sendall(f"POST {PATH} HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n".encode())
        with pytest.raises(OSError, match=r"reset|pipe"):
            asking.sendall(bytes(4 * MOST_REQUEST_BYTES))


def test_who_says_nothing_is_cut_off_and_keeps_nobody_out_for_long(monkeypatch, heard):
    monkeypatch.setattr(exchange_endpoint, "_SECONDS", 0.3)
    monkeypatch.setattr(exchange_endpoint._Handler, "timeout", 60.0)
    endpoint = ExchangeEndpoint("127.0.0.1", 0, DIGEST, lambda: None)
    try:
        silent = [
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=20)
            for _ in range(exchange_endpoint._AT_ONCE)
        ]
        for one in silent:
            one.sendall(b"POST /v1/exchange HTTP/1.1\r\nX: ")
        assert [one.recv(1) for one in silent] == [b""] * len(silent)
        for one in silent:
            one.close()
        assert endpoint._server._places.acquire(timeout=20)
        endpoint._server._places.release()
        assert ask(endpoint)[0] == 200
    finally:
        endpoint.close()


def test_more_than_a_few_at_a_time_are_turned_away(endpoint):
    most = exchange_endpoint._AT_ONCE
    silent = [socket.create_connection(("127.0.0.1", endpoint.port), timeout=20) for _ in range(most + 1)]
    assert silent[most].recv(1) == b""
    for one in silent:
        one.close()


def test_what_was_prepared_long_ago_is_no_answer(monkeypatch, endpoint):
    monkeypatch.setattr(exchange_endpoint, "_FRESH_SECONDS", 0.0)
    assert ask(endpoint) == (503, b"the job master is busy")


def test_the_port_is_free_when_it_has_ended():
    first = ExchangeEndpoint("127.0.0.1", 0, DIGEST, lambda: None)
    with pytest.raises(OSError, match="in use"):
        ExchangeEndpoint("127.0.0.1", first.port, DIGEST, lambda: None)
    first.close()
    ExchangeEndpoint("127.0.0.1", first.port, DIGEST, lambda: None).close()
    assert "rekindle-exchange" not in {thread.name for thread in threading.enumerate()}


def test_it_is_served_where_the_environment_says_so(monkeypatch):
    monkeypatch.delenv(PORT_VARIABLE, raising=False)
    assert endpoint_of_environment(lambda: None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, DIGEST)
    monkeypatch.setenv(PORT_VARIABLE, "0")
    monkeypatch.setenv("SPARK_DRIVER_BIND_ADDRESS", "::1" if socket.has_ipv6 else "127.0.0.1")
    endpoint = endpoint_of_environment(lambda: None)
    assert endpoint is not None
    endpoint.close()
    monkeypatch.setenv(PORT_VARIABLE, "many")
    with pytest.raises(ValueError, match="many"):
        endpoint_of_environment(lambda: None)
