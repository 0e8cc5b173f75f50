"""The sources of a run that are read by splits: their coordinators, and what the journal must know of them.

That a subtask gets no more splits is told to no reader before the journal has what it got. So whatever a partition was
made of is known to all later drivers, and whoever makes it again reads the same.

Three kinds of threads meet here. Planning threads open sources, one at a time for each stage. The endpoint's thread
answers readers; with it, and under `_Source.lock`, a source's own enumerator runs, which nobody can keep from blocking.
The job master's thread takes what is for the journal, and waits for neither of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.api.settings import SPLITS_PORT
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.slow_readers import SourceTimes
from rekindle.core.source_coordinator import (
    AddSplit,
    AttemptNotRunning,
    Message,
    NoMoreSplits,
    OperatorEvent,
    ReaderRegistration,
    RequestSplit,
    SourceCoordinator,
    SourceCoordinatorError,
    SourceEvent,
)
from rekindle.core.split_progress import SplitCounts, SplitProgress
from rekindle.pipeline.distribution import Assigned
from rekindle.pipeline.sources import SourceSplit
from rekindle.pipeline.stage import Stage
from rekindle.runtime.by_value import by_value
from rekindle.runtime.errors import EnvironmentProblem, PipelineFailed, PipelineMisuse
from rekindle.runtime.failures import user_error
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.source_splits import OpenedSource, enumerator_of, opened_source
from rekindle.runtime.split_endpoint import Event, NotYet, Reader, Refused, Split, SplitEndpoint
from rekindle.runtime.split_reader import FINISHED, MOST_EVENT, SourceSpec, data_source
from rekindle.runtime.storable import parsed_schema
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Settled = Mapping[tuple[str, str], Mapping[int, Sequence[int]]]
"""[(stage, which of its sources) -> subtask -> numbers of the splits that it reads, in order]"""

_LEAST_PATIENCE = 120.0
_LOOK_SECONDS = 0.02
"""For which the job master waits for a source's lock; else it does with what it knew before, or without."""


@dataclass(frozen=True, slots=True)
class SettledSubtask:
    """What a subtask reads, for good."""

    stage: str
    source: str
    subtask: int
    splits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceOpened:
    """A driver has begun to hand out a source's splits: how many there are, and how many are settled already."""

    stage: str
    source: str
    subtasks: int
    splits: int
    settled: int


@dataclass(frozen=True, slots=True)
class SourceRead:
    """What became of a source's splits since this was told last, in numbers that add up over drivers.

    Attributes:
        reread: how often a split was read by another attempt than its first.
        returned: how many were given back, as their subtask began anew.
    """

    stage: str
    source: str
    reread: int
    returned: int


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a driver hands out splits.

    Attributes:
        host, port: of the driver; port 0 is any that is free.
        called: what executors call that host.
        patience: seconds for which a reader asks a driver that does not answer.
    """

    host: str
    port: int
    called: str
    patience: float = _LEAST_PATIENCE


def listening(conf: Mapping[str, str], store_timeout: float) -> Listening:
    """By Spark's settings; while the store is waited for, readers wait too. PipelineMisuse for a port that is none."""
    host, port = conf.get("spark.driver.host", "127.0.0.1"), conf.get(SPLITS_PORT, "0")
    if not port.isdecimal() or int(port) > 65535:
        raise PipelineMisuse(f"{SPLITS_PORT}={port} is no port", remedy="name one from 1 to 65535, or leave it out")
    bind = conf.get("spark.driver.bindAddress", host)
    return Listening(bind, int(port), host, max(_LEAST_PATIENCE, 2 * store_timeout))


