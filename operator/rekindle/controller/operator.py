"""The operator's process: one Lease, then Kopf's watch, the copies of pods and nodes, and the work queue together.

Whatever of it ends takes the others with it, and the process ends: Kubernetes starts it again, and it goes on
from what is in the API.
"""

import asyncio
import logging
import signal
import time
from collections import Counter

import kopf

from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.handlers import registry_for, settings_of
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Kube
from rekindle.controller.leader import LeaseElection
from rekindle.controller.metrics import Metrics
from rekindle.controller.probes import serve
from rekindle.controller.reading import read_status
from rekindle.controller.reconciler import Reconciler
from rekindle.controller.resources import NODE, POD, Key, Object, labels_of
from rekindle.controller.settings import OperatorSettings
from rekindle.controller.store import ApplicationStore
from rekindle.controller.submission import names as labels
from rekindle.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

_STANDSTILL = 120.0
_SELECTOR = f"{labels.LABEL_MANAGED}=true"


class Operator:
    """Everything of one process; `run` it once."""

    def __init__(self, settings: OperatorSettings, kube: Kube) -> None:
        self._settings, self._kube = settings, kube
        self.metrics = Metrics()
        self._events = EventRecorder(kube, settings.identity, self.metrics.events_dropped.inc)
        namespace = settings.namespaces[0] if len(settings.namespaces) == 1 else None
        self._pods = Informer(
            kube,
            POD,
            namespace=namespace,
            selector=_SELECTOR,
            index=lambda pod: labels_of(pod).get(labels.LABEL_UID),
        )
        self._nodes = Informer(kube, NODE) if settings.watch_nodes else None
        self._queue: WorkQueue[Key] = WorkQueue(self._look, settings.workers)
        self._store = ApplicationStore(self._queue.add)
        self._reconciler = Reconciler(kube, self._store, self._pods, self._nodes, self._events, self.metrics)
        self._pods.listen(self._pod_changed)
        if self._nodes is not None:
            self._nodes.listen(self._node_changed)
        self._election = LeaseElection(
            kube, settings.operator_namespace, settings.lease_name, settings.identity, settings.lease_seconds
        )

    async def run(self) -> None:
        """Until a signal, a lost Lease or an error."""
        runner = await serve(self._settings.port, self._not_alive, self._not_ready, self.metrics)
        try:
            await self._election.acquire()
            self.metrics.leader.set(1)
            await self._work()
        finally:
            self.metrics.leader.set(0)
            await self._election.release()
            await runner.cleanup()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_lease())
            tasks.create_task(self._events.run())
            informers = [informer for informer in (self._pods, self._nodes) if informer is not None]
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:  # nothing is decided before the copies are complete
                await informer.wait_until_listed()
            log.info("working: %d pods, %d nodes", len(self._pods), len(self._nodes or ()))
            tasks.create_task(self._queue.run())
            tasks.create_task(self._count())
            tasks.create_task(self._watch_applications())

    async def _keep_lease(self) -> None:
        await self._election.keep()
        raise LeaseLost(f"the Lease {self._settings.lease_name} is lost")

    async def _watch_applications(self) -> None:
        namespaces = list(self._settings.namespaces)
        await kopf.operator(
            registry=registry_for(self._store),
            settings=settings_of(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
        raise RuntimeError("Kopf's watch ended")

    async def _look(self, key: Key) -> float | None:
        with self.metrics.look_seconds.time():
            try:
                delay = await self._reconciler.look(key)
            except Exception:
                self.metrics.looks.labels("error").inc()
                raise
        self.metrics.looks.labels("done").inc()
        return delay

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None
        if (name := labels_of(pod).get(labels.LABEL_APPLICATION)) is not None:
            self._queue.add(Key(pod["metadata"]["namespace"], name))

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        """Look at the applications whose driver is on a node that came, went or changed its mind."""
        node = after or before
        assert node is not None
        if before is not None and after is not None and _standing(before) == _standing(after):
            return
        name = node["metadata"]["name"]
        for pod in self._pods:
            if pod["spec"].get("nodeName") == name and labels_of(pod).get(labels.SPARK_ROLE) == "driver":
                self._pod_changed(None, pod)

    async def _count(self) -> None:
        while True:
            tally: Counter[tuple[str, str]] = Counter()
            for body in self._store:
                state = read_status(body).application_state.state
                tally[body["metadata"]["namespace"], state.value or "NEW"] += 1
            self.metrics.applications.clear()
            for (namespace, state_name), count in tally.items():
                self.metrics.applications.labels(namespace, state_name).set(count)
            self.metrics.queue_depth.set(len(self._queue))
            await asyncio.sleep(5)

    def _not_alive(self) -> list[str]:
        stands = self._queue.idle_since(time.monotonic())
        return [f"the work queue stands still for {stands:.0f} s"] if stands > _STANDSTILL else []

    def _not_ready(self) -> list[str]:
        if not self._election.is_leader:
            return []  # a standby is ready to take over
        informers = {"pods": self._pods, "nodes": self._nodes}
        return [
            f"{name} are not listed yet" for name, one in informers.items() if one is not None and not one.is_listed
        ]


class LeaseLost(Exception):
    """Another operator may work now."""


def _standing(node: Object) -> tuple[object, object]:
    """What of a node matters to a driver on it: whether it answers, and its taints."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((item.get("status") for item in conditions if item.get("type") == "Ready"), None)
    return ready, [(taint.get("key"), taint.get("effect")) for taint in node["spec"].get("taints") or ()]


async def main(settings: OperatorSettings) -> int:
    """Run until SIGTERM or SIGINT (0), or until the Lease is lost (1)."""
    kube = await Kube.connect()
    work = asyncio.create_task(Operator(settings, kube).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        log.info("stopped by a signal")
        return 0
    except BaseExceptionGroup as failures:
        lost, others = failures.split(LeaseLost)
        if others is not None:
            raise others from None
        log.error("another operator may work now: %s", lost)
        return 1
    finally:
        await kube.close()
    return 0
