"""/healthz, /readyz and /metrics."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from rekindle.controller.metrics import Metrics

Problems = Callable[[], list[str]]
"""What is wrong at the moment, in sentences; nothing is well."""


async def serve(port: int, alive: Problems, ready: Problems, metrics: Metrics) -> web.AppRunner:
    """Answer on `port` until the runner is cleaned up. OSError where the port is taken."""

    def probe(problems: Problems) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(_: web.Request) -> web.StreamResponse:
            found = problems()
            return web.Response(status=503 if found else 200, text="".join(f"{line}\n" for line in found or ["ok"]))

        return answer

    async def show(_: web.Request) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    application = web.Application()
    application.router.add_get("/healthz", probe(alive))
    application.router.add_get("/readyz", probe(ready))
    application.router.add_get("/metrics", show)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
