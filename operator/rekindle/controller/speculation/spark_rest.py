"""Questions to the drivers of running applications, over the REST API of their UIs.

A driver is its user's code, and there are hundreds: each may be slow, wrong, huge or hostile, and none may hold up
the others or the operator. So each request has a deadline and each answer a size; no answer leads anywhere else; a
connection serves one request, as a driver could fill one that is kept; and whatever goes wrong is one exception.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import jwt
from yarl import URL

from rekindle.controller.bounded import TooLarge, chunks
from rekindle.controller.speculation.spark_wire import (
    Unusable,
    WireStage,
    WireTask,
    ahead,
    check_head,
    entries,
    one_line,
)

_SECONDS = 5.0
_MOST_BYTES = 16 * 1024 * 1024
_LARGE_BYTES = 1024 * 1024
_LARGE_AT_ONCE = 4
_MOST_STAGES = 10_000
_MOST_TASKS = 100_000
_REASON_BYTES = 300
_TOKEN_SECONDS = 300.0
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "rekindle"}


class DriverUnanswered(Exception):
    """A driver gave no answer that can be used. `reason` says what it was asked and what is wrong, on one line."""

    def __init__(self, reason: str) -> None:
        self.reason = one_line(reason, _REASON_BYTES)
        super().__init__(self.reason)


@dataclass(frozen=True, slots=True)
class Address:
    """Of a driver's UI."""

    host: str
    port: int
    tls: bool = False
    key: bytes | None = field(default=None, repr=False)
    """With which requests are signed, where the UI asks for that (Spark's `JWSFilter`)."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class StageKey:
    """An attempt of a stage; both count from 0."""

    stage_id: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.stage_id}.{self.attempt}"


@dataclass(frozen=True, slots=True)
class Stage:
    """An active attempt of a stage, and how many tasks it has.

    `finished` counts a task once, though two copies of it succeed; it still counts one whose output was lost since.
    `first_task_at` is in epoch seconds of the driver's clock, None while no task was launched.
    """

    key: StageKey
    name: str
    tasks: int
    running: int
    finished: int
    failed: int
    first_task_at: float | None
    is_streaming: bool = False
    """Whether it is part of a streaming query's batch."""

    @property
    def waiting(self) -> int:
        """How many of its tasks wait for a slot."""
        return max(0, self.tasks - self.finished - self.running)


@dataclass(frozen=True, slots=True)
class Stages:
    """The active stages, each once, and how far the driver's clock is ahead of ours: None where it does not say.

    In seconds; 0.0 for anything below 2 s and half the time that the answer took, as HTTP tells whole seconds.
    """

    found: tuple[Stage, ...]
    driver_clock: float | None


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of the task at `index` of its stage.

    `launched_at` is in epoch seconds of the driver's clock. `seconds` is how long it took: None while it runs, and
    where Spark tells none, as for less than a millisecond. The input is what it read from storage and from
    shuffles: None where the driver has no metrics, and while it runs and all of them are zero, since then its
    executor may not have told any yet. One that neither runs nor has succeeded was killed, or failed.
    """

    index: int
    attempt: int
    launched_at: float
    seconds: float | None
    executor: str
    running: bool
    speculative: bool
    input_bytes: int | None
    input_records: int | None
    succeeded: bool = False


TaskStatus = Literal["running", "success", "killed"]
"""Of Spark's, those that are asked for."""

_Entry = TypeVar("_Entry", WireStage, WireTask)


@dataclass(frozen=True, slots=True)
class _Question:
    """`path` is below the application's."""

    what: str
    address: Address
    application_id: str
    path: str
    query: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.what} of {self.application_id} at {self.address}"

    def url(self) -> URL:
        """ValueError where there can be no such host or port."""
        scheme = "https" if self.address.tls else "http"
        root = URL.build(scheme=scheme, host=self.address.host, port=self.address.port)
        path = f"/api/v1/applications/{quote(self.application_id, safe='')}/{self.path}"
        return URL(f"{root.origin()}{path}?{urlencode(self.query)}", encoded=True)


