"""Drivers that answer, and drivers that misbehave: each is one exception, in time, and touches nobody else."""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from rekindle.controller.speculation import spark_rest as module
from rekindle.controller.speculation.spark_rest import (
    Address,
    DriverUnanswered,
    SparkRest,
    Stage,
    StageKey,
    Stages,
    Task,
)
from tests.unit.controller.speculation.driver import Answer, Driver, dropping, dropping_within, saying, streaming

DEADLINE = 10.0
"""Seconds after which a test has failed."""

STAGE: dict[str, Any] = {
    "status": "ACTIVE",
    "stageId": 3,
    "attemptId": 1,
    "name": "count at main.py:7",
    "numTasks": 6,
    "numActiveTasks": 2,
    "numCompleteTasks": 4,
    "numCompletedIndices": 3,
    "numFailedTasks": 1,
    "firstTaskLaunchedTime": "2026-11-22T20:00:00.123GMT",
    "accumulatorUpdates": [],
}
METRICS = {
    "inputMetrics": {"bytesRead": 1000, "recordsRead": 10},
    "shuffleReadMetrics": {"remoteBytesRead": 200, "localBytesRead": 30, "recordsRead": 4, "fetchWaitTime": 0},
}
ZEROS = {
    "inputMetrics": {"bytesRead": 0, "recordsRead": 0},
    "shuffleReadMetrics": {"remoteBytesRead": 0, "localBytesRead": 0, "recordsRead": 0},
}
TASK: dict[str, Any] = {
    "taskId": 17,
    "index": 5,
    "attempt": 2,
    "launchTime": "2026-11-22T20:00:01.000GMT",
    "duration": 1500,
    "executorId": "8",
    "status": "SUCCESS",
    "speculative": True,
    "taskMetrics": METRICS,
}
LOGIN = (
    "its UI asks for a login (spark.ui.filters); known here is org.apache.spark.ui.JWSFilter's, "
    "with the key in sparkConf"
)
AT = 1795377600.0
"""2026-11-22T20:00:00 UTC."""


def run(case: Callable[[SparkRest], Awaitable[Any]], **rest: Any) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(DEADLINE):
            client = SparkRest(**rest)
            try:
                return await case(client)
            finally:
                await client.close()

    return asyncio.run(within())


def stages(answer: Answer, tls: ssl.SSLContext | None = None) -> Stages:
    async def case(rest: SparkRest) -> Stages:
        async with Driver(answer, tls) as driver:
            return await rest.stages(driver.address, "spark-1")

    return run(case)


def tasks(answer: Answer, **limits: int) -> list[Task]:
    async def case(rest: SparkRest) -> list[Task]:
        async with Driver(answer) as driver:
            return await rest.tasks(driver.address, "spark-1", StageKey(3, 1), "running", **limits)

    return run(case)


def reason(answer: Answer) -> str:
    """Why there is no answer; one that is told as all are."""
    with pytest.raises(DriverUnanswered) as caught:
        stages(answer)
    text = str(caught.value)
    assert text == caught.value.reason
    assert text.startswith("active stages of spark-1 at 127.0.0.1:")
    assert text.isprintable()
    assert len(text.encode()) <= 300
    return text.partition(": ")[2]


def test_stages_as_they_are_told():
    bare = {**STAGE, "stageId": 4, "numActiveTasks": -2}
    del bare["firstTaskLaunchedTime"], bare["numCompletedIndices"]
    assert stages(saying([STAGE, bare])).found == (
        Stage(StageKey(3, 1), "count at main.py:7", 6, 2, 3, 1, AT + 0.123),
        Stage(StageKey(4, 1), "count at main.py:7", 6, 0, 4, 1, None),
    )


def test_tasks_as_they_are_told():
    done = {**TASK, "index": 6, "taskMetrics": ZEROS}
    del done["duration"]
    running = {**TASK, "status": "RUNNING", "speculative": False}
    silent = {**running, "index": 7, "taskMetrics": ZEROS}
    unheard = {name: value for name, value in {**running, "index": 8}.items() if name != "taskMetrics"}
    assert tasks(saying([TASK, done, {**running, "index": 9}, silent, unheard])) == [
        Task(5, 2, AT + 1, 1.5, "8", False, True, 1230, 14, succeeded=True),
        Task(6, 2, AT + 1, None, "8", False, True, 0, 0, succeeded=True),
        Task(9, 2, AT + 1, None, "8", True, False, 1230, 14),
        Task(7, 2, AT + 1, None, "8", True, False, None, None),
        Task(8, 2, AT + 1, None, "8", True, False, None, None),
    ]


