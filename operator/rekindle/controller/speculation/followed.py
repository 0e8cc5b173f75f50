"""An application that is followed: what there is of it at a look, and what is remembered from one look to the next."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rekindle.api.application_status import ApplicationState, ApplicationStatus, SpeculationStatus
from rekindle.api.settings import RekindleSettings
from rekindle.api.spark_application import SparkApplication
from rekindle.controller.clock import parse_time
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Union
from rekindle.controller.observer import pods_of_driver
from rekindle.controller.reading import SpecReader, read_status, state_of
from rekindle.controller.resources import Key, Object, uid_of
from rekindle.controller.speculation.executors import Executor, executors_of
from rekindle.controller.speculation.races import RaceCounts
from rekindle.controller.speculation.watch import DriverWatch
from rekindle.controller.store import ApplicationStore
from rekindle.controller.work_queue import nth_pause

log = logging.getLogger(__name__)

_KNOWN_AFTER = 2.0
"""Seconds in which what was done is not done again: the copy of the pods may not know it yet."""

_MISSED_AFTER, _PROVED_AFTER = 10.0, 60.0
"""Seconds after which a duplicate that cannot be seen is gone, and one that runs can be made again."""

_REFUSED_PAUSES = (30.0, 60.0, 120.0, 300.0)
"""Seconds after which what was refused is tried again: a quota, an admission, a place."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What an object says, which is never changed in place: a new one comes for each of its versions."""

    body: Object
    application: SparkApplication
    settings: RekindleSettings
    status: ApplicationStatus


@dataclass
class Memory:
    """Of one driver. It spares questions and words, and nothing depends on it.

    Attributes:
        told: [what it is about -> what was last said of it]
        not_before: [step -> monotonic time before which it is not taken again]
        refusals: [step -> how often in a row it was refused, or came to nothing]
        made: [id of a duplicate that was made -> monotonic time]
        unanswered: how often in a row the driver gave no answer.
        silent_since: since when, monotonic; 0: it answers.
        races_before: what had come of copies before it was followed.
        is_streaming: it runs a streaming query.
        read: what the object of its application said when it was last read.
    """

    pod_uid: str
    races_before: RaceCounts = RaceCounts()  # noqa: RUF009 (it is frozen)
    quiet_since: float = field(default_factory=time.monotonic)
    watch: DriverWatch | None = None
    unanswered: int = 0
    silent_since: float = 0.0
    is_streaming: bool = False
    told: dict[str, str] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    made: dict[int, float] = field(default_factory=dict)
    read: _Read | None = None

    @property
    def races(self) -> RaceCounts:
        """What has come of copies, of all drivers of the application."""
        return self.races_before + (self.watch.counts if self.watch is not None else RaceCounts())

    def may_take(self, step: str) -> bool:
        """Whether the step was neither just taken nor just refused."""
        return self.not_before.get(step, 0.0) <= time.monotonic()

    def took(self, step: str, *, done: bool) -> None:
        """The step was taken, or refused."""
        pause = _KNOWN_AFTER
        if not done:
            refused = self.refusals[step] = self.refusals.get(step, 0) + 1
            pause = nth_pause(_REFUSED_PAUSES, refused)
        self.not_before[step] = time.monotonic() + pause

    def notice(self, executors: Sequence[Executor], step: str) -> None:
        """A duplicate that is gone before it ran, or fails when it runs, is not made again at once: `step` came to
        nothing. One that runs on has proved that it can be made."""
        there = {one.id: one for one in executors}
        now = time.monotonic()
        for number, made_at in list(self.made.items()):
            if number in there and there[number].is_running and now - made_at >= _PROVED_AFTER:
                del self.made[number]
                self.refusals.pop(step, None)
            elif number not in there and now - made_at >= _MISSED_AFTER:
                del self.made[number]
                self.took(step, done=False)


def races_before(status: SpeculationStatus) -> RaceCounts:
    """What a status says of them: of drivers before, or from before the operator began anew."""
    return RaceCounts(status.num_effective_speculative_executions, status.wasted_task_seconds)


@dataclass(frozen=True, slots=True)
class Followed:
    """An application as one look finds it."""

    body: Object
    application: SparkApplication
    settings: RekindleSettings
    driver: Object
    executors: Sequence[Executor]
    memory: Memory

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Namespace and name, as NodeBlocks have it."""
        return f"{self.namespace}/{self.body['metadata']['name']}"

    @property
    def nodes(self) -> dict[str, str]:
        """[executor -> node], of those that have one."""
        return {str(one.id): one.node for one in self.executors if one.node}

    @property
    def host(self) -> str:
        """The address of its driver's pod; empty while it has none."""
        return str((self.driver.get("status") or {}).get("podIP") or "")

    @property
    def driver_age(self) -> float:
        """Seconds since its driver's pod was made."""
        return time.time() - parse_time(self.driver["metadata"]["creationTimestamp"])


class RunningDrivers:
    """Applications that run a batch, as they are now, each with what is remembered of its driver."""

    def __init__(self, store: ApplicationStore, pods: Union) -> None:
        self._store, self._pods, self._specs = store, pods, SpecReader()
        self._memories: dict[Key, Memory] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether anything is remembered of its driver."""
        return key in self._memories

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._memories))

    def attend(self, key: Key) -> Followed | None:
        """The application as it is now; None where its driver is not, or no longer, to be asked for anything."""
        body = self._store.get(key)
        read = self._read(key, body) if body is not None else None
        driver = self._pods.get(Key(key.namespace, read.status.driver_info.pod_name)) if read is not None else None
        if read is None or driver is None or uid_of(driver) != read.status.driver_info.pod_uid:
            self._memories.pop(key, None)
            return None
        memory = self._memories.get(key)
        if memory is None or memory.pod_uid != uid_of(driver):
            memory = self._memories[key] = Memory(uid_of(driver), races_before(read.status.speculation))
        memory.read = read
        executors = self.executors(read.body, driver)
        return Followed(read.body, read.application, read.settings, driver, executors, memory)

    def executors(self, body: Object, driver: Object) -> list[Executor]:
        """Those that there are now."""
        namespace = str(body["metadata"]["namespace"])
        return executors_of(pods_of_driver(self._pods, namespace, uid_of(body), uid_of(driver)))

    def _read(self, key: Key, body: Object) -> _Read | None:
        """None where it does not run, or is not to be followed."""
        memory = self._memories.get(key)
        if memory is not None and memory.read is not None and memory.read.body is body:
            return memory.read
        if "deletionTimestamp" in body["metadata"] or not is_running(body):
            return None
        read = self._specs.read(body)
        if read.application is None or read.settings is None or read.application.spec.workload != "Batch":
            return None
        if not read.settings.asks_driver:
            return None
        return _Read(body, read.application, read.settings, read_status(body))


def is_running(body: Object) -> bool:
    return state_of(body) == ApplicationState.RUNNING.value


def say(events: EventRecorder, followed: Followed, about: str, said: Said, *, once: str = "") -> None:
    """Once, until the message about the same thing is another, or `once` is."""
    key = once or said.message
    if followed.memory.told.get(about) == key:
        return
    followed.memory.told[about] = key
    events.record(followed.body, said)
    level = logging.WARNING if said.type == "Warning" else logging.INFO
    log.log(level, "%s: %s", said.reason, said.message)
