"""The speculative scheduler of the cluster (FLIP-168): follows the applications that run, and acts on slow nodes.

One look at an application: what is slow, which executors there are and which nodes are blocked, and from that the
steps of `plan`. All that counts is in the API; what is remembered between looks only spares questions and words.
"""

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.api.application_status import ApplicationState, ApplicationStatus
from rekindle.api.settings import CoreOptions
from rekindle.api.spark_application import SparkApplication
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.plan import ActiveBlock
from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.clock import parse_time
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Kube
from rekindle.controller.logs import looked_at
from rekindle.controller.metrics import Metrics
from rekindle.controller.reading import SpecReader, read_status, state_of
from rekindle.controller.resources import Key, Object, is_owned_by, key_of, labels_of, uid_of
from rekindle.controller.speculation.clone import next_ids
from rekindle.controller.speculation.executors import Executor, executors_of
from rekindle.controller.speculation.levers import ExecutorLevers, Outcome
from rekindle.controller.speculation.plan import AskForBlock, Drain, Duplicate, Remove, Situation, Step, steps_for
from rekindle.controller.speculation.spark_rest import DriverUnanswered, SparkRest
from rekindle.controller.speculation.ui import UiUnreachable, ui_of
from rekindle.controller.speculation.watch import DriverWatch, Seen
from rekindle.controller.store import ApplicationStore
from rekindle.controller.work_queue import WorkQueue

log = logging.getLogger(__name__)

_UNANSWERED_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0)
_REFUSED_PAUSE = 30.0
"""Seconds after which what was refused is tried again: a quota, an admission, a place."""


@dataclass
class _Followed:
    """What is remembered of one attempt's driver."""

    pod_uid: str
    watch: DriverWatch | None
    quiet_since: float
    unanswered: int = 0
    told: dict[str, str] = field(default_factory=dict)  # [what it is about -> what was last said of it]
    not_before: dict[str, float] = field(default_factory=dict)  # [step that was refused -> monotonic time]


