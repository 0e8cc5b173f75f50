"""Where the operator reaches a job master: one POST of one path, answered from what was last prepared.

No request waits for the job master, and none touches it: what arrives is left for its loop. Who may reach the port need
not be the operator, so the token is looked at before a body is read, and size, time and number of requests are bounded.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from socketserver import ThreadingTCPServer
from typing import Any

from rekindle.api.operator_exchange import (
    MOST_REQUEST_BYTES,
    PATH,
    PORT_VARIABLE,
    TOKEN_VARIABLE,
    ExchangeAnswer,
    ExchangeRequest,
    decode,
    encode,
)

log = logging.getLogger(__name__)

_SECONDS = 5.0
_AT_ONCE = 16
_FRESH_SECONDS = 10.0
_BIND_VARIABLE = "SPARK_DRIVER_BIND_ADDRESS"


class ExchangeEndpoint:
    """Serves from when it is made until `close`. OSError where the address is taken."""

    def __init__(self, host: str, port: int, token_digest: str, heard: Callable[[], None]) -> None:
        """`token_digest`: SHA-256 of the token, in hex; `heard` is called when something new was told."""
        self._answer, self._answered_at = encode(ExchangeAnswer()), time.monotonic()
        self.request: ExchangeRequest | None = None
        """What the operator told last."""

        self._heard, self._token_digest = heard, token_digest
        self._server = _Server((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="rekindle-exchange")
        self._thread.daemon = True
        self._thread.start()

    @property
    def answer(self) -> bytes | None:
        """What the job master prepared last; None where that is so long ago that it holds no more."""
        return self._answer if time.monotonic() < self._answered_at + _FRESH_SECONDS else None

    @answer.setter
    def answer(self, answer: bytes) -> None:
        self._answer, self._answered_at = answer, time.monotonic()

    @property
    def port(self) -> int:
        """On which it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Free the port; a request that is being answered ends by itself."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def opens(self, authorization: str) -> bool:
        """Whether that header has the token."""
        token = authorization.removeprefix("Bearer ").encode("utf-8", "replace")
        return hmac.compare_digest(hashlib.sha256(token).hexdigest(), self._token_digest)

    def hear(self, body: bytes) -> None:
        """Take in what was told. ValueError where it cannot be read."""
        request = decode(body, ExchangeRequest)
        if request != self.request:
            self.request = request
            self._heard()


def endpoint_of_environment(heard: Callable[[], None]) -> ExchangeEndpoint | None:
    """As the operator has asked for in the environment of the driver's pod; None where it has not. OSError or
    ValueError where it cannot be done."""
    port, digest = os.environ.get(PORT_VARIABLE), os.environ.get(TOKEN_VARIABLE)
    if not port or not digest:
        return None
    return ExchangeEndpoint(os.environ.get(_BIND_VARIABLE, "127.0.0.1"), int(port), digest, heard)


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], endpoint: ExchangeEndpoint) -> None:
        self.endpoint, self._places = endpoint, threading.BoundedSemaphore(_AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(_SECONDS, _cut, (request,))  # each read has a time-out, and there may be many
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("the exchange with %s was cut short", client_address, exc_info=True)


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS

    def do_POST(self) -> None:
        status, body = self._answer(self.server.endpoint, self.rfile)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status is HTTPStatus.OK else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def finish(self) -> None:
        """Who is refused may still be sending; a socket closed on that is reset, and the answer lost with it.

        So what a request may have is read away, until the other end has closed or is cut off.
        """
        super().finish()
        left = MOST_REQUEST_BYTES
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (read := self.connection.recv(65536)):
                left -= len(read)

    def _answer(self, endpoint: ExchangeEndpoint, stream: BufferedIOBase) -> tuple[HTTPStatus, bytes]:
        if self.path != PATH:
            return HTTPStatus.NOT_FOUND, b"POST " + PATH.encode()
        if not endpoint.opens(self.headers.get("Authorization", "")):
            return HTTPStatus.UNAUTHORIZED, b"the token of this attempt is missing"
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal():
            return HTTPStatus.LENGTH_REQUIRED, b"Content-Length is missing"
        if len(size) > len(str(MOST_REQUEST_BYTES)) or int(size) > MOST_REQUEST_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"the request is too large"
        body = stream.read(int(size))
        if len(body) < int(size):
            return HTTPStatus.BAD_REQUEST, b"the request ends early"
        try:
            endpoint.hear(body)
        except ValueError as error:
            return HTTPStatus.BAD_REQUEST, str(error).encode()
        if (answer := endpoint.answer) is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, b"the job master is busy"
        return HTTPStatus.OK, answer

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug(format, *arguments)
