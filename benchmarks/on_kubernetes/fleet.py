"""Applications of one namespace, and what a kubelet would say of their pods, none of which is ever placed on a node."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from benchmarks.on_kubernetes.application import EXECUTORS, manifest
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Gone, Kube
from rekindle.controller.reading import state_of
from rekindle.controller.resources import POD, SPARK_APPLICATION, Object, labels_of, owner_reference
from tests.kind import kubelet
from tests.kind.processes import Failed


class Fleet:
    """Applications of one namespace, when each was sent and when its driver's pod was there. An async context."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.namespace = kube, namespace
        self.pods = Informer(kube, POD, namespace=namespace, selector="spark-role=driver")
        self.applications = Informer(kube, SPARK_APPLICATION, namespace=namespace)
        self.sent: dict[str, float] = {}
        self.seen: dict[str, float] = {}
        self.gone = 0
        self._tasks = asyncio.TaskGroup()
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self.pods.listen(self._pod_changed)
        self.applications.listen(self._application_changed)
        for one in (self.pods, self.applications):
            self.do_always(one.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    async def apply(self, name: str) -> None:
        self.sent[name] = time.monotonic()
        await self.kube.create(SPARK_APPLICATION, self.namespace, self.manifest(name))

    def manifest(self, name: str) -> Object:
        """Of the application of that name."""
        return manifest(name)

    async def apply_all(self, count: int, rate: float) -> None:
        """That many applications at `rate` per second."""
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            self.do(self.apply(f"app-{number}"))

    def do(self, work: Coroutine[Any, Any, object]) -> None:
        """Beside everything else; an error of it ends the scenario."""
        self._tasks.create_task(work)

    def do_always(self, work: Coroutine[Any, Any, None]) -> None:
        """The same of work that ends only with the scenario."""
        self._watches.append(self._tasks.create_task(work))

    async def say_of(self, pod: str, status: Object) -> None:
        """What a kubelet would."""
        with suppress(Gone):
            await self.kube.patch(POD, self.namespace, pod, {"status": status}, subresource="status")

    def states(self) -> Counter[str]:
        return Counter(map(state_of, self.applications))

    def waits(self) -> list[float]:
        """Seconds from each apply until the driver's pod was seen."""
        return [self.seen[name] - sent for name, sent in self.sent.items()]

    def driver_made(self, pod: Object) -> None:
        """Nothing is said of it."""

    def entered(self, state: str, application: Object) -> None:
        """Nothing follows."""

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            self.seen[labels_of(after).get("spark-app-name", "")] = time.monotonic()
            self.driver_made(after)

    def _application_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            self.gone += 1
        elif (state := state_of(after)) != state_of(before or {}):
            if state not in ("NEW", "SUBMITTED", "RUNNING", "COMPLETED"):
                self.do(_fail(f"{after['metadata']['name']} is {state}: {json.dumps(after['status'])}"))
            self.entered(state, after)


class Lives(Fleet):
    """Every driver runs, ends well as soon as that is known, and its application is deleted."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        super().__init__(kube, namespace)
        self.reactions: list[float] = []
        """Seconds from each change of a pod, as it was sent, until the application's status was seen to say so."""

        self._told: dict[str, float] = {}

    def driver_made(self, pod: Object) -> None:
        self._tell(pod["metadata"]["name"], kubelet.running())

    def _tell(self, pod: str, status: Object) -> None:
        self._told[pod] = time.monotonic()
        self.do(self.say_of(pod, status))

    def entered(self, state: str, application: Object) -> None:
        pod = application.get("status", {}).get("driverInfo", {}).get("podName", "")
        if state in ("RUNNING", "COMPLETED"):
            self.reactions.append(time.monotonic() - self._told[pod])
        if state == "RUNNING":
            self._tell(pod, kubelet.ended(0))
        elif state == "COMPLETED":
            self.do(self.kube.delete(SPARK_APPLICATION, self.namespace, application["metadata"]["name"]))


class Standing(Fleet):
    """Every driver runs, has its executors, and goes on."""

    executors = EXECUTORS

    def driver_made(self, pod: Object) -> None:
        self.do(self._run(pod))

    def complete(self) -> int:
        """Applications whose status has all their executors running."""
        return sum(
            (one.get("status") or {}).get("executors", {}).get("running") == self.executors for one in self.applications
        )

    def driver_status(self, driver: Object) -> Object:
        """What a kubelet says of it."""
        return kubelet.running()

    def executor(self, driver: Object, number: int) -> Object:
        """The pod of that executor, from 1 on."""
        return _executor(driver, number)

    async def _run(self, driver: Object) -> None:
        await self.say_of(driver["metadata"]["name"], self.driver_status(driver))
        for number in range(1, self.executors + 1):
            executor = await self.kube.create(POD, self.namespace, self.executor(driver, number))
            await self.say_of(executor["metadata"]["name"], kubelet.running(kubelet.EXECUTOR))


def _executor(driver: Object, number: int) -> Object:
    """As Spark's driver makes it, as far as an operator looks."""
    metadata = {
        "name": f"{driver['metadata']['name']}-exec-{number}",
        "labels": {**labels_of(driver), "spark-role": "executor", "spark-exec-id": str(number)},
        "ownerReferences": [owner_reference(driver, POD)],
    }
    container = {**driver["spec"]["containers"][0], "name": kubelet.EXECUTOR}
    return {"metadata": metadata, "spec": {**driver["spec"], "containers": [container]}}


async def _fail(what: str) -> None:
    raise Failed(what)