class SpeculativeScheduler:
    """Looks at each running application with `speculation.enabled` as often as its driver could show something new."""

    def __init__(
        self,
        kube: Kube,
        store: ApplicationStore,
        pods: Union,
        nodes: Informer,
        keeper: BlockKeeper,
        requests: BlockRequests,
        events: EventRecorder,
        metrics: Metrics,
        workers: int,
    ) -> None:
        self._store, self._pods, self._nodes, self._keeper = store, pods, nodes, keeper
        self._requests, self._events, self._metrics = requests, events, metrics
        self._levers, self._specs = ExecutorLevers(kube), SpecReader()
        self._queue: WorkQueue[Key] = WorkQueue(self._look, workers)
        self._followed: dict[Key, _Followed] = {}
        self._rest: SparkRest | None = None
        keeper.listen(self._blocks_changed)

    def look(self, key: Key) -> None:
        """Look at an application soon: its pods or its state have changed."""
        body = self._store.get(key)
        if key in self._followed or (body is not None and state_of(body) == ApplicationState.RUNNING.value):
            self._queue.add_after(key, 0.5)

    async def run(self) -> None:
        """Until cancelled."""
        self._rest = SparkRest()
        try:
            for body in self._store:
                self.look(key_of(body))
            await self._queue.run()
        finally:
            await self._rest.close()

    def _blocks_changed(self, active: Mapping[str, ActiveBlock]) -> None:
        for key in list(self._followed):
            self._queue.add(key)

    async def _look(self, key: Key) -> float | None:
        body = self._store.get(key)
        application = self._application(body)
        if body is None or application is None:
            self._forget(key)
            return None
        looked_at.set((str(key), uid_of(body)))
        status = read_status(body)
        driver = self._pods.get(Key(key.namespace, status.driver_info.pod_name))
        if driver is None or uid_of(driver) != status.driver_info.pod_uid:
            self._forget(key)
            return None
        options = application.spec.settings().to_core()
        followed = self._follow(key, status, driver, application, options)
        executors = executors_of(pod for pod in self._pods.of(uid_of(body)) if is_owned_by(pod, uid_of(driver)))
        seen = await self._see(body, followed, executors)
        steps = steps_for(self._situation(application, options, followed, executors, seen))
        for step in steps:
            await self._take(body, application, followed, driver, executors, step)
        return seen.delay if seen is not None else self._pause(followed)

    def _application(self, body: Object | None) -> SparkApplication | None:
        """The application if it is to be followed."""
        if body is None or "deletionTimestamp" in body["metadata"] or state_of(body) != ApplicationState.RUNNING.value:
            return None
        application = self._specs.read(body).application
        if application is None or application.spec.workload != "Batch":
            return None
        return application if application.spec.settings().speculation.enabled else None

    def _forget(self, key: Key) -> None:
        self._followed.pop(key, None)

    def _follow(
        self, key: Key, status: ApplicationStatus, driver: Object, application: SparkApplication, options: CoreOptions
    ) -> _Followed:
        there = self._followed.get(key)
        if there is None or there.pod_uid != uid_of(driver):
            there = self._followed[key] = _Followed(uid_of(driver), None, time.monotonic())
        if there.watch is None and self._rest is not None and (driver.get("status") or {}).get("podIP"):
            try:
                address = ui_of(driver, application.spec.spark_conf)
            except UiUnreachable as problem:
                self._say(self._store.get(key), there, "ui", "Warning", "DriverNotFollowed", str(problem))
            else:
                there.watch = DriverWatch(self._rest, address, status.spark_application_id, options)
        return there

    async def _see(self, body: Object, followed: _Followed, executors: list[Executor]) -> Seen | None:
        """What is slow now; None where the driver does not tell."""
        if followed.watch is None:
            return None
        nodes = {str(one.id): one.node for one in executors if one.node}
        try:
            seen = await followed.watch.look(nodes, time.time())
        except DriverUnanswered as problem:
            followed.unanswered += 1
            if followed.unanswered >= len(_UNANSWERED_PAUSES):
                self._say(body, followed, "answer", "Warning", "DriverUnanswered", problem.reason)
            log.info("%s", problem.reason)
            return None
        log.debug("%d executors; %s", len(executors), seen)
        followed.unanswered = 0
        followed.told.pop("answer", None)
        if seen.slow:
            followed.quiet_since = time.monotonic()
        return seen

    def _pause(self, followed: _Followed) -> float:
        return _UNANSWERED_PAUSES[min(followed.unanswered, len(_UNANSWERED_PAUSES) - 1)]

    def _situation(
        self,
        application: SparkApplication,
        options: CoreOptions,
        followed: _Followed,
        executors: list[Executor],
        seen: Seen | None,
    ) -> Situation:
        spec = application.spec
        instances = None if spec.allocates_dynamically else spec.executor_instances
        asked_for = instances if instances is not None else sum(1 for one in executors if not one.is_duplicate)
        share = spec.settings().speculation.max_duplicate_share
        return Situation(
            executors=executors,
            slow=seen.slow if seen is not None else (),
            blocked={node: block.evacuate for node, block in self._keeper.active.items()},
            instances=instances,
            slots=spec.executor_slots,
            most_duplicates=math.ceil(share * asked_for),
            block_seconds=options.speculation.block_slow_node_duration,
            quiet_seconds=time.monotonic() - followed.quiet_since if seen is not None else 0.0,
            is_answered=seen is not None,
        )

    async def _take(
        self,
        body: Object,
        application: SparkApplication,
        followed: _Followed,
        driver: Object,
        executors: list[Executor],
        step: Step,
    ) -> None:
        namespace, name = body["metadata"]["namespace"], _name_of(step)
        if followed.not_before.get(name, 0.0) > time.monotonic():
            return
        if isinstance(step, AskForBlock):
            await self._ask(body, application, followed, step)
            return
        if isinstance(step, Duplicate):
            age = time.time() - parse_time(driver["metadata"]["creationTimestamp"])
            ids = next_ids([one.id for one in executors], step.count, age)
            outcome = await self._levers.duplicate(namespace, step.original, ids, self._hosts(step.avoid))
            reason = "DuplicateExecutorsMade" if outcome.done else "DuplicateExecutorsRefused"
        else:
            at_once = isinstance(step, Drain) and step.at_once
            outcome = await self._levers.drain(namespace, step.executor, at_once=at_once)
            reason = (
                ("DuplicateExecutorRemoved" if isinstance(step, Remove) else "ExecutorDrained")
                if outcome.done
                else ("ExecutorNotDrained")
            )
        self._settle(body, followed, name, reason, outcome)

    def _settle(self, body: Object, followed: _Followed, name: str, reason: str, outcome: Outcome) -> None:
        if outcome.done:
            self._metrics.speculation_steps.labels(reason).inc()
        # Also what was done is not done again before the copy of the pods can know it.
        followed.not_before[name] = time.monotonic() + (2.0 if outcome.done else _REFUSED_PAUSE)
        self._say(body, followed, name, "Normal" if outcome.done else "Warning", reason, outcome.message)

    async def _ask(self, body: Object, application: SparkApplication, followed: _Followed, step: AskForBlock) -> None:
        settings, namespace = application.spec.settings(), body["metadata"]["namespace"]
        share = settings.to_core().blocklist.max_blocked_share
        if (refusal := self._requests.refusal(namespace, step.node, share)) is not None:
            said = f"{step.node} is not blocked: {refusal}; {step.cause}"
            self._say(body, followed, step.node, "Warning", "NodeBlockRefused", said, key=refusal)
            return
        is_new = await self._requests.ask(
            f"{namespace}/{body['metadata']['name']}",
            step.node,
            settings.speculation.block_slow_node_duration,
            step.cause,
            remove_when_done=settings.blocklist.remove_when_done,
        )
        if is_new:
            followed.told.pop(step.node, None)
            self._say(body, followed, step.node, "Warning", "SlowNode", f"{step.node} is to be blocked: {step.cause}")

    def _hosts(self, nodes: frozenset[str]) -> frozenset[str]:
        """The host names by which pods avoid nodes."""
        found = (self._nodes.get(Key("", name)) for name in nodes)
        return frozenset(labels_of(node)["kubernetes.io/hostname"] for node in found if node and _has_host(node))

    def _say(
        self, body: Object | None, followed: _Followed, about: str, type_: str, reason: str, message: str, key: str = ""
    ) -> None:
        """Once, until it changes."""
        if body is None or followed.told.get(about) == (key or message):
            return
        followed.told[about] = key or message
        self._events.record(body, Said(type_, reason, message))
        log.log(logging.WARNING if type_ == "Warning" else logging.INFO, "%s: %s", reason, message)


def _has_host(node: Object) -> bool:
    return "kubernetes.io/hostname" in labels_of(node)


def _name_of(step: Step) -> str:
    if isinstance(step, AskForBlock):
        return f"block {step.node}"
    if isinstance(step, Duplicate):
        return "duplicate"
    return f"drain {step.executor.pod}"