@dataclass
class _Source:
    """A source in this driver.

    Attributes:
        name: of its class or function.
        durable: subtasks of which the journal has what they read.
        generations: [subtask -> the newest that has registered]
        begun: [subtask -> the one whose attempts read]
        numbers: [reader -> the attempt that it is]
        tasks: [attempt -> Spark's id of it]
        progress: what became of the splits.
        lock: of coordinator, generations, numbers, tasks and progress.
        counts: as they were when they were counted last; of the job master's thread.
        read: what was told of that.
    """

    stage: str
    name: str
    id: str
    opened: OpenedSource
    coordinator: SourceCoordinator[SourceSplit]
    durable: set[int]
    progress: SplitProgress
    counts: SplitCounts
    read: tuple[int, int] = (0, 0)
    generations: dict[int, int] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    tasks: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class SourceReads:
    """Of one run.

    Args:
        identities: [stage -> what its source is called in store and journal]: another after each edit of the stage.
        settled: what earlier drivers have settled.
        may_copy: whether a stage's subtasks may have several attempts at a time.
        wake: called when there is something for the journal.
    """

    def __init__(
        self,
        identities: Mapping[str, str],
        store: Store,
        layout: RunLayout,
        settled: Settled,
        listening: Listening,
        may_copy: Callable[[Stage], bool],
        wake: Callable[[], None],
    ) -> None:
        self._identities, self._store, self._layout, self._settled = identities, store, layout, settled
        self._listening, self._may_copy, self._wake = listening, may_copy, wake
        self._token = secrets.token_hex(16)
        self._generations, self._numbers = itertools.count(1), itertools.count()
        self._sources: dict[str, _Source] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._endpoint: SplitEndpoint | None = None
        self._closed = False
        self._own = threading.Lock()  # of all this and what follows; nobody else's code runs under it
        self._opened: list[SourceOpened] = []
        self._to_settle: list[SettledSubtask] = []
        self._failure: PipelineFailed | None = None

    # -- planning threads --------------------------------------------------------------------------------

    def frame(self, stage: Stage, session: SparkSession) -> DataFrame:
        """The rows of a source's stage, read by subtasks that ask for splits.

        Raises EnvironmentProblem where the driver cannot listen, what `opened_source` raises, and what the source
        itself raises.
        """
        spec, schema = self.spec(stage)
        made = by_value(data_source(spec))
        session.dataSource.register(made)
        return session.read.format(made.name()).schema(parsed_schema(schema)).load()

    def spec(self, stage: Stage) -> tuple[SourceSpec, str]:
        """How the subtasks of one plan read, and the schema of their rows as JSON: the source is made and asked for its
        splits, and readers are listened to, unless they are already. Raises as `frame`."""
        with self._own:
            opening = self._opening.setdefault(stage.name, threading.Lock())
        with opening:
            source = self._sources.get(stage.name) or self._open(stage)
        is_own = isinstance(stage.distribution, Assigned)  # then it is stored as it is read
        spec = SourceSpec(
            address=(self._listening.called, self._listen().port),
            token=self._token,
            stage=stage.name,
            subtasks=stage.partitions,
            generation=None if is_own else next(self._generations),
            reader=source.opened.reader,
            splits=len(source.opened.splits),
            patience=self._listening.patience,
            secrets=stage.source.secrets if stage.source else {},
        )
        return spec, source.opened.schema

    def _listen(self) -> SplitEndpoint:
        host, port = self._listening.host, self._listening.port
        with self._own:
            if self._closed:
                raise EnvironmentProblem("the run is over: no splits are handed out any more")
            try:
                self._endpoint = self._endpoint or SplitEndpoint(host, self._token, self, port)
            except OSError as error:
                raise EnvironmentProblem(
                    f"the driver cannot listen on {host}:{port} for readers of splits: {error}",
                    remedy=f"name another port ({SPLITS_PORT}), or an address of this machine "
                    "(spark.driver.bindAddress)",
                ) from error
            return self._endpoint

    def _open(self, stage: Stage) -> _Source:
        assert stage.source is not None
        read, which = stage.source, self._identities[stage.name]
        opened = opened_source(stage.name, read, self._store, self._layout.splits(stage.name, which))
        settled = self._settled.get((stage.name, which), {})
        taken = {number for numbers in settled.values() for number in numbers}
        coordinator: SourceCoordinator[SourceSplit] = SourceCoordinator(
            lambda context: enumerator_of(read, opened, context, taken),
            stage.partitions,
            concurrent_attempts=self._may_copy(stage),
            settled={subtask: [SourceSplit(number) for number in numbers] for subtask, numbers in settled.items()},
            admit=_Admission(len(opened.splits), taken),
        )
        progress = SplitProgress(len(opened.splits), taken)
        counts = progress.counts(coordinator)
        source = _Source(stage.name, read.name, which, opened, coordinator, set(settled), progress, counts)
        _check_complete(source)
        with self._own:
            self._sources[stage.name] = source
            self._opened.append(SourceOpened(stage.name, which, stage.partitions, len(opened.splits), len(taken)))
        self._wake()
        return source

    # -- the endpoint's thread ---------------------------------------------------------------------------

    def register(self, reader: Reader) -> None:
        source = self._sources.get(reader.stage)
        if source is None or not 0 <= reader.subtask < source.coordinator.parallelism:
            raise Refused(f"there is no subtask {reader.subtask} of {reader.stage}")
        with source.lock:
            newest = source.generations.get(reader.subtask, reader.generation)
            if reader.generation < newest:
                raise Refused("this attempt has been superseded")
            source.generations[reader.subtask] = reader.generation

    def next(self, reader: Reader, position: int) -> Split | Event | None:
        source, position = self._sources[reader.stage], max(0, position)
        with source.lock, self._telling(source):
            attempt = self._attempt(source, reader)
            source.progress.asks(attempt, position, time.monotonic())
            message = self._message(source, reader, attempt, position)
            if message is not None:
                split = message.split.number if isinstance(message, AddSplit) else None
                source.progress.told(attempt, position, split, time.monotonic())
        match message:
            case AddSplit(split):
                return Split(split.number, source.opened.splits[split.number])
            case SourceEvent(payload):
                return Event(payload)
            case NoMoreSplits() if self._is_settled(source, reader.subtask):
                return None
            case NoMoreSplits():
                raise NotYet(is_held=True)
            case _:
                raise NotYet(is_held=False)

    def say(self, reader: Reader, event: Any) -> None:
        source = self._sources[reader.stage]
        with source.lock, self._telling(source):
            self._handle(source, reader, self._attempt(source, reader), SourceEvent(event))

    def ended(self, reader: Reader, said: str) -> None:
        source = self._sources[reader.stage]
        with source.lock:
            attempt = source.numbers.pop(reader.id, None)
            if attempt is not None:
                source.coordinator.execution_attempt_failed(reader.subtask, attempt, said)
                source.progress.ended(attempt, reader.subtask if said == FINISHED else None)
                del source.tasks[attempt]
        if not source.coordinator.concurrent_attempts:
            self._tell_news()  # somebody may wait for its place

    def _attempt(self, source: _Source, reader: Reader) -> int:
        """The attempt that a reader is; it becomes one when it first asks for something. Where there may be only one at
        a time it waits for that until the other has ended, of an older generation too."""
        if reader.generation < source.generations[reader.subtask]:
            raise Refused("this attempt has been superseded")
        if (known := source.numbers.get(reader.id)) is not None:
            return known
        coordinator = source.coordinator
        if not coordinator.concurrent_attempts and self._is_taken(source, reader.subtask):
            raise NotYet(is_held=True)
        if source.begun.get(reader.subtask, reader.generation) != reader.generation:
            self._reset(source, reader.subtask)
        source.begun[reader.subtask] = reader.generation
        attempt = source.numbers[reader.id] = next(self._numbers)
        source.tasks[attempt] = reader.task
        coordinator.execution_attempt_ready(reader.subtask, attempt)
        self._handle(source, reader, attempt, ReaderRegistration(reader.host))
        return attempt

    def _reset(self, source: _Source, subtask: int) -> None:
        """It begins anew."""
        coordinator = source.coordinator
        goes_back = subtask not in coordinator.settled
        splits = coordinator.tracker.splits(subtask) if goes_back else ()
        with self._failing(source):
            coordinator.subtask_reset(subtask)
        source.progress.gave_back(split.number for split in splits)

    def _is_taken(self, source: _Source, subtask: int) -> bool:
        """Whether an attempt of a subtask reads, or may come back; who is gone for good gives its place up."""
        endpoint, ids = self._endpoint, {attempt: reader for reader, attempt in source.numbers.items()}
        for attempt in source.coordinator.attempts(subtask):
            if endpoint is None or not endpoint.is_gone(ids[attempt]):
                return True
            source.coordinator.execution_attempt_failed(subtask, attempt, "its connection was lost")
            source.progress.ended(attempt)
        return False

    def _message(self, source: _Source, reader: Reader, attempt: int, position: int) -> object:
        """What the reader is told at that place; None where that is not known yet."""
        told = self._inbox(source, reader, attempt)
        if position >= len(told):
            self._handle(source, reader, attempt, RequestSplit(reader.host))
        return told[position] if position < len(told) else None

    def _inbox(self, source: _Source, reader: Reader, attempt: int) -> Sequence[Message[SourceSplit]]:
        try:
            return source.coordinator.inbox(reader.subtask, attempt)
        except AttemptNotRunning:
            raise Refused("this attempt has been superseded, or was given up") from None

    def _handle(self, source: _Source, reader: Reader, attempt: int, event: OperatorEvent) -> None:
        self._inbox(source, reader, attempt)
        with self._failing(source):
            source.coordinator.handle_event_from_operator(reader.subtask, attempt, event)

    @contextlib.contextmanager
    def _telling(self, source: _Source) -> Iterator[None]:
        """Others that wait are looked at again where something was put into their inboxes."""
        before = source.coordinator.told
        try:
            yield
        finally:
            if source.coordinator.told != before:
                self._tell_news()

    def _tell_news(self) -> None:
        endpoint = self._endpoint
        if endpoint is not None:
            endpoint.news()

    @contextlib.contextmanager
    def _failing(self, source: _Source) -> Iterator[None]:
        """What an enumerator raises fails the job (`S4-11`), and the reader is refused."""
        try:
            yield
        except Exception as error:
            self._fail(user_error(source.stage, error, source.name))
            raise Refused(f"the enumerator of {source.stage} has failed") from error

    def _fail(self, failure: PipelineFailed) -> None:
        with self._own:
            self._failure = self._failure or failure
        self._wake()

    def _is_settled(self, source: _Source, subtask: int) -> bool:
        """Whether the journal has what a subtask reads, which gets no more; if not, it is to have it."""
        with self._own:
            if subtask in source.durable:
                return True
        with source.lock, self._failing(source):
            if subtask in source.coordinator.settled:
                return False
            source.coordinator.settle(subtask)
            _check_complete(source)
            numbers = tuple(split.number for split in source.coordinator.tracker.splits(subtask))
        with self._own:
            self._to_settle.append(SettledSubtask(source.stage, source.id, subtask, numbers))
        self._wake()
        return False

    # -- the job master's thread -------------------------------------------------------------------------

    def opened(self) -> Iterable[SourceOpened]:
        """The sources that were opened since the last call, for the journal."""
        with self._own:
            found, self._opened = self._opened, []
        return found

    def counts(self) -> dict[str, SplitCounts]:
        """[stage -> how far its source has been read]. Where an enumerator does not come back, as it was before."""
        return {source.stage: source.counts for source in self._looked_at(self._count)}

    def _count(self, source: _Source) -> None:
        source.counts = source.progress.counts(source.coordinator)

    def _looked_at(self, look: Callable[[_Source], None]) -> list[_Source]:
        """All sources, when `look` was called with each, under its lock; but not where its enumerator has that and does
        not come back."""
        with self._own:
            sources = list(self._sources.values())
        for source in sources:
            if source.lock.acquire(timeout=_LOOK_SECONDS):
                try:
                    look(source)
                finally:
                    source.lock.release()
        return sources

    def read(self) -> Iterable[SourceRead]:
        """What was read since the last call, for the journal; sources with nothing to tell are left out."""
        counted = self.counts()
        for stage, counts in counted.items():
            source = self._sources[stage]
            (reread, returned), source.read = source.read, (counts.reread, counts.returned)
            if source.read != (reread, returned):
                yield SourceRead(stage, source.id, counts.reread - reread, counts.returned - returned)

    def to_settle(self) -> Iterable[SettledSubtask]:
        """What is to be written to the journal, each once: `settled` is to be called when it is there.

        Raises PipelineFailed where an enumerator has failed.
        """
        with self._own:
            if self._failure is not None:
                raise self._failure
            found, self._to_settle = self._to_settle, []
        return found

    def times(self, attempt_of: Callable[[int], ExecutionAttemptID | None]) -> Mapping[str, SourceTimes]:
        """[stage -> what its readers take for a split]. `attempt_of`: a task of Spark's."""
        found = dict[str, SourceTimes]()

        def look(source: _Source) -> None:
            running = source.progress.running_times(time.monotonic())
            known = {attempt_of(source.tasks[number]): one for number, one in running.items() if number in source.tasks}
            attempts = {attempt: one for attempt, one in known.items() if attempt is not None}
            found[source.stage] = SourceTimes(source.progress.finished_times(), attempts)

        self._looked_at(look)
        return found

    def settled(self, subtasks: Iterable[SettledSubtask]) -> None:
        """The journal has these."""
        with self._own:
            for one in subtasks:
                self._sources[one.stage].durable.add(one.subtask)
        self._tell_news()

    def close(self) -> None:
        """Free the port; readers that are left hear nothing more."""
        with self._own:
            self._closed = True
            endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()


