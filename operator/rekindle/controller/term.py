"""What an operator does while it holds the Lease: Kopf's watch, the copies of pods and nodes, and the queue, together.

Whatever of it ends takes the others with it. Nothing is kept from one term to the next: all there is to know is in
the API.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import kopf

from rekindle.api.application_status import SpeculationStatus
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.blocks.settings import BlockMode
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.exchange.exchanges import Exchanges
from rekindle.controller.exchange.tokens import ExchangeTokens
from rekindle.controller.handlers import registry_for, settings_of
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Kube, KubeError
from rekindle.controller.metrics import Metrics
from rekindle.controller.reading import read_status, state_of
from rekindle.controller.reconciler import Reconciler
from rekindle.controller.recovery.known_jobs import KnownJobs
from rekindle.controller.resources import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SPARK_APPLICATION,
    Key,
    Object,
    condition_of,
    key_of,
    labels_of,
)
from rekindle.controller.settings import OperatorSettings
from rekindle.controller.speculation.acting import Acting
from rekindle.controller.speculation.followed import RunningDrivers
from rekindle.controller.speculation.pod_metrics import PodMetrics
from rekindle.controller.speculation.scheduler import SpeculativeScheduler
from rekindle.controller.store import ApplicationStore
from rekindle.controller.submission import names as labels
from rekindle.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

_SELECTOR = f"{labels.LABEL_MANAGED}=true"
_RESYNC_SECONDS = 600.0
_SERVED_SECONDS = 5.0
_EXECUTOR_PAUSE = 1.0
"""Seconds in which the changes of an application's executors become one look: at a thousand executors they are many."""


