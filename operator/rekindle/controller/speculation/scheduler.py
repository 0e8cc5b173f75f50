"""The speculative scheduler of the cluster (FLIP-168): follows the applications that run, and acts on slow nodes.

One look at an application: what is slow, which executors there are and which nodes are blocked, and from that the
steps of `plan`. All that counts is in the API: an operator that begins anew goes on where the last one was.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial

from rekindle.api.application_status import SpeculationStatus
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.plan import ActiveBlock
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.logs import looked_at
from rekindle.controller.reading import read_status
from rekindle.controller.resources import Key, key_of, uid_of
from rekindle.controller.speculation.acting import DUPLICATE, Acting
from rekindle.controller.speculation.followed import Followed, RunningDrivers, is_running, say
from rekindle.controller.speculation.plan import Duplicate, Situation, steps_for
from rekindle.controller.speculation.pod_metrics import PodMetrics
from rekindle.controller.speculation.spark_rest import DriverUnanswered, SparkRest
from rekindle.controller.speculation.ui import UiUnreachable, ui_of
from rekindle.controller.speculation.watch import DriverWatch, Seen, StreamingSeen
from rekindle.controller.store import ApplicationStore
from rekindle.controller.work_queue import WorkQueue, nth_pause
from rekindle.core.ids import NO_NODE
from rekindle.core.skew import Blame

log = logging.getLogger(__name__)

_UNANSWERED_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0)
_SILENT_SECONDS = 20.0
"""After so long that a driver does not answer is told: one that ends, or begins, does not either."""

_LOOK_SECONDS = 20.0
_STREAMING_SECONDS = 15.0
_CHANGE_PAUSE = 0.5
"""Seconds in which the changes of an application's pods become one look."""