def driver_session() -> aiohttp.ClientSession:
    """For requests to drivers, which are to make us keep, follow or unpack nothing."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
        headers=_HEADERS,
        trust_env=False,
        auto_decompress=False,
    )


class SparkRest:
    """Connections to drivers; at most `at_once` requests at a time. Make it in a running loop, and close it.

    A certificate is not verified: drivers sign theirs themselves as a rule, and no request holds a secret that opens
    more than the UI it is for, nor for long.
    """

    def __init__(self, at_once: int = 20) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._session = driver_session()

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def stages(self, address: Address, application_id: str) -> Stages:
        """The first 10,000 stages that are active. Raises DriverUnanswered."""
        question = _Question("active stages", address, application_id, "stages", {"status": "active"})
        found, clock = await self._ask(question, WireStage, _MOST_STAGES)
        return Stages(tuple({stage.key: stage for stage in map(_stage, found)}.values()), clock)

    async def tasks(
        self,
        address: Address,
        application_id: str,
        stage: StageKey,
        status: TaskStatus,
        *,
        offset: int = 0,
        length: int = 5_000,
    ) -> list[Task]:
        """Tasks by their ids, which is the order of their launch, each once. Raises DriverUnanswered.

        At most 100,000. Of a finished one Spark writes 1.7 KB, so that 10,000 are about all that an answer may hold.
        Of a stage that it does not know, it answers no tasks.
        """
        most = min(length, _MOST_TASKS)
        query = {"status": status, "offset": str(offset), "length": str(most), "sortBy": "ID"}
        path = f"stages/{stage.stage_id}/{stage.attempt}/taskList"
        question = _Question(f"{status} tasks of stage {stage}", address, application_id, path, query)
        found, _ = await self._ask(question, WireTask, most)
        return list({(task.index, task.attempt): task for task in map(_task, found)}.values())

    async def _ask(self, question: _Question, kind: type[_Entry], most: int) -> tuple[list[_Entry], float | None]:
        """Entries, and the driver's clock. Time spent waiting for a place does not count."""
        async with self._places:
            try:
                async with asyncio.timeout(_SECONDS):
                    return await self._get(question.url(), question.address.key, kind, most)
            except TimeoutError:
                wrong = f"the driver did not answer within {_SECONDS:g} s"
            except (Unusable, TooLarge) as error:
                wrong = str(error)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                wrong = f"no answer: {error or type(error).__name__}"
        raise DriverUnanswered(f"{question}: {wrong}")

    async def _get(
        self, url: URL, key: bytes | None, kind: type[_Entry], most: int
    ) -> tuple[list[_Entry], float | None]:
        asked = time.time()
        async with (
            self._session.get(url, headers=_signed(key, asked), allow_redirects=False) as response,
            AsyncExitStack() as held,
        ):
            clock = ahead(response.headers.get("Date", ""), asked, time.time())
            check_head(response.status, response.headers)
            return entries(await self._body(response, held), kind, most), clock

    async def _body(self, response: aiohttp.ClientResponse, held: AsyncExitStack) -> bytearray:
        """The answer, as long as it is not too large; of large ones only a few are in memory, until `held` ends."""
        body, is_large = bytearray(), False
        async for chunk in chunks(response, _MOST_BYTES):
            body += chunk
            if len(body) > _LARGE_BYTES and not is_large:
                await held.enter_async_context(self._large)
                is_large = True
        return body


def _signed(key: bytes | None, now: float) -> dict[str, str]:
    """The header by which `JWSFilter` knows who has the key."""
    if key is None:
        return {}
    return {"Authorization": f"Bearer {jwt.encode({'exp': int(now + _TOKEN_SECONDS)}, key, 'HS256')}"}


def _stage(wire: WireStage) -> Stage:
    return Stage(
        key=StageKey(wire.stage_id, wire.attempt_id),
        name=wire.name,
        tasks=wire.num_tasks,
        running=max(wire.num_active_tasks, 0),
        finished=wire.num_complete_tasks if wire.num_completed_indices is None else wire.num_completed_indices,
        failed=wire.num_failed_tasks,
        first_task_at=wire.first_task_launched_time,
        is_streaming=wire.is_streaming,
    )


def _task(wire: WireTask) -> Task:
    size, records = wire.input()
    return Task(
        index=wire.index,
        attempt=wire.attempt,
        launched_at=wire.launch_time,
        seconds=None if wire.running or wire.duration is None else wire.duration / 1000,
        executor=wire.executor_id,
        running=wire.running,
        speculative=wire.speculative,
        input_bytes=size,
        input_records=records,
        succeeded=wire.status == "SUCCESS",
    )