class _Admission:
    """What an enumerator may send: splits that it was given, and events that a reader can be told."""

    def __init__(self, count: int, settled: set[int]) -> None:
        self._count, self._settled = count, settled

    def __call__(self, message: Message[SourceSplit]) -> None:
        match message:
            case AddSplit(SourceSplit(number)) if 0 <= number < self._count and number not in self._settled:
                pass
            case AddSplit(other):
                raise SourceCoordinatorError(
                    f"the enumerator assigns {other!r:.200}, which is none of the splits that it was given"
                )
            case SourceEvent(payload):
                if len(json.dumps(payload)) > MOST_EVENT:
                    raise SourceCoordinatorError(f"an event of a source may have {MOST_EVENT} bytes as JSON")


def _check_complete(source: _Source) -> None:
    """Raises SourceCoordinatorError where all subtasks were told that there are no more splits, and the enumerator has
    left some out or given some to two."""
    tracker, subtasks = source.coordinator.tracker, range(source.coordinator.parallelism)
    if not all(map(tracker.is_complete, subtasks)):
        return
    times = Counter(split.number for one in subtasks for split in tracker.splits(one))
    count = len(source.opened.splits)
    left = [number for number in range(count) if number not in times]
    twice = sorted(number for number, of in times.items() if of > 1)
    if left or twice:
        raise SourceCoordinatorError(
            f"of {count} splits the enumerator has assigned {left[:20] or 'none'} to nobody and {twice[:20] or 'none'} "
            "more than once, and every subtask was told that there are no more"
        )