class Term:
    """One term of office; `run` it once."""

    def __init__(
        self, settings: OperatorSettings, kube: Kube, metrics: Metrics, take_signals: Callable[[], None]
    ) -> None:
        """`take_signals` sets the process's own signal handlers again: Kopf takes them when it starts."""
        self._settings, self._kube, self._metrics, self._take_signals = settings, kube, metrics, take_signals
        self._events = EventRecorder(kube, settings.identity, metrics.events_dropped.inc)
        self._pods = Union([_pods_of(kube, namespace) for namespace in settings.scopes])
        self._claims = Union([_claims_of(kube, namespace) for namespace in settings.scopes])
        self._nodes = Informer(kube, NODE) if settings.watch_nodes else None
        self._queue: WorkQueue[Key] = WorkQueue(self._look, settings.workers)
        self._store = ApplicationStore(self._application_changed)
        self._tokens = ExchangeTokens(kube, settings.operator_namespace, f"{settings.lease_name}-exchange")
        self._jobs = KnownJobs()
        self._reconciler = Reconciler(
            kube,
            self._store,
            self._pods,
            self._claims,
            self._nodes,
            self._events,
            metrics,
            self._speculation_of,
            self._tokens.digest,
            lambda key, driver, newest: self._jobs.of(key, driver, newest=newest),
        )
        self._blocks: BlockKeeper | None = None
        self._speculation: SpeculativeScheduler | None = None
        self._drivers = RunningDrivers(self._store, self._pods)
        self._jobs.listen(self._queue.add)
        self._pods.listen(self._pod_changed)
        self._claims.listen(self._claim_changed)
        if self._nodes is not None:
            self._nodes.listen(self._node_changed)
        if self._nodes is not None and settings.blocks.mode is not BlockMode.OFF:
            self._exchanges = self._block_nodes(self._nodes)
        else:
            self._exchanges = Exchanges(self._store, self._tokens, self._drivers, self._events, metrics, self._jobs)

    def _block_nodes(self, nodes: Informer) -> Exchanges:
        """Have slow nodes seen and blocked, too."""
        kube, blocks, events, metrics = self._kube, self._settings.blocks, self._events, self._metrics
        self._blocks = BlockKeeper(kube, nodes, blocks, events, metrics, self._has_ended)
        requests = BlockRequests(kube, self._blocks, nodes, blocks)
        acting = Acting(kube, nodes, requests, events, metrics)
        self._speculation = SpeculativeScheduler(
            self._store, self._drivers, self._blocks, acting, events, PodMetrics(kube), self._settings.workers
        )
        exchanges = Exchanges(
            self._store, self._tokens, self._drivers, events, metrics, self._jobs, self._blocks, acting
        )
        self._speculation.copies_itself = exchanges.copies_itself
        self._speculation.listen(lambda key: self._queue.add_after(key, _EXECUTOR_PAUSE))
        return exchanges

    def _speculation_of(self, key: Key) -> SpeculationStatus | None:
        return self._speculation.facts.get(key) if self._speculation is not None else None

    async def run(self) -> None:
        """Until cancelled, or until a part of it fails."""
        speculation = self._speculation.facts if self._speculation is not None else {}
        self._metrics.watch(self._tally, lambda: len(self._queue), lambda: speculation, self._jobs.all)
        try:
            await self._work()
        finally:  # another operator counts now
            self._metrics.watch()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            informers = [one for one in (self._pods, self._claims, self._nodes) if one is not None]
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:  # nothing is decided before the copies are complete
                await informer.wait_until_listed()
            log.info("working: %d pods, %d nodes", len(self._pods), len(self._nodes or ()))
            tasks.create_task(self._tokens.load())
            await self._tokens.are_tried.wait()
            tasks.create_task(self._queue.run())
            await self._list_applications()
            tasks.create_task(self._resync())
            if self._blocks is not None:
                tasks.create_task(self._blocks.run())
            if self._speculation is not None:
                tasks.create_task(self._speculation.run())
            tasks.create_task(self._exchanges.run())
            tasks.create_task(self._watch_applications())

    def standstill(self, now: float) -> float:
        """Seconds for which the queue has not moved although there is work; `now` is monotonic."""
        return self._queue.idle_since(now)

    def not_listed(self) -> list[str]:
        """The kinds whose copy is not complete yet."""
        informers = {"pods": self._pods, "persistentvolumeclaims": self._claims, "nodes": self._nodes}
        return [name for name, one in informers.items() if one is not None and not one.is_listed]

    async def _watch_applications(self) -> None:
        namespaces = list(self._settings.namespaces)
        ours = asyncio.all_tasks()  # when Kopf ends it ends every task of the loop that it is not told of
        tasks = await kopf.spawn_tasks(
            registry=registry_for(self._store),
            settings=settings_of(),
            standalone=True,
            identity=self._settings.identity,  # type: ignore[arg-type]  # else it asks who the user is: a uid has no name
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
        self._take_signals()
        await kopf.run_tasks(tasks, ignored=ours)
        raise RuntimeError("Kopf's watch ended")

    async def _look(self, key: Key) -> float | None:
        with self._metrics.look_seconds.time():
            try:
                delay = await self._reconciler.look(key)
            except Exception:
                self._metrics.looks.labels("error").inc()
                raise
        self._metrics.looks.labels("done").inc()
        return delay

    def _application_changed(self, key: Key) -> None:
        self._queue.add(key)
        self._follow(key)
        if self._blocks is not None and self._has_ended(f"{key.namespace}/{key.name}"):
            self._blocks.look()  # it may have been the last that asked for a block

    def _follow(self, key: Key) -> None:
        """Its pods or its state have changed: whoever asks its driver wants to know."""
        if self._speculation is not None:
            self._speculation.look(key)
        self._exchanges.look(key)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None
        if (name := labels_of(pod).get(labels.LABEL_APPLICATION)) is None:
            return
        key = Key(pod["metadata"]["namespace"], name)
        if labels_of(pod).get(labels.SPARK_ROLE) == "executor":
            self._queue.add_after(key, _EXECUTOR_PAUSE)
            self._follow(key)
        else:
            self._queue.add(key)

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        claim = after or before
        assert claim is not None
        if (name := labels_of(claim).get(labels.LABEL_APPLICATION)) is not None:
            self._queue.add(Key(claim["metadata"]["namespace"], name))

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

    async def _list_applications(self) -> None:
        """Until it is known which there are; Kopf, too, looks once which kinds there are, and never again."""
        while True:
            try:
                for namespace in self._settings.scopes:
                    await self._list(namespace)
                return
            except KubeError as error:
                log.warning("SparkApplications cannot be listed, is the CRD there? %s", error)
                await asyncio.sleep(_SERVED_SECONDS)

    async def _list(self, namespace: str | None) -> None:
        listed, version = await self._kube.list_all(SPARK_APPLICATION, namespace)
        self._store.replace(listed, version, namespace)

    async def _resync(self) -> None:
        """List all applications now and then, and look at those that have not ended.

        Nothing stands still for ever because one change was missed; and Kopf's watch, where it has to begin anew, does
        not tell of what has gone meanwhile. Raises RuntimeError where the cluster was restored from a backup.
        """
        while True:
            await asyncio.sleep(_RESYNC_SECONDS)
            for namespace in self._settings.scopes:
                try:
                    await self._list(namespace)
                except KubeError as error:
                    log.warning("the applications cannot be listed: %s", error)
            for body in self._store:
                if not read_status(body).application_state.state.is_terminal:
                    self._queue.add(key_of(body))

    def _has_ended(self, application: str) -> bool:
        """Whether an application (namespace/name) has ended or is gone; of another operator's it is not known."""
        namespace, _, name = application.partition("/")
        if self._settings.namespaces and namespace not in self._settings.namespaces:
            return False
        body = self._store.get(Key(namespace, name))
        return body is None or read_status(body).application_state.state.is_terminal

    def _tally(self) -> Counter[tuple[str, str]]:
        """Applications by namespace and state."""
        return Counter((body["metadata"]["namespace"], state_of(body)) for body in self._store)


def _pods_of(kube: Kube, namespace: str | None) -> Informer:
    return Informer(
        kube,
        POD,
        namespace=namespace,
        selector=_SELECTOR,
        index=lambda pod: labels_of(pod).get(labels.LABEL_UID),
        trim=_trimmed,
    )


def _claims_of(kube: Kube, namespace: str | None) -> Informer:
    return Informer(kube, PERSISTENT_VOLUME_CLAIM, namespace=namespace, selector=_SELECTOR, trim=_claim_trimmed)


def _claim_trimmed(claim: Object) -> Object:
    return {"metadata": _metadata(claim), "status": {"phase": (claim.get("status") or {}).get("phase")}}


def _trimmed(pod: Object) -> Object:
    """What is read of a pod: anybody may label a large one, and the copy holds them all."""
    spec = {name: pod["spec"][name] for name in ("nodeName", "readinessGates") if name in pod["spec"]}
    return {"metadata": _metadata(pod), "spec": spec, "status": pod.get("status") or {}}


def _metadata(of: Object) -> Object:
    """Without annotations, which may be large."""
    return {name: value for name, value in of["metadata"].items() if name != "annotations"}


def _standing(node: Object) -> tuple[object, object]:
    """What of a node matters to a driver on it: whether it answers, and its taints."""
    taints = [(taint.get("key"), taint.get("effect")) for taint in node["spec"].get("taints") or ()]
    return condition_of(node, "Ready").get("status"), taints
