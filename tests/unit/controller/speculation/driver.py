"""A driver's UI in this process, which answers all requests in one way, as a test says."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from rekindle.controller.speculation.spark_rest import Address

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Driver:
    """Runs as a context. `requests` are what came, `peers` from where."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._answer, self._tls = answer, tls
        self.requests: list[web.Request] = []
        self.peers: list[Any] = []

    async def __aenter__(self) -> Driver:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._noted)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        host, port = self._runner.addresses[0][:2]
        self.address = Address(host, port, tls=self._tls is not None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _noted(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.requests.append(request)
        self.peers.append(request.transport.get_extra_info("peername"))
        return await self._answer(request)


def saying(body: object, status: int = 200, **headers: str) -> Answer:
    """Bytes and texts as they are, else JSON."""
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=raw, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def streaming(*chunks: bytes, pause: float = 0) -> Answer:
    """These chunks, the last one again and again, after `pause` seconds each, as long as anybody listens."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        while True:
            await asyncio.sleep(pause)
            await response.write(chunks[-1])

    return answer


async def dropping(request: web.Request) -> web.Response:
    """The connection, before an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def dropping_within(request: web.Request) -> web.StreamResponse:
    """The connection, within an answer."""
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"[")
    return await dropping(request)
