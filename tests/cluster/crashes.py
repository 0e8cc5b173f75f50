"""An operator that dies at a chosen call to the API server, just before it or just after, and its successor.

The calls are real and so is the server. The drivers' pods are not placed on any node: the test says of them what a
kubelet would, so that a whole life of an application takes seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from rekindle.controller.kube import Gone, Kube, Taken, Unavailable
from rekindle.controller.operator import Operator
from rekindle.controller.reading import state_of
from rekindle.controller.resources import EVENT, LEASE, POD, SPARK_APPLICATION, Object, Resource, uid_of
from rekindle.controller.settings import OperatorSettings
from tests.kind import kubelet

log = logging.getLogger(__name__)

_MOST_DEATHS = 3
_NOT_COUNTED = (EVENT, LEASE)


class Crash(BaseException):
    """The process is gone: nothing catches it."""


class CrashingKube(Kube):
    """Raises Crash at the call number `at` that changes something, before or after it is sent."""

    def __init__(self, kube: Kube, at: int | None, after: bool) -> None:
        super().__init__(kube._client)
        self._at, self._after, self.calls = at, after, 0
        self.crashed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def _counted(self, resource: Resource) -> AsyncIterator[None]:
        mine = resource not in _NOT_COUNTED
        self.calls += mine
        due = mine and self.calls == self._at
        if due and not self._after:
            self._die()
        try:
            yield
        finally:  # whatever the answer was
            if due:
                self._die()

    def _die(self) -> None:
        self.crashed.set()
        raise Crash

    async def create(self, resource: Resource, *arguments: Any, **named: Any) -> Object:
        async with self._counted(resource):
            return await super().create(resource, *arguments, **named)

    async def patch(self, resource: Resource, *arguments: Any, **named: Any) -> Object:
        async with self._counted(resource):
            return await super().patch(resource, *arguments, **named)

    async def delete(self, resource: Resource, *arguments: Any, **named: Any) -> bool:
        async with self._counted(resource):
            return await super().delete(resource, *arguments, **named)


@dataclass
class Life:
    """One application from `apply` to deleted, its first driver killed; an operator that crashes once under it."""

    kube: Kube
    namespace: str
    crash_at: int | None
    after: bool
    drivers: dict[str, str] = field(default_factory=dict)
    """Uid to name of every driver pod that was ever seen."""

    most_alive: int = 0
    calls: int = 0
    crashed: bool = False
    deaths: list[str] = field(default_factory=list)
    """What ended operators that nobody had crash."""

    async def live(self, manifest: Object) -> Object:
        """The application as it was when it had ended; it is deleted afterwards, through its finalizer."""
        crashing = CrashingKube(self.kube, self.crash_at, self.after)
        course = asyncio.create_task(self._course(manifest))
        others = (asyncio.create_task(self._operators(crashing)), asyncio.create_task(self._kubelet()))
        try:
            done, _ = await asyncio.wait((course, *others), return_when=asyncio.FIRST_COMPLETED)
            for task in done - {course}:  # neither ends by itself: what it raised is why nothing would come of this
                task.result()
            return await course
        finally:
            self.calls, self.crashed = crashing.calls, crashing.crashed.is_set()
            for task in (course, *others):
                task.cancel()
            await asyncio.gather(course, *others, return_exceptions=True)

    async def _course(self, manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        await self.kube.create(SPARK_APPLICATION, self.namespace, manifest)
        ended = await self._wait(name, lambda body: state_of(body or {}) in ("COMPLETED", "FAILED"))
        await self.kube.delete(SPARK_APPLICATION, self.namespace, name)
        await self._wait(name, lambda body: body is None)
        assert ended is not None
        return ended

    async def _operators(self, crashing: CrashingKube) -> None:
        """The one that crashes, and one that does not; where it ends all the same, the next, as a Deployment has it."""
        with _crash_caught():
            await self._operator(crashing)
        while len(self.deaths) < _MOST_DEATHS:
            try:
                await self._operator(self.kube)
            except Exception as error:
                self.deaths.append(f"{self.namespace}: {error!r}")
                log.exception("the operator of %s has ended by itself", self.namespace)
                await asyncio.sleep(1.0)
        raise AssertionError(f"the operator ends by itself again and again: {self.deaths}")

    async def _operator(self, kube: Kube) -> None:
        settings = OperatorSettings(
            namespaces=(self.namespace,),
            operator_namespace=self.namespace,
            identity=f"{self.namespace}-{id(kube)}",
            port=0,
            lease_seconds=3,
        )
        await Operator(settings, kube).run()

    async def _wait(self, name: str, seen: Any) -> Object | None:
        while True:
            body = await self.kube.find(SPARK_APPLICATION, self.namespace, name)
            if seen(body):
                return body
            await asyncio.sleep(0.05)

    async def _kubelet(self) -> None:
        """Runs each driver; the first is killed, the others end well. An API server that is away is asked again."""
        while True:
            try:
                await self._look()
            except Unavailable as error:
                log.warning("the kubelet of %s: %s", self.namespace, error)
                await asyncio.sleep(1.0)
            await asyncio.sleep(0.02)

    async def _look(self) -> None:
        pods, _ = await self.kube.list_all(POD, self.namespace, "spark-role=driver")
        alive = 0
        for pod in pods:
            self.drivers[uid_of(pod)] = pod["metadata"]["name"]
            alive += (pod.get("status") or {}).get("phase") in (None, "Pending", "Running")
        self.most_alive = max(self.most_alive, alive)
        for pod in pods:
            await self._advance(pod)

    async def _advance(self, pod: Object) -> None:
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if phase == "Pending":
            status = kubelet.running()
        elif phase == "Running" and await self._is_seen_running(pod):
            status = kubelet.ended(137 if pod["metadata"]["labels"]["rekindle.dev/attempt"] == "1" else 0)
        else:
            return
        with contextlib.suppress(Gone, Taken):
            await self.kube.patch(
                POD, self.namespace, pod["metadata"]["name"], {"status": status}, subresource="status"
            )

    async def _is_seen_running(self, pod: Object) -> bool:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        return state_of(await self.kube.find(SPARK_APPLICATION, self.namespace, owner) or {}) == "RUNNING"


@contextlib.contextmanager
def _crash_caught() -> Iterator[None]:
    try:
        yield
    except Crash:
        pass
    except BaseExceptionGroup as group:
        if group.split(Crash)[0] is None:
            raise
