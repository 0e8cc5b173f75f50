"""Keys to look at, each once at a time: many changes of an object are one look, and a look never runs twice at once.

A look says when it wants to come again (a delay in seconds, or None). A look that raises comes again later and
later, and says so; it never ends the queue. What came in during a look is looked at right after it.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K")

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 60.0
_LOOK_SECONDS = 120.0


@dataclass
class Statistics:
    """What the queue has done, for the liveness probe."""

    failures: int = 0
    last_progress: float = field(default_factory=time.monotonic)
    """Monotonic time at which a look last came to its own end, or the queue was last empty."""


def nth_pause(pauses: Sequence[float], times: int) -> float:
    """Seconds to wait after something has failed so often in a row; the last of them from then on."""
    return pauses[min(times, len(pauses)) - 1]


class WorkQueue(Generic[K]):
    """Runs `look(key)` for added keys with at most `workers` at once."""

    def __init__(self, look: Callable[[K], Awaitable[float | None]], workers: int) -> None:
        self._look, self._workers = look, workers
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._running: set[K] = set()
        self._again: set[K] = set()  # added while running
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}  # the earliest entry of _later that counts
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._backoff: dict[K, float] = {}
        self.statistics = Statistics()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def add(self, key: K) -> None:
        """Look at `key` as soon as a worker is free."""
        if not len(self):
            self.statistics.last_progress = time.monotonic()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay: float) -> None:
        """Look at `key` in `delay` seconds, unless it is to come earlier anyway."""
        at = time.monotonic() + max(0.0, delay)
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            heapq.heappush(self._later, (at, next(self._order), key))
            self._wake.set()

    def idle_since(self, now: float) -> float:
        """Seconds for which nothing has moved although there is work; 0 where all is well."""
        return now - self.statistics.last_progress if len(self) else 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._timer())
            for _ in range(self._workers):
                tasks.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                await self._look_at(key)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _look_at(self, key: K) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS) as timeout:
                delay = await self._look(key)
        except Exception as error:
            self.statistics.failures += 1
            pause = min(2 * self._backoff.get(key, _FIRST_BACKOFF / 2), _LONGEST_BACKOFF)
            self._backoff[key] = pause
            what = error if str(error) else type(error).__name__
            log.warning("%s: %s; looking again in %.1f s", key, what, pause, exc_info=log.isEnabledFor(logging.DEBUG))
            self.add_after(key, pause)
        else:
            self._backoff.pop(key, None)
            if delay is not None:
                self.add_after(key, delay)
        if not timeout.expired():
            self.statistics.last_progress = time.monotonic()

    async def _timer(self) -> None:
        while True:
            self._wake.clear()
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                at, _, key = heapq.heappop(self._later)
                if self._due.get(key) == at:
                    del self._due[key]
                    self.add(key)
            wait = self._later[0][0] - now if self._later else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):  # wait_for may swallow a cancellation that comes with the wake-up
                    await self._wake.wait()
