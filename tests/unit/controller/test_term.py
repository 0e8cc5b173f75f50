"""The operator as a process runs it, in a thread and a loop of its own: terms, the Lease, probes and gauges."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from rekindle.controller.kube import Kube
from rekindle.controller.operator import Operator
from rekindle.controller.reading import read_status
from rekindle.controller.resources import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    NODE,
    NODE_BLOCK,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    SPARK_APPLICATION,
    Object,
)
from rekindle.controller.settings import OperatorSettings
from rekindle.runtime.exchange_endpoint import ExchangeEndpoint
from tests.unit.controller import world
from tests.unit.controller.api_server import NO_CERTIFICATES, ApiServer, What, served, until
from tests.unit.controller.blocks import objects

pytestmark = pytest.mark.thorough

APPLICATIONS = "/sparkapplications$"
THIEF = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.work_queue._FIRST_BACKOFF", 0.05)
    monkeypatch.setattr("rekindle.controller.attempts._LOOK_AGAIN", 3600.0)  # what is seen is seen by a watch


class Process:
    """An operator in a thread: Kopf ends what it finds in its loop."""

    def __init__(self, settings: OperatorSettings) -> None:
        self.settings = settings
        self.error: BaseException | None = None
        self.has_ended = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def start(self) -> None:
        self._thread.start()
        await asyncio.to_thread(self._started.wait)

    async def _run(self) -> None:
        kube = await Kube.connect()
        self.operator = Operator(self.settings, kube)
        self._loop, self._task = asyncio.get_running_loop(), asyncio.create_task(self.operator.run())
        self._started.set()
        (outcome,) = await asyncio.gather(self._task, return_exceptions=True)
        self.error = None if isinstance(outcome, asyncio.CancelledError) else outcome
        await kube.close()
        self.has_ended = True

    async def stop(self) -> None:
        """As by a signal."""
        if not self.has_ended:
            self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(self._thread.join)

    def gauge(self, name: str, **labels: str) -> float | None:
        return self.operator.metrics.registry.get_sample_value(f"rekindle_{name}", labels)

    async def probe(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.settings.port}{path}") as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def process(server: ApiServer, **more: Any) -> AsyncIterator[Process]:
    """An operator that is started, and stopped in the end."""
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    chosen = {"operator_namespace": "system", "identity": "op", "lease_seconds": 1.0, "port": port, "workers": 2}
    running = Process(OperatorSettings(**{**chosen, **more}))
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


@pytest.fixture
def with_an_operator(tmp_path, monkeypatch) -> Callable[..., None]:
    """Runs a case with a server and an operator that works for it."""
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name, value in NO_CERTIFICATES.items():
        monkeypatch.setenv(name, value)

    def run(case: Callable[[ApiServer, Process], Awaitable[None]], prepare=None, **more: Any) -> None:
        async def prepared(server: ApiServer):
            path.write_text(server.kubeconfig())
            server.make(NODE, "", world.node())
            if prepare is not None:
                prepare(server)
            async with process(server, **more) as running:
                await case(server, running)

        served(prepared)

    return run


def apply(server: ApiServer, name: str = "pi", **spec: Any) -> None:
    body = world.manifest(**spec)
    server.make(SPARK_APPLICATION, "team", {**body, "metadata": {"name": name}})


def state(server: ApiServer, name: str = "pi") -> str:
    body = server.get(SPARK_APPLICATION, "team", name)
    return read_status(body).application_state.state.value if body is not None else "gone"


def drivers(server: ApiServer, name: str = "pi") -> list[Object]:
    return [pod for pod in server.all(POD) if pod["metadata"]["labels"].get("rekindle.dev/application") == name]


async def runs(server: ApiServer, name: str = "pi") -> Object:
    """Until its driver runs; the driver's pod."""
    (driver,) = await until(lambda: drivers(server, name))
    kubelet(server, driver, world.RUNNING)
    await until(lambda: state(server, name) == "RUNNING")
    return driver


def kubelet(server: ApiServer, driver: Object, status: dict[str, Any]) -> None:
    name = driver["metadata"]["name"]
    server.change(POD, "team", name, {"spec": {"nodeName": "n1"}})
    server.change(POD, "team", name, {"status": status}, "status")


async def another_call(server: ApiServer) -> None:
    before = len(server.calls)
    await until(lambda: len(server.calls) > before)


async def holds(server: ApiServer) -> None:
    """Until the operator holds the Lease and has begun to work."""
    await until(lambda: server.watches >= 3)


