"""Where readers of a source ask for splits: one thread of the driver, any number of connections.

Who may reach the port need not be a reader, so the token is looked at before all else, and sizes, times and the number
of connections are bounded. `split_reader` has the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rekindle.runtime.split_reader import MOST_LINE

T = TypeVar("T")

log = logging.getLogger(__name__)

_HELLO_SECONDS = 10.0
_SEND_SECONDS = 60.0
_WAIT_SECONDS = 5.0
_LOOK_SECONDS = 1.0
"""How often it is looked whether somebody is gone for whom another waits."""

_AWAY_SECONDS = 15.0
"""After which a reader whose connection was lost has ended. It comes back at once, if at all."""
_MOST_CONNECTIONS = 4096
_START_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Reader:
    """An attempt of a subtask of a source. No other has its `id`; `task` is Spark's."""

    id: str
    stage: str
    subtask: int
    generation: int
    task: int
    host: str


@dataclass(frozen=True, slots=True)
class Split:
    """A split by its number, pickled."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the source's own, in JSON types."""

    payload: Any


class Refused(Exception):
    """There is nothing for this reader, now or later."""


class Splits(Protocol):
    """Who knows the splits. Called by the endpoint's thread; raises Refused where a reader gets none."""

    def register(self, reader: Reader) -> None:
        """A reader is there, or is back. It need not ask for anything yet."""
        ...

    def next(self, reader: Reader, position: int) -> Split | Event | None:
        """What is at a place in what the reader is told; None where there are no more splits, and that is settled."""
        ...

    def say(self, reader: Reader, event: Any) -> None:
        """A reader sends an event of the source's own."""
        ...

    def ended(self, reader: Reader, said: str) -> None:
        """A reader has finished or failed."""
        ...


class NotYet(Exception):
    """It is not known yet what a reader is to be told; `news` is called when it may be.

    Args:
        is_held: somebody works on it, and the reader is to wait for as long as that takes.
    """

    def __init__(self, *, is_held: bool) -> None:
        super().__init__(is_held)
        self.is_held = is_held