class SpeculativeScheduler:
    """Looks at each running application with `speculation.enabled` as often as its driver could show something new."""

    def __init__(
        self,
        store: ApplicationStore,
        drivers: RunningDrivers,
        keeper: BlockKeeper,
        acting: Acting,
        events: EventRecorder,
        pod_metrics: PodMetrics,
        workers: int,
    ) -> None:
        self._pod_metrics = pod_metrics
        self._store, self._drivers, self._keeper, self._acting, self._events = store, drivers, keeper, acting, events
        self._queue: WorkQueue[Key] = WorkQueue(self._look, workers)
        self._listeners: list[Callable[[Key], None]] = []
        self._rest: SparkRest | None = None
        self.facts: dict[Key, SpeculationStatus] = {}
        """Of each application that is followed, as of its last look."""

        self.copies_itself: Callable[[Key], bool] = lambda key: False
        """Whether an application is a pipeline whose job master does so."""

        keeper.listen(self._blocks_changed)

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Tell `listener` of applications whose facts have changed."""
        self._listeners.append(listener)

    def look(self, key: Key) -> None:
        """Look at an application soon: its pods or its state have changed."""
        body = self._store.get(key)
        if key in self._drivers or (body is not None and is_running(body)):
            self._queue.add_after(key, _CHANGE_PAUSE)

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
        for key in self._drivers:
            self._queue.add(key)

    async def _look(self, key: Key) -> float | None:
        followed = self._drivers.attend(key)
        if followed is None or not followed.settings.speculation.enabled:
            self.facts.pop(key, None)
            return None
        looked_at.set((str(key), uid_of(followed.body)))
        seen = await self._see(followed)
        followed.memory.notice(followed.executors, DUPLICATE)
        for step in steps_for(self._situation(followed, seen)):
            await self._acting.take(followed, step)
            if isinstance(step, Duplicate) and self._has_ended(key, followed):
                await self._acting.undo(followed)
                return 0.0
        self._publish(key, followed, seen)
        if seen is not None:
            return seen.delay
        return nth_pause(_UNANSWERED_PAUSES, followed.memory.unanswered)

    def _has_ended(self, key: Key, followed: Followed) -> bool:
        """Whether the driver has, since the look began: what was made for it after that nobody would remove."""
        body = self._store.get(key)
        if body is None or not is_running(body):
            return True
        return read_status(body).driver_info.pod_uid != uid_of(followed.driver)

    async def _see(self, followed: Followed) -> Seen | None:
        """What is slow now; None where the driver does not tell."""
        memory = followed.memory
        watch = memory.watch = memory.watch or self._watch(followed)
        if watch is None:
            memory.unanswered += 1
            return None
        if memory.is_streaming:
            return _NOTHING
        try:
            seen = await self._within_bounds(watch, followed.nodes)
        except StreamingSeen as problem:
            memory.is_streaming = True
            message = f"nothing is done about slow tasks any more: {problem}, and such tasks may run for good"
            say(self._events, followed, "answer", Said("Warning", "StreamingQuerySeen", message))
            return _NOTHING
        except DriverUnanswered as problem:
            memory.unanswered += 1
            memory.silent_since = memory.silent_since or time.monotonic()
            if time.monotonic() - memory.silent_since >= _SILENT_SECONDS:
                said = Said("Warning", "DriverUnanswered", f"slow tasks cannot be seen: {problem.reason}")
                say(self._events, followed, "answer", said)
            log.debug("%s", problem.reason)
            return None
        memory.unanswered, memory.silent_since = 0, 0.0
        memory.told.pop("answer", None)
        if seen.slow:
            memory.quiet_since = time.monotonic()
        return seen

    async def _within_bounds(self, watch: DriverWatch, nodes: Mapping[str, str]) -> Seen:
        """A look takes some questions, one for each stage, and many stages with late answers would hold a worker."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS) as timeout:
                return await watch.look(nodes, time.time())
        except TimeoutError:
            if not timeout.expired():
                raise
            raise DriverUnanswered(f"the driver did not tell all within {_LOOK_SECONDS:g} s") from None

    def _watch(self, followed: Followed) -> DriverWatch | None:
        """None where its UI cannot be asked, or not yet."""
        if self._rest is None or not followed.host:
            return None
        try:
            address = ui_of(followed.driver, followed.application.spec.spark_conf)
        except UiUnreachable as problem:
            say(self._events, followed, "answer", Said("Warning", "DriverNotFollowed", str(problem)))
            return None
        spark_id = read_status(followed.body).spark_application_id
        executors = partial(self._drivers.executors, followed.body, followed.driver)
        uses = self._pod_metrics.of_driver(followed.driver, executors)
        return DriverWatch(self._rest, address, spark_id, followed.settings.to_core(), uses)

    def _situation(self, followed: Followed, seen: Seen | None) -> Situation:
        spec, settings = followed.application.spec, followed.settings
        instances = None if spec.allocates_dynamically else spec.executor_instances
        made_by_driver = sum(1 for one in followed.executors if not one.is_duplicate)
        asked_for = instances if instances is not None else made_by_driver
        return Situation(
            executors=followed.executors,
            slow=seen.slow if seen is not None else (),
            blocked={node: block.evacuate for node, block in self._keeper.active.items()},
            instances=instances,
            slots=spec.executor_slots,
            most_duplicates=math.ceil(settings.speculation.max_duplicate_share * asked_for),
            block_seconds=settings.speculation.block_slow_node_duration,
            quiet_seconds=time.monotonic() - followed.memory.quiet_since if seen is not None else 0.0,
            waiting_seconds=seen.waiting_seconds if seen is not None else 0.0,
            is_answered=seen is not None,
            is_dry_run=self._keeper.is_dry_run,
            evacuates=settings.speculation.on_slow_node == "MarkBlockedAndEvacuateTasks",
            now=time.time(),
            copies_itself=self.copies_itself(key_of(followed.body)),
        )

    def _publish(self, key: Key, followed: Followed, seen: Seen | None) -> None:
        facts = _facts(followed, seen, self._keeper.active)
        if self.facts.get(key) != facts:
            self.facts[key] = facts
            for listener in self._listeners:
                listener(key)


_NOTHING = Seen((), 0, _STREAMING_SECONDS)


def _facts(followed: Followed, seen: Seen | None, active: Mapping[str, ActiveBlock]) -> SpeculationStatus:
    """Of a driver that does not answer it is not known what is slow."""
    executors, memory = followed.executors, followed.memory
    slow = seen.slow if seen is not None else ()
    races = memory.races
    return SpeculationStatus(
        num_slow_execution_vertices=seen.num_slow_vertices if seen is not None else 0,
        slow_nodes=sorted({one.node for one in slow if one.blame is Blame.NODE and one.node not in NO_NODE}),
        draining_executors=sum(1 for one in executors if one.is_terminating and one.node in active),
        duplicate_executors=sum(1 for one in executors if one.is_duplicate and one.is_live),
        num_effective_speculative_executions=races.num_effective,
        wasted_task_seconds=round(races.wasted_seconds),
        problem=memory.told.get("answer", ""),
    )