def test_an_application_from_its_making_to_its_end(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        apply(server)
        driver = await runs(server)
        await until(lambda: operator.gauge("applications", namespace="team", state="RUNNING") == 1)
        kubelet(server, driver, world.SUCCEEDED)
        await until(lambda: state(server) == "COMPLETED")
        await until(lambda: not server.all(SERVICE) and not server.all(CONFIG_MAP))
        await until(lambda: operator.gauge("applications", namespace="team", state="COMPLETED") == 1)
        assert operator.gauge("applications", namespace="team", state="RUNNING") is None
        reasons = ["SparkApplicationSubmitted", "SparkDriverRunning", "SparkApplicationCompleted"]
        await until(lambda: len(server.all(EVENT)) == 3)
        assert {event["reason"] for event in server.all(EVENT)} == set(reasons)
        status, text = await operator.probe("/metrics")
        assert status == 200
        assert 'rekindle_applications{namespace="team",state="COMPLETED"} 1.0' in text

    with_an_operator(case)


@pytest.mark.parametrize("more", [{}, {"watch_nodes": False}, {"namespaces": ("team",), "watch_nodes": False}])
def test_the_job_master_of_a_driver_that_it_made_is_asked_whatever_it_may_do_to_nodes(
    with_an_operator, monkeypatch, more
):
    monkeypatch.setattr("rekindle.controller.exchange.exchanges._ROUND_SECONDS", 0.05)
    monkeypatch.setattr("rekindle.controller.exchange.exchanges._UNANSWERED_PAUSES", (0.05,))

    async def case(server: ApiServer, operator: Process):
        apply(server, speculation={"enabled": True})
        driver = await runs(server)
        env = {one["name"]: one.get("value") for one in driver["spec"]["containers"][0]["env"]}
        endpoint = ExchangeEndpoint("127.0.0.1", 0, env["REKINDLE_EXCHANGE_TOKEN_SHA256"], lambda: None)
        monkeypatch.setattr("rekindle.controller.exchange.client.PORT", endpoint.port)
        kubelet(server, driver, {**world.RUNNING, "podIP": "127.0.0.1"})
        try:
            await until(lambda: endpoint.request is not None)
        finally:
            endpoint.close()

    with_an_operator(case, **more)


def test_an_application_that_was_there_before(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        assert await until(lambda: drivers(server))

    with_an_operator(case, prepare=apply)


def test_an_api_server_that_keeps_its_secrets_to_itself_holds_up_no_application(with_an_operator):
    def prepare(server: ApiServer) -> None:
        server.fault("GET", "/secrets/", 500, times=10_000)
        apply(server, speculation={"enabled": True})

    async def case(server: ApiServer, operator: Process):
        [driver] = await until(lambda: drivers(server))
        names = {one["name"] for one in driver["spec"]["containers"][0]["env"]}
        assert "REKINDLE_EXCHANGE_TOKEN_SHA256" not in names

    with_an_operator(case, prepare=prepare)


def test_of_its_namespaces_only(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        body = world.manifest()
        server.make(SPARK_APPLICATION, "others", {**body, "metadata": {"name": "theirs"}})
        apply(server)
        await runs(server)
        assert not drivers(server, "theirs")
        assert not [call for call in server.calls if call.kind == "LIST" and call.path.endswith("v1/pods")]

    with_an_operator(case, namespaces=("team", "more"))


def test_what_becomes_of_a_pod_is_seen_at_once(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        apply(server)
        driver = await runs(server)
        server.remove(POD, "team", driver["metadata"]["name"])
        await until(lambda: state(server) == "PENDING_RERUN")

    with_an_operator(case)


def test_what_becomes_of_a_claim_is_seen_at_once(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        template = {"resources": {"requests": {"storage": "1Gi"}}}
        server.make(SPARK_APPLICATION, "team", world.manifest(recovery={"storage": {"claimTemplate": template}}))
        await runs(server)
        [claim] = server.all(PERSISTENT_VOLUME_CLAIM)
        server.change(
            PERSISTENT_VOLUME_CLAIM, "team", claim["metadata"]["name"], {"status": {"phase": "Lost"}}, "status"
        )
        await until(lambda: condition(server, "StorageReady")["reason"] == "VolumeLost")

    with_an_operator(case)


def test_what_becomes_of_a_node_is_seen_at_once_but_not_that_it_lives(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        apply(server)
        await runs(server)
        await until(lambda: not operator.gauge("queue_depth"))
        before = operator.gauge("reconciles_total", result="done") or 0
        for beat in range(30):
            server.change(NODE, "", "n1", {"status": {"heartbeat": beat}}, "status")
            await asyncio.sleep(0.01)  # else they are one look
        server.change(NODE, "", "n1", {"status": world.node(ready="Unknown")["status"]}, "status")
        await until(lambda: condition(server, "DriverRunning")["reason"] == "NodeNotReady")
        assert (operator.gauge("reconciles_total", result="done") or 0) - before < 10

    with_an_operator(case)


@pytest.mark.requirement("S3-14")
def test_a_block_is_removed_as_soon_as_who_asked_for_it_has_ended(with_an_operator, monkeypatch):
    monkeypatch.setattr("rekindle.controller.blocks.plan._LONGEST_WAIT", 3600.0)

    async def case(server: ApiServer, operator: Process):
        apply(server)
        driver = await runs(server)
        end = time.time() - objects.NOW + 600
        asked = objects.block("n2", ours=True, end=end, applications=["team/pi"], removeWhenDone=True)
        server.make(NODE_BLOCK, "", asked)
        await until(lambda: operator.gauge("blocked_nodes") == 1)
        kubelet(server, driver, world.SUCCEEDED)
        await until(lambda: not server.all(NODE_BLOCK) and operator.gauge("blocked_nodes") == 0)

    with_an_operator(case, prepare=lambda server: server.make(NODE, "", objects.node("n2")))


def condition(server: ApiServer, kind: str) -> Object:
    body = server.get(SPARK_APPLICATION, "team", "pi")
    assert body is not None
    return next(one for one in body["status"]["conditions"] if one["type"] == kind)


def test_a_look_that_fails_is_looked_at_again(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        for kind in ("configmaps", "services", "pods"):
            server.fault("POST", f"/{kind}$", 500)
        apply(server)
        await runs(server)
        assert operator.gauge("reconciles_total", result="error") == 3

    with_an_operator(case)


def test_without_the_lease_nothing_is_done_and_with_it_again_everything(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        apply(server)
        await runs(server)
        await until(lambda: operator.gauge("applications", namespace="team", state="RUNNING") == 1)
        assert operator.gauge("leader") == 1
        server.change(LEASE, "system", "rekindle-operator", {"spec": THIEF})
        await until(lambda: server.watches == 0)
        await another_call(server)
        apply(server, "second")
        asked = len(server.calls)
        for _ in range(5):
            await another_call(server)
        assert {call.path.rpartition("/")[2] for call in server.calls[asked:]} == {"rekindle-operator"}
        assert (operator.gauge("leader"), operator.gauge("queue_depth")) == (0, 0)
        assert operator.gauge("applications", namespace="team", state="RUNNING") is None
        assert [await operator.probe(path) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
        server.change(LEASE, "system", "rekindle-operator", {"spec": {"holderIdentity": ""}})
        await runs(server, "second")
        assert operator.gauge("leader") == 1
        assert (state(server), len(drivers(server))) == ("RUNNING", 1)

    with_an_operator(case)


def test_a_server_that_is_away_ends_the_work_and_not_the_operator(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        await holds(server)
        away = [server.fault(call, "/leases", 503, times=10_000) for call in ("GET", "PUT")]
        await until(lambda: server.watches == 0)
        assert operator.gauge("leader") == 0
        for fault in away:
            fault.times = 0
        apply(server)
        await runs(server)
        assert not operator.has_ended

    with_an_operator(case)


def test_a_standby_follows_at_once_where_the_holder_stops(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        await holds(server)
        async with process(server, identity="standby", lease_seconds=0.5) as standby:
            await until(lambda: len([call for call in server.calls if call.path.endswith("rekindle-operator")]) > 5)
            assert await standby.probe("/readyz") == (200, "ok\n")
            assert standby.gauge("leader") == 0
            await operator.stop()
            assert operator.error is None
            apply(server)
            await runs(server)
            assert standby.gauge("leader") == 1
            lease = server.get(LEASE, "system", "rekindle-operator")
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == "standby"

    with_an_operator(case, lease_seconds=3600.0)


def test_it_is_not_ready_where_it_may_not_ask_for_the_lease(with_an_operator):
    def prepare(server: ApiServer) -> None:
        server.fault("GET", "/leases/", 403, times=1000)

    async def case(server: ApiServer, operator: Process):
        await until(lambda: server.faults[0].hits)
        assert await operator.probe("/readyz") == (503, "the Lease rekindle-operator could not be asked for yet\n")

    with_an_operator(case, prepare)


@pytest.mark.parametrize("kind", ["pods", "nodes", "persistentvolumeclaims"])
def test_it_is_not_ready_before_its_copies_are_complete_and_does_nothing(kind, with_an_operator):
    faults = []

    def prepare(server: ApiServer) -> None:
        apply(server)
        faults.append(server.fault("LIST", f"/{kind}$", What.LATE))

    async def case(server: ApiServer, operator: Process):
        await until(lambda: faults[0].hits and server.watches >= 2)  # the other copies are complete
        said = (503, f"{kind} are not listed yet\n")
        for _ in range(4):
            if await operator.probe("/readyz") != said:
                await another_call(server)
        assert await operator.probe("/readyz") == said
        assert await operator.probe("/healthz") == (200, "ok\n")
        for _ in range(4):  # renewals of the Lease
            await another_call(server)
        assert not [call for call in server.calls if call.path.endswith("/sparkapplications")]
        faults[0].release.set()
        await runs(server)
        assert await operator.probe("/readyz") == (200, "ok\n")

    with_an_operator(case, prepare)


def test_it_is_not_alive_while_its_queue_stands_still(with_an_operator, monkeypatch):
    monkeypatch.setattr("rekindle.controller.operator._STANDSTILL", 0.0)

    async def case(server: ApiServer, operator: Process):
        await holds(server)
        late = server.fault("POST", "/pods$", What.LATE)
        apply(server)
        await until(lambda: late.hits)
        status, text = await operator.probe("/healthz")
        assert (status, text[:32]) == (503, "the work queue stands still for ")
        late.release.set()
        await runs(server)
        await until(lambda: not operator.operator._not_alive())

    with_an_operator(case)


def test_a_term_that_fails_ends_the_operator_and_gives_the_lease_back(with_an_operator):
    async def case(server: ApiServer, operator: Process):
        await until(lambda: operator.has_ended)
        assert isinstance(operator.error, ExceptionGroup)
        lease = server.get(LEASE, "system", "rekindle-operator")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""

    def prepare(server: ApiServer) -> None:
        server.fault("WATCH", APPLICATIONS, What.ERROR, status=500)

    with_an_operator(case, prepare)


def test_an_application_that_goes_while_its_watch_is_deaf_is_forgotten(with_an_operator, monkeypatch):
    """Kopf's watch, begun anew, does not tell of what has gone: the next list of all does."""
    monkeypatch.setattr("rekindle.controller.term._RESYNC_SECONDS", 0.1)
    faults = []

    def prepare(server: ApiServer) -> None:
        apply(server, suspend=True)
        faults.append(server.fault("WATCH", APPLICATIONS, What.SILENT))
        faults.append(server.fault("LIST", APPLICATIONS, 500, skip=1))  # after Kopf's

    async def case(server: ApiServer, operator: Process):
        await until(lambda: operator.gauge("applications", namespace="team", state="SUSPENDED") == 1)
        await until(lambda: faults[1].hits)
        server.remove(SPARK_APPLICATION, "team", "pi")
        server.forget()
        faults[0].release.set()
        apply(server, "second")
        await runs(server, "second")
        await until(lambda: operator.gauge("applications", namespace="team", state="RUNNING") == 1)
        await until(lambda: operator.gauge("applications", namespace="team", state="SUSPENDED") is None)

    with_an_operator(case, prepare)


def test_a_cluster_that_is_restored_from_a_backup_between_two_renewals_begins_a_new_term(with_an_operator):
    """Its watches would tell nothing, and its copies be called too new by themselves, until the cluster catches up."""

    async def case(server: ApiServer, operator: Process):
        apply(server)
        await until(lambda: drivers(server))
        await until(lambda: state(server) == "SUBMITTED")
        backup = server.backup()
        lease = server.get(LEASE, "system", "rekindle-operator")
        await until(lambda: server.get(LEASE, "system", "rekindle-operator") != lease)
        await runs(server)
        for beat in range(100):
            server.change(NODE, "", "n1", {"status": {"heartbeat": beat}}, "status")
        server.restore(backup)
        assert state(server) == "SUBMITTED"
        driver = await runs(server)
        kubelet(server, driver, world.SUCCEEDED)
        await until(lambda: state(server) == "COMPLETED")

    with_an_operator(case)