class SplitEndpoint:
    """Serves from when it is made until `close`. OSError where the address is taken.

    Args:
        host: to listen on; the port is one that is free, unless `port` says which.
        token: that readers have.
    """

    def __init__(self, host: str, token: str, splits: Splits, port: int = 0) -> None:
        self._token, self._splits = token.encode(), splits
        self._heard: dict[str, int] = {}
        self._connections: Counter[str] = Counter()
        self._gone: dict[str, float] = {}
        self._loop = asyncio.new_event_loop()
        self._waiting: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        started: Any = asyncio.run_coroutine_threadsafe(self._listen(host, port), self._loop)
        self._thread = threading.Thread(target=self._loop.run_forever, name="rekindle-splits", daemon=True)
        self._thread.start()
        try:
            self._server: asyncio.Server = started.result(_START_SECONDS)
        except BaseException:
            self._stop()
            raise

    @property
    def port(self) -> int:
        """On which it listens."""
        return int(self._server.sockets[0].getsockname()[1])

    def news(self) -> None:
        """Readers that wait are to be looked at again. From any thread."""
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Free the port and cut all connections. Where an enumerator blocks, its thread is left behind."""
        cut = asyncio.run_coroutine_threadsafe(self._cut(), self._loop)
        with contextlib.suppress(TimeoutError):
            cut.result(_START_SECONDS)
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, host, port, limit=MOST_LINE, backlog=1024)

    async def _cut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_START_SECONDS / 2)

    async def _serve(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= _MOST_CONNECTIONS:
                _keep_alive(writer.get_extra_info("socket"))
                await self._talk(stream, writer)
        except Exception as error:  # whatever a stranger says
            log.debug("a reader of splits was cut short: %r", error)
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _talk(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader, said = self._known(await self._line(stream, _HELLO_SECONDS)), None
        self._connections[reader.id] += 1
        self._gone.pop(reader.id, None)
        try:
            self._splits.register(reader)
            await self._say(writer, {"ok": True})
            while (asked := await self._line(stream, None)).get("bye") is None:  # a split may take hours to read
                await self._answer(writer, reader, asked)
            said = str(asked["bye"])
        except Refused as error:
            said = str(error)
            await self._say(writer, {"refused": said})
        finally:
            self._left(reader, said)

    def _left(self, reader: Reader, said: str | None) -> None:
        """A connection has ended; where nothing was said to that, its reader may come back on another."""
        self._connections[reader.id] -= 1
        if self._connections[reader.id] <= 0:
            del self._connections[reader.id]
        if said is not None:
            self._heard.pop(reader.id, None)
            with contextlib.suppress(KeyError):  # of no source that there is
                self._splits.ended(reader, said)
        elif reader.id not in self._connections:
            self._gone[reader.id] = self._loop.time()

    def is_gone(self, reader_id: str) -> bool:
        """Whether a reader's connection was lost so long ago that it will not come back. By this thread only."""
        return self._loop.time() > self._gone.get(reader_id, self._loop.time()) + _AWAY_SECONDS

    def _known(self, hello: dict[str, Any]) -> Reader:
        """Raises ValueError where it does not have the token, or says too little."""
        if not hmac.compare_digest(str(hello.get("token")).encode(), self._token):
            raise ValueError("the token is missing")
        named = {name: str(hello[name])[:200] for name in ("id", "stage", "host")}
        subtask, generation, task = (int(hello[name]) for name in ("subtask", "generation", "task"))
        return Reader(**named, subtask=subtask, generation=generation, task=task)

    async def _line(self, stream: asyncio.StreamReader, seconds: float | None) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            line = await stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection has ended")
        return dict(json.loads(line))

    async def _answer(self, writer: asyncio.StreamWriter, reader: Reader, asked: dict[str, Any]) -> None:
        try:
            if "event" in asked:
                number, event = int(asked["number"]), asked["event"]
                await self._when_known(lambda: self._hear(reader, number, event))
                await self._say(writer, {"ok": True})
                return
            position = int(asked["next"])
            told = await self._when_known(lambda: self._splits.next(reader, position))
        except NotYet as not_yet:
            await self._say(writer, {"wait": True, "held": not_yet.is_held})
            return
        match told:
            case Split(number, data):
                await self._say(writer, {"split": number, "bytes": len(data)}, data)
            case Event(payload):
                await self._say(writer, {"event": payload})
            case None:
                await self._say(writer, {"noMore": True})

    def _hear(self, reader: Reader, number: int, event: Any) -> None:
        """An event that is sent again, as its answer was lost, is passed over."""
        if number < self._heard.get(reader.id, 0):
            return
        try:
            self._splits.say(reader, event)
        except NotYet:
            raise
        except BaseException:
            self._heard[reader.id] = number + 1
            raise
        self._heard[reader.id] = number + 1

    async def _when_known(self, ask: Callable[[], T]) -> T:
        """What `ask` returns, if that is known within a few seconds; NotYet where it is not."""
        deadline, news = self._loop.time() + _WAIT_SECONDS, asyncio.Event()
        self._waiting.add(news)
        try:
            while True:
                news.clear()
                try:
                    return ask()
                except NotYet:
                    if self._loop.time() >= deadline:
                        raise
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(deadline, self._loop.time() + _LOOK_SECONDS)):
                        await news.wait()
        finally:
            self._waiting.discard(news)

    async def _say(self, writer: asyncio.StreamWriter, what: dict[str, Any], data: bytes = b"") -> None:
        writer.write(json.dumps(what).encode() + b"\n" + data)
        async with asyncio.timeout(_SEND_SECONDS):
            await writer.drain()


def _keep_alive(connection: socket.socket) -> None:
    """Have the kernel end a connection whose other end is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 35_000}
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