def test_what_is_asked():
    async def case(rest: SparkRest) -> None:
        async with Driver(saying([])) as driver:
            await rest.stages(driver.address, "spark/../1?x")
            await rest.tasks(driver.address, "spark-1", StageKey(3, 1), "success", offset=40, length=20)
            await rest.tasks(driver.address, "spark-1", StageKey(3, 1), "running", length=10**9)
        root = "/api/v1/applications/"
        assert [request.path_qs for request in driver.requests] == [
            f"{root}spark%2F..%2F1%3Fx/stages?status=active",
            f"{root}spark-1/stages/3/1/taskList?status=success&offset=40&length=20&sortBy=ID",
            f"{root}spark-1/stages/3/1/taskList?status=running&offset=0&length=100000&sortBy=ID",
        ]
        assert {request.headers["Accept-Encoding"] for request in driver.requests} == {"identity"}

    run(case)


@pytest.mark.parametrize(
    ("date", "clock"),
    [
        ("Sun, 22 Nov 2026 20:00:01 GMT", 0.0),
        ("Sun, 22 Nov 2026 19:59:59 GMT", 0.0),
        ("Sun, 22 Nov 2026 20:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 19:58:00 GMT", -120.0),
        ("tomorrow", None),
        ("Sun, 22 Nov 99999 20:00:00 GMT", None),
        ("", None),
    ],
)
def test_the_clock_of_the_driver(date, clock, monkeypatch):
    monkeypatch.setattr("time.time", lambda: AT + 0.5)
    assert stages(saying([], Date=date)).driver_clock == clock


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, f"the driver answered 401: {LOGIN}"),
        (403, f"the driver answered 403: {LOGIN}"),
        (404, "the driver answered 404: it has no such application"),
        (204, "the driver answered 204"),
        (500, "the driver answered 500"),
        (503, "the driver answered 503"),
    ],
)
def test_a_status_that_is_no_success(status, told):
    assert reason(saying("" if status == 204 else [STAGE], status)) == told


def test_a_redirect_is_not_followed():
    async def case(rest: SparkRest) -> None:
        async with Driver(saying([STAGE])) as other:
            location = f"http://{other.address}/api/v1/applications/spark-1/stages?status=active"
            async with Driver(saying("", 302, Location=location)) as driver:
                with pytest.raises(DriverUnanswered, match="the driver answered 302: redirects are not followed"):
                    await rest.stages(driver.address, "spark-1")
            assert (len(driver.requests), len(other.requests)) == (1, 0)

    run(case)


@pytest.mark.parametrize("answer", [streaming(b"[", b" ", pause=0.01), streaming(b"[", pause=60)])
def test_an_answer_that_takes_too_long(answer, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.3)
    assert reason(answer) == "the driver did not answer within 0.3 s"


def test_a_driver_that_says_nothing(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.3)

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    assert reason(never) == "the driver did not answer within 0.3 s"


@pytest.mark.parametrize("answer", [streaming(b" " * 10_000), saying(b" " * 200_000), saying([STAGE] * 1000)])
def test_an_answer_that_is_too_large(answer, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 100_000)
    assert reason(answer) == "the answer is too large: more than 100000 bytes"


def test_an_answer_is_not_unpacked():
    bomb = saying(gzip.compress(b" " * 1_000_000 + b"[]"), Content_Encoding="gzip")
    assert reason(bomb) == "the answer is compressed, which was not asked for"


@pytest.mark.parametrize("answer", [dropping, dropping_within])
def test_a_connection_that_is_dropped(answer):
    assert reason(answer).startswith("no answer: ")


def test_what_is_not_http():
    async def case(rest: SparkRest) -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 \x1b[31mftp\x00 ready\r\n")
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            with pytest.raises(DriverUnanswered, match="no answer: ") as caught:
                await rest.stages(Address(*server.sockets[0].getsockname()), "spark-1")
        assert caught.value.reason.isprintable()

    run(case)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 1), ("no host", 4040), ("", 4040), ("127.0.0.1", 99_999)])
