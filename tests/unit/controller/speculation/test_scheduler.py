"""The speculative scheduler at work: an API server and a driver in this process, three nodes, one of them slow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest
from aiohttp import web

from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.marks import is_marked
from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.blocks.settings import BlockMode, BlockSettings
from rekindle.controller.clock import format_time
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer, Union
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import (
    EVENT,
    NODE,
    NODE_BLOCK,
    POD,
    POD_METRICS,
    SPARK_APPLICATION,
    Key,
    Object,
    labels_of,
)
from rekindle.controller.speculation.acting import Acting
from rekindle.controller.speculation.followed import RunningDrivers
from rekindle.controller.speculation.pod_metrics import PodMetrics
from rekindle.controller.speculation.scheduler import SpeculativeScheduler
from rekindle.controller.store import ApplicationStore
from rekindle.controller.submission.names import LABEL_UID
from tests.unit.controller.api_server import ApiServer, What, served, until
from tests.unit.controller.blocks import objects
from tests.unit.controller.world import UID, manifest

KEY = Key("team", "pi")
UUID = "c055d768-0341-4fbf-9fc4-e041a66961ad"
SPECULATION = {"enabled": True, "baselineLowerBound": "1s", "checkInterval": "50ms"}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.work_queue._FIRST_BACKOFF", 0.02)
    monkeypatch.setattr("rekindle.controller.speculation.scheduler._CHANGE_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.speculation.scheduler._UNANSWERED_PAUSES", (0.02, 0.02))
    monkeypatch.setattr("rekindle.controller.speculation.scheduler._SILENT_SECONDS", 0.1)
    monkeypatch.setattr("rekindle.controller.speculation.followed._KNOWN_AFTER", 0.1)


class FakeDriver:
    """Answers as a driver's UI does: seven of eight tasks of a stage have finished, the last runs on; another waits."""

    def __init__(self) -> None:
        self.began, self.is_over, self.is_silent, self.asked = time.time() - 60, False, False, 0
        self.description = "count at main.py:7"
        self.copy = ""
        """The status of a copy of the last task, once there is one; when it has won, the original is killed."""
        self.others: tuple[str, ...] = ()
        """Executors that run tasks of the stage that waits."""

    async def start(self, stack: AsyncExitStack) -> int:
        application = web.Application()
        root = "/api/v1/applications/spark-1"
        application.router.add_get(f"{root}/stages", self._stages)
        application.router.add_get(f"{root}/stages/0/0/taskList", self._tasks)
        application.router.add_get(f"{root}/stages/1/0/taskList", self._tasks_of_others)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    async def _stages(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.is_silent:
            return web.Response(status=500)
        counts = {"numTasks": 8, "numActiveTasks": 1, "numCompleteTasks": 7, "numCompletedIndices": 7}
        stage = {"stageId": 0, "attemptId": 0, "name": "map", "numFailedTasks": 0, **counts}
        stage["description"] = self.description
        counts = {"numTasks": 100, "numActiveTasks": 2, "numCompleteTasks": 0, "numCompletedIndices": 0}
        next_one = {**stage, "stageId": 1, **counts}
        if self.others:
            next_one["firstTaskLaunchedTime"] = moment(time.time())
        found = [{**stage, "firstTaskLaunchedTime": moment(self.began)}, next_one]
        return web.json_response([] if self.is_over else found)

    async def _tasks(self, request: web.Request) -> web.Response:
        copy = self._task(7, self.copy, "2", attempt=1, speculative=True, duration=5000)
        if request.query["status"] == "killed":
            killed = [self._task(7, "KILLED", "1", duration=70_000)]
            return web.json_response(killed if self.copy == "SUCCESS" else [])
        if request.query["status"] == "running":
            running = [] if self.copy == "SUCCESS" else [self._task(7, "RUNNING", "1")]
            return web.json_response([*running, copy] if self.copy == "RUNNING" else running)
        if self.copy == "SUCCESS":
            return web.json_response([copy])
        return web.json_response([self._task(index, "SUCCESS", "2", duration=1000) for index in range(7)])

    async def _tasks_of_others(self, request: web.Request) -> web.Response:
        assert request.query["status"] == "running"
        return web.json_response([self._task(index, "RUNNING", one) for index, one in enumerate(self.others)])

    def _task(self, index: int, status: str, executor: str, **more: Any) -> Object:
        said = {"taskId": index, "index": index, "attempt": 0, "launchTime": moment(self.began), "status": status}
        return {**said, "executorId": executor, "speculative": False, **more}


def moment(seconds: float) -> str:
    return format_time(seconds).replace("Z", ".000GMT")


def pod(name: str, node: str, owner: str, role: str, **labels: str) -> Object:
    container = {
        "name": "spark",
        "env": [{"name": "SPARK_EXECUTOR_ID", "value": labels.get("spark-exec-id", "")}],
        "image": "spark:4",
        "lifecycle": {"preStop": {"exec": {"command": ["/opt/decom.sh"]}}},
    }
    return {
        "metadata": {
            "name": name,
            "labels": {"rekindle.dev/managed": "true", LABEL_UID: UID, "spark-role": role, **labels},
            "ownerReferences": [{"uid": owner, "kind": "Pod", "name": "x", "apiVersion": "v1"}],
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running", "podIP": "127.0.0.1"},
    }


class Stage:
    """All that there is: the server, the driver, the scheduler and what keeps its copies."""

    def __init__(self, server: ApiServer, driver: FakeDriver, mode: BlockMode) -> None:
        self.server, self.driver = server, driver
        self.pods = Union([Informer(server.kube, POD, index=lambda body: labels_of(body).get(LABEL_UID))])
        self.nodes = Informer(server.kube, NODE)
        self.metrics = metrics = Metrics()
        events = EventRecorder(server.kube, "op", lambda: None)
        self.store = ApplicationStore(lambda key: None)
        settings = BlockSettings(mode=mode)
        self.keeper = BlockKeeper(server.kube, self.nodes, settings, events, metrics, lambda application: False)
        requests = BlockRequests(server.kube, self.keeper, self.nodes, settings)
        acting = Acting(server.kube, self.nodes, requests, events, metrics)
        metrics_of_pods = PodMetrics(server.kube)
        self.drivers = RunningDrivers(self.store, self.pods)
        self.scheduler = SpeculativeScheduler(
            self.store, self.drivers, self.keeper, acting, events, metrics_of_pods, workers=2
        )
        self.pods.listen(lambda before, after: self.scheduler.look(KEY))
        self.parts = (self.pods, self.nodes, events, self.keeper, self.scheduler)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(part.run()) for part in self.parts]
        try:
            await self.pods.wait_until_listed()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def take_over(self) -> None:
        """As an operator does that begins: it knows what is stored."""
        for body in self.server.all(SPARK_APPLICATION):
            self.store.put({**deepcopy(body), "metadata": {**body["metadata"], "uid": UID}})
        self.scheduler.look(KEY)

    def start(self, speculation: Object = SPECULATION, **spec: Any) -> None:
        """An application that runs, with its driver and three executors."""
        driver = self.server.make(
            POD, "team", pod("pi-driver", "n3", UID, "driver", **{"spark-app-selector": "spark-1"})
        )
        for number, node in enumerate(("n1", "n2", "n3"), 1):
            labels = {"spark-exec-id": str(number), "spark-app-selector": "spark-1"}
            self.server.make(
                POD, "team", pod(f"pi-1-exec-{number}", node, driver["metadata"]["uid"], "executor", **labels)
            )
        body = manifest(speculation=speculation, executor={"instances": 3}, **spec)
        body["status"] = {
            "applicationState": {"state": "RUNNING"},
            "attempt": 1,
            "sparkApplicationId": "spark-1",
            "driverInfo": {"podName": "pi-driver", "podUid": driver["metadata"]["uid"]},
        }
        body["metadata"] |= {"resourceVersion": "1", "generation": 1}
        self.store.put(body)
        self.server.make(SPARK_APPLICATION, "team", body)
        self.scheduler.look(KEY)

    def executors(self) -> list[Object]:
        return [one for one in self.server.all(POD) if labels_of(one).get("spark-role") == "executor"]

    def duplicates(self) -> list[Object]:
        return [one for one in self.executors() if "rekindle.dev/duplicate" in labels_of(one)]

    def ends(self, name: str) -> bool:
        found = self.server.get(POD, "team", name)
        return found is None or "deletionTimestamp" in found["metadata"]

    def reasons(self) -> set[str]:
        return {one["reason"] for one in self.server.all(EVENT)}


def make_nodes(server: ApiServer) -> None:
    for number in range(1, 4):
        server.make(NODE, "", objects.node(f"n{number}", labels={"kubernetes.io/hostname": f"host-{number}"}))


def before_work(monkeypatch, case: Callable[[Stage], Awaitable[None]], mode: BlockMode = BlockMode.ON) -> None:
    """Runs a case with a server and a driver, before any operator works."""

    async def prepared(server: ApiServer) -> None:
        async with AsyncExitStack() as stack:
            driver = FakeDriver()
            monkeypatch.setattr("rekindle.controller.speculation.ui.UI_PORT", await driver.start(stack))
            make_nodes(server)
            await case(Stage(server, driver, mode))

    served(prepared)


def staged(monkeypatch, case: Callable[[Stage], Awaitable[None]], mode: BlockMode = BlockMode.ON) -> None:
    """Runs a case with an operator at work."""

    async def at_work(stage: Stage) -> None:
        async with stage.at_work():
            await case(stage)

    before_work(monkeypatch, at_work, mode)


@pytest.mark.requirement("S2-36", "S2-38", "S3-1", "S3-3", "S3-9")
def test_the_node_is_blocked_then_drained_then_its_executor_is_duplicated(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        [duplicate] = await until(stage.duplicates)
        assert is_marked(stage.server.get(NODE, "", "n1") or {})
        assert stage.ends("pi-1-exec-1")
        assert not stage.ends("pi-1-exec-2")
        written = [call for call in stage.server.written() if "status" not in call]
        order = [next(at for at, call in enumerate(written) if part in call) for part in
                 ("POST /apis/rekindle.dev/v1beta2/nodeblocks", "PATCH /api/v1/nodes/n1",
                  "DELETE /api/v1/namespaces/team/pods/pi-1-exec-1", "POST /api/v1/namespaces/team/pods")]  # fmt: skip
        assert order == sorted(order)
        assert int(labels_of(duplicate)["spark-exec-id"]) >= 1_000_000
        await until(lambda: {"SlowNode", "ExecutorDrained", "DuplicateExecutorsMade"} <= stage.reasons())

    staged(monkeypatch, case)


@pytest.mark.requirement("S2-47")
def test_reports_that_go_on_make_nothing_twice(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        await until(stage.duplicates)
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 10)
        assert len(stage.duplicates()) == 1
        assert len(stage.server.all(NODE_BLOCK)) == 1

    staged(monkeypatch, case)


WRITES = ("POST .*/nodeblocks$", "PATCH .*/nodes/n1$", "PATCH .*/nodeblocks/.*/status$", "DELETE .*/pi-1-exec-1$",
          "POST .*/pods$")  # fmt: skip
"""All that is written on the way, in order; the last is asked for without effect first."""


@pytest.mark.thorough
@pytest.mark.requirement("S2-47", "S3-13")
@pytest.mark.parametrize("fatal", WRITES)
@pytest.mark.parametrize("what", [What.LOST, What.DROPPED])
def test_an_operator_that_dies_at_any_write_is_followed_by_one_that_comes_to_the_same_end(monkeypatch, fatal, what):
    async def case(first: Stage) -> None:
        kind, _, path = fatal.partition(" ")
        fault = first.server.fault(kind, path, what)
        async with first.at_work():
            first.start()
            await until(lambda: fault.hits)
        second = Stage(first.server, first.driver, BlockMode.ON)
        async with second.at_work():
            second.take_over()
            await until(lambda: second.duplicates() and second.ends("pi-1-exec-1"))
            asked = first.driver.asked
            await until(lambda: first.driver.asked > asked + 10)
            assert len(second.duplicates()) == 1
            assert [block["spec"]["node"] for block in first.server.all(NODE_BLOCK)] == ["n1"]
            assert [node["metadata"]["name"] for node in first.server.all(NODE) if is_marked(node)] == ["n1"]

    before_work(monkeypatch, case)


@pytest.mark.requirement("S2-47")
def test_a_copy_of_the_pods_that_is_old_makes_none_twice(monkeypatch):
    """Its watch says nothing for as long as the test wants."""
    monkeypatch.setattr("rekindle.controller.speculation.followed._KNOWN_AFTER", 0.01)

    async def case(stage: Stage) -> None:
        silent = stage.server.fault("WATCH", "/pods$", What.SILENT, times=99)
        stage.start()
        async with stage.at_work():
            await until(stage.duplicates)
            asked = stage.driver.asked
            await until(lambda: stage.driver.asked > asked + 10)
            assert len(stage.duplicates()) == 1
            silent.release.set()

    before_work(monkeypatch, case)


def test_a_duplicate_that_is_gone_before_it_ran_is_not_made_again_at_once(monkeypatch):
    monkeypatch.setattr("rekindle.controller.speculation.followed._MISSED_AFTER", 0.1)

    async def case(stage: Stage) -> None:
        stage.start()
        [first] = await until(stage.duplicates)
        await until(lambda: stage.scheduler.facts[KEY].duplicate_executors == 1)
        stage.server.remove(POD, "team", first["metadata"]["name"])
        await until(lambda: stage.scheduler.facts[KEY].duplicate_executors == 0)
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 20)
        assert stage.duplicates() == []

    staged(monkeypatch, case)


def test_a_refused_block_keeps_no_executor_from_being_drained(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.server.fault("POST", "/nodeblocks$", 403, message="no such right", times=999)
        asked = objects.block("n1", name="by-hand")
        asked["metadata"] = {"name": "by-hand"}
        asked["spec"]["end"] = format_time(time.time() + 600)
        stage.server.make(NODE_BLOCK, "", asked)
        stage.start()
        await until(lambda: stage.ends("pi-1-exec-1"))
        await until(lambda: "NodeBlockRefused" in stage.reasons())

    staged(monkeypatch, case)


def tell_uses(stage: Stage, **cpu: str) -> None:
    """What pods use now, by the metrics server: [executor, as in "_1" -> cores]; the last 15 s."""
    for executor, cores in cpu.items():
        labels = {"spark-app-selector": "spark-1"}
        containers = [{"name": "spark", "usage": {"cpu": cores}}, {"name": "sidecar", "usage": {"cpu": "1m"}}]
        body: Object = {"metadata": {"name": f"pi-1-exec{executor.replace('_', '-')}", "labels": labels}}
        body |= {"timestamp": format_time(time.time()), "window": "15s", "containers": containers}
        stage.server.make(POD_METRICS, "team", body)


@pytest.mark.requirement("S2-36", "S3-7")
def test_a_block_says_that_the_pod_is_starved(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.driver.others = ("2", "3")
        tell_uses(stage, _1="60m", _2="570m", _3="570m")
        stage.start(speculation={**SPECULATION, "baselineLowerBound": "50s"})
        await until(lambda: "SlowNode" in stage.reasons())
        [block] = stage.server.all(NODE_BLOCK)
        assert block["spec"]["cause"].endswith("; its pod uses 0.06 CPU a task, others 0.57")
        [note] = [one["note"] for one in stage.server.all(EVENT) if one["reason"] == "SlowNode"]
        assert "its pod uses 0.06 CPU a task, others 0.57" in note

    staged(monkeypatch, case)


def test_a_node_whose_pod_is_fed_is_not_blocked_for_a_task_that_is_hardly_slow(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.driver.others = ("2", "3")
        tell_uses(stage, _1="570m", _2="570m", _3="570m")
        stage.start(speculation={**SPECULATION, "baselineLowerBound": "50s"})
        await until(lambda: (facts := stage.scheduler.facts.get(KEY)) and facts.num_slow_execution_vertices == 1)
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 10)
        assert stage.scheduler.facts[KEY].slow_nodes == []
        assert stage.server.all(NODE_BLOCK) == []
        assert len([call for call in stage.server.calls if "metrics.k8s.io" in call.path]) == 1

    staged(monkeypatch, case)


@pytest.mark.requirement("S2-40", "S1-29")
def test_what_is_slow_is_told_and_that_nothing_is_any_more(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        await until(lambda: (facts := stage.scheduler.facts.get(KEY)) and facts.num_slow_execution_vertices == 1)
        assert stage.scheduler.facts[KEY].slow_nodes == ["n1"]
        stage.driver.is_over = True
        await until(lambda: stage.scheduler.facts[KEY].num_slow_execution_vertices == 0)
        assert stage.scheduler.facts[KEY].slow_nodes == []

    staged(monkeypatch, case)


@pytest.mark.requirement("S2-41")
def test_a_copy_that_wins_is_counted_once_and_what_the_original_cost(monkeypatch):
    """Also by the operator after, which knows of it from the status."""

    async def case(first: Stage) -> None:
        first.driver.copy = "RUNNING"
        first.start()
        async with first.at_work():
            await until(lambda: KEY in first.scheduler.facts)
            first.driver.copy = "SUCCESS"
            await until(lambda: first.scheduler.facts[KEY].num_effective_speculative_executions == 1)
            assert first.scheduler.facts[KEY].wasted_task_seconds == 70
        second = Stage(first.server, first.driver, BlockMode.ON)
        body = first.server.all(SPARK_APPLICATION)[0]
        body["status"]["speculation"] = first.scheduler.facts[KEY].model_dump(mode="json", by_alias=True)
        async with second.at_work():
            second.take_over()
            await until(lambda: KEY in second.scheduler.facts)
            asked = first.driver.asked
            await until(lambda: first.driver.asked > asked + 3)
            assert second.scheduler.facts[KEY].num_effective_speculative_executions == 1

    before_work(monkeypatch, case)


@pytest.mark.requirement("S2-9")
def test_once_a_streaming_query_is_seen_nothing_is_done_any_more_and_it_is_told_why(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.driver.description = f"mine\nid = {UUID}\nrunId = {UUID}\nbatch = 7"
        stage.start()
        await until(lambda: "StreamingQuerySeen" in stage.reasons())
        await until(lambda: KEY in stage.scheduler.facts)
        assert "streaming query" in stage.scheduler.facts[KEY].problem
        stage.driver.description, asked = "", stage.driver.asked
        assert await stage.scheduler._look(KEY)
        assert stage.driver.asked == asked
        assert stage.server.all(NODE_BLOCK) == []
        assert not stage.ends("pi-1-exec-1")

    staged(monkeypatch, case)


def test_in_a_dry_run_a_block_is_only_reported(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        await until(lambda: "DryRun" in str([block.get("status") for block in stage.server.all(NODE_BLOCK)]))
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 5)
        assert not any(is_marked(node) for node in stage.server.all(NODE))
        assert not stage.ends("pi-1-exec-1")
        assert stage.duplicates() == []

    staged(monkeypatch, case, BlockMode.DRY_RUN)


@pytest.mark.requirement("S2-12")
def test_without_speculation_no_driver_is_asked(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start(sparkConf={"spark.rekindle.speculation.enabled": "false"})
        await asyncio.sleep(0.3)
        assert stage.driver.asked == 0
        assert stage.server.all(NODE_BLOCK) == []

    staged(monkeypatch, case)


def test_a_driver_that_does_not_answer_is_told_of_and_nothing_is_done(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.driver.is_silent = True
        stage.start()
        await until(lambda: "DriverUnanswered" in stage.reasons())
        assert stage.scheduler.facts[KEY].problem.startswith("slow tasks cannot be seen: ")
        assert stage.server.all(NODE_BLOCK) == []
        stage.driver.is_silent = False
        await until(lambda: stage.scheduler.facts[KEY].problem == "")
        await until(stage.duplicates)

    staged(monkeypatch, case)


def test_a_ui_that_is_off_is_told_of(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start(sparkConf={"spark.ui.enabled": "false"})
        await until(lambda: "DriverNotFollowed" in stage.reasons())
        assert "spark.ui.enabled=false" in stage.scheduler.facts[KEY].problem

    staged(monkeypatch, case)


def test_what_a_quota_refuses_is_told_and_the_application_goes_on(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.server.fault("POST", "/namespaces/team/pods$", 403, message="exceeded quota: few", times=99)
        stage.start()
        await until(lambda: "DuplicateExecutorsRefused" in stage.reasons())
        [note] = [one["note"] for one in stage.server.all(EVENT) if one["reason"] == "DuplicateExecutorsRefused"]
        assert "exceeded quota: few" in note
        asked = stage.driver.asked
        await until(lambda: stage.driver.asked > asked + 5)
        assert stage.duplicates() == []

    staged(monkeypatch, case)


def test_an_executor_without_a_hook_is_not_killed_for_being_slow(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        for number in (1, 2, 3):
            name = f"pi-1-exec-{number}"
            stage.server.change(POD, "team", name, {"spec": {"containers": [{"name": "spark", "image": "spark:4"}]}})
        await until(lambda: "ExecutorNotDrained" in stage.reasons())
        assert not stage.ends("pi-1-exec-1")

    staged(monkeypatch, case)


def test_an_application_that_ends_is_forgotten(monkeypatch):
    async def case(stage: Stage) -> None:
        stage.start()
        await until(lambda: KEY in stage.scheduler.facts)
        body = dict(stage.store.get(KEY) or {})
        body["status"] = {**body["status"], "applicationState": {"state": "COMPLETED"}}
        body["metadata"] = {**body["metadata"], "resourceVersion": "2"}
        stage.store.put(body)
        stage.scheduler.look(KEY)
        await until(lambda: KEY not in stage.scheduler.facts)
        asked = stage.driver.asked
        await asyncio.sleep(0.3)
        assert stage.driver.asked == asked

    staged(monkeypatch, case)