def test_an_address_where_nobody_is(host, port):
    async def case(rest: SparkRest) -> None:
        with pytest.raises(DriverUnanswered, match=rf"active stages of spark-1 at {host}:{port}: no answer: "):
            await rest.stages(Address(host, port), "spark-1")

    run(case)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<html>Spark is starting up</html>", "the answer is not JSON: "),
        (b"\xff\xfe\x00", "the answer is not JSON: "),
        ({"stages": []}, "the answer is not a list"),
        ([STAGE, {**STAGE, "numTasks": -1}], "entry 1 of the answer: numTasks: "),
    ],
)
def test_what_is_no_list_of_stages(body, told):
    assert reason(saying(body)).startswith(told)


def test_more_than_was_asked_for_is_left(monkeypatch):
    many = [{**TASK, "index": index} for index in range(30)]
    assert [task.index for task in tasks(saying(many), length=20)] == list(range(20))
    monkeypatch.setattr(module, "_MOST_TASKS", 7)
    assert len(tasks(saying(many), length=20)) == 7
    monkeypatch.setattr(module, "_MOST_STAGES", 2)
    assert len(stages(saying([{**STAGE, "stageId": stage} for stage in range(5)])).found) == 2


def test_what_is_told_twice_is_there_once():
    assert len(stages(saying([STAGE, STAGE, {**STAGE, "attemptId": 2}])).found) == 2
    assert len(tasks(saying([TASK, TASK, {**TASK, "attempt": 3}]))) == 2


def test_nothing_of_the_environment_or_of_earlier_answers_is_sent(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("default login ann password hers\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    async def case(rest: SparkRest) -> None:
        async with Driver(saying([], Set_Cookie="a=b; Path=/")) as driver:
            for _ in range(2):
                await rest.stages(Address("localhost", driver.address.port), "spark-1")
        sent = {name for request in driver.requests for name in request.headers}
        assert not sent & {"Cookie", "Authorization", "Proxy-Authorization"}
        assert len(set(driver.peers)) == 2, "a connection was kept"

    run(case)


def test_only_so_many_are_asked_at_once_and_the_others_have_their_full_time(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 1.0)
    under_way: list[int] = [0, 0]

    async def slow(_: web.Request) -> web.Response:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0.6)
        under_way[0] -= 1
        return web.json_response([STAGE])

    async def case(rest: SparkRest) -> None:
        async with Driver(slow) as driver:
            asked = await asyncio.gather(*(rest.stages(driver.address, f"spark-{n}") for n in range(4)))
        assert [len(answer.found) for answer in asked] == [1] * 4
        assert under_way[1] == 2

    run(case, at_once=2)


def test_of_large_answers_only_so_many_are_held(monkeypatch):
    monkeypatch.setattr(module, "_LARGE_BYTES", 1000)
    monkeypatch.setattr(module, "_LARGE_AT_ONCE", 1)
    release = asyncio.Event()

    async def stalling(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"[" + b" " * 2000)
        await release.wait()
        await response.write(b"]")
        return response

    async def case(rest: SparkRest) -> None:
        async with Driver(stalling) as first, Driver(saying([STAGE] * 50)) as large, Driver(saying([STAGE])) as small:
            held = asyncio.create_task(rest.stages(first.address, "spark-1"))
            while not rest._large.locked():
                await asyncio.sleep(0.005)
            waiting = asyncio.create_task(rest.stages(large.address, "spark-2"))
            assert len((await rest.stages(small.address, "spark-3")).found) == 1
            await asyncio.wait([waiting], timeout=0.2)
            assert not waiting.done()
            release.set()
            assert ((await held).found, len((await waiting).found)) == ((), 1)

    run(case)


def test_a_certificate_that_the_driver_made_itself_is_taken(tmp_path):
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    new = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -out {certificate} -keyout {key}"
    subprocess.run([*new.split(), "-subj", "/CN=driver", "-days", "2"], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    assert len(stages(saying([STAGE]), tls).found) == 1


def test_a_reason_is_one_short_line():
    error = DriverUnanswered("a\nb\t\x1b[31mc\x00\u202e\ud800" + "é" * 1000 + os.linesep)
    assert error.reason.startswith("a b c éé")
    assert error.reason.isprintable()
    assert len(error.reason.encode()) <= 300
