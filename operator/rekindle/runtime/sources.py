"""The sources of a run that are read by splits: their coordinators, and what the journal must know of them.

Plans are made in threads of their own, readers are answered by the endpoint's, and the job master's own writes the
journal, so what is shared here is guarded by one lock.

That a subtask gets no more splits is told to no reader before the journal has what it got. So whatever a partition was
made of is known to all later drivers, and whoever makes it again reads the same.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.api.settings import SPLITS_PORT
from rekindle.core.source_coordinator import (
    AddSplit,
    AttemptNotRunning,
    NoMoreSplits,
    ReaderRegistration,
    RequestSplit,
    SourceCoordinator,
    SourceCoordinatorError,
    SourceEvent,
)
from rekindle.pipeline.distribution import Assigned
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.sources import SourceSplit
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import EnvironmentProblem, PipelineFailed, PipelineMisuse
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.source_splits import OpenedSource, enumerator_of, open_source, splits_of
from rekindle.runtime.split_endpoint import Event, NotYet, Reader, Refused, Split, SplitEndpoint
from rekindle.runtime.split_reader import SourceSpec, data_source
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Settled = Mapping[tuple[str, str], Mapping[int, Sequence[int]]]
"""[(stage, which of its sources) -> subtask -> numbers of the splits that it reads, in order]"""


def listens_on(conf: Mapping[str, str]) -> tuple[tuple[str, int], str]:
    """((host, port) of the driver for readers, what executors call that host), by Spark's settings; port 0 is any.

    Raises PipelineMisuse for a port that is none.
    """
    host, port = conf.get("spark.driver.host", "127.0.0.1"), conf.get(SPLITS_PORT, "0")
    if not port.isdecimal() or int(port) > 65535:
        raise PipelineMisuse(f"{SPLITS_PORT}={port} is no port", remedy="name one from 1 to 65535, or leave it out")
    return (conf.get("spark.driver.bindAddress", host), int(port)), host


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


@dataclass
class _Source:
    """A source in this driver. `generations`: [subtask -> the newest that has registered]."""

    stage: str
    id: str
    opened: OpenedSource
    splits: list[bytes]
    coordinator: SourceCoordinator[SourceSplit]
    durable: set[int]
    asked: set[int] = field(default_factory=set)
    generations: dict[int, int] = field(default_factory=dict)


class SourceReads:
    """Of one run.

    Args:
        fingerprints: [stage -> that of its code]: what was settled counts for the source as it was then.
        settled: what earlier drivers have settled.
        listens_on: (host, port) of the driver; port 0 is any that is free.
        called: what executors call that host.
        wake: called when there is something for the journal.
    """

    def __init__(
        self,
        fingerprints: Mapping[str, str],
        store: Store,
        layout: RunLayout,
        settled: Settled,
        listens_on: tuple[str, int],
        called: str,
        wake: Callable[[], None],
    ) -> None:
        self._fingerprints, self._store, self._layout, self._settled = fingerprints, store, layout, settled
        self._listens_on, self._called, self._wake = listens_on, called, wake
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._endpoint: SplitEndpoint | None = None
        self._token = secrets.token_hex(16)
        self._generations = itertools.count(1)
        self._opened: list[SourceOpened] = []
        self._to_settle: list[SettledSubtask] = []
        self._failure: PipelineFailed | None = None

    # -- planning threads --------------------------------------------------------------------------------

    def frame(self, stage: Stage, session: SparkSession) -> DataFrame:
        """The rows of a source's stage, read by subtasks that ask for splits.

        Raises PipelineMisuse and StoreRefused as of `source_splits`, and what the source itself raises.
        """
        from rekindle.runtime.planning import by_value

        spec, schema = self.spec(stage)
        made = by_value(data_source(spec))
        session.dataSource.register(made)
        return session.read.format(made.name()).schema(schema).load()

    def spec(self, stage: Stage) -> tuple[SourceSpec, StructType]:
        """How the subtasks of one plan read, and the schema of their rows: the source is made and asked for its splits,
        and readers are listened to, unless they are already. Raises as `frame`."""
        with self._opening:
            source = self._sources.get(stage.name) or self._open(stage)
            if self._endpoint is None:
                self._endpoint = self._listen()
        is_own = stage.exchange is ExchangeMode.BLOCKING and isinstance(stage.distribution, Assigned)
        spec = SourceSpec(
            address=(self._called, self._endpoint.port),
            token=self._token,
            stage=stage.name,
            subtasks=stage.partitions,
            generation=None if is_own else next(self._generations),
            reader=source.opened.pickled,
            splits=len(source.splits),
        )
        return spec, source.opened.schema

    def _listen(self) -> SplitEndpoint:
        host, port = self._listens_on
        try:
            return SplitEndpoint(host, self._token, self, port)
        except OSError as error:
            raise EnvironmentProblem(
                f"the driver cannot listen on {host}:{port} for readers of splits: {error}",
                remedy=f"name another port ({SPLITS_PORT}), or an address of this machine (spark.driver.bindAddress)",
            ) from error

    def _open(self, stage: Stage) -> _Source:
        assert stage.source is not None
        which = self._fingerprints[stage.name][:16]
        opened = open_source(stage.name, stage.source)
        splits = splits_of(opened, self._store, self._layout.splits(stage.name, which))
        settled = self._settled.get((stage.name, which), {})
        taken = {number for numbers in settled.values() for number in numbers}
        left = {number: split for number, split in enumerate(splits) if number not in taken}
        coordinator: SourceCoordinator[SourceSplit] = SourceCoordinator(
            lambda context: enumerator_of(opened, context, left), stage.partitions, concurrent_attempts=True
        )
        for subtask, numbers in settled.items():
            coordinator.restore(subtask, [SourceSplit(number) for number in numbers])
        source = _Source(stage.name, which, opened, splits, coordinator, set(settled))
        with self._lock:
            self._sources[stage.name] = source
            self._opened.append(SourceOpened(stage.name, which, stage.partitions, len(splits), len(taken)))
        self._wake()
        return source

    # -- the endpoint's thread ---------------------------------------------------------------------------

    def register(self, reader: Reader) -> None:
        with self._lock:
            source = self._sources.get(reader.stage)
            if source is None or not 0 <= reader.subtask < source.coordinator.parallelism:
                raise Refused(f"there is no subtask {reader.subtask} of {reader.stage}")
            newest = source.generations.get(reader.subtask, reader.generation)
            if reader.generation < newest:
                raise Refused("this attempt has been superseded")
            source.generations[reader.subtask] = reader.generation
            with self._failing(reader.stage):
                if reader.generation > newest:
                    source.coordinator.subtask_reset(reader.subtask)
                source.coordinator.execution_attempt_ready(reader.subtask, reader.attempt)
                registration = ReaderRegistration(reader.host)
                source.coordinator.handle_event_from_operator(reader.subtask, reader.attempt, registration)

    def next(self, reader: Reader, position: int) -> Split | Event | None:
        with self._lock:
            source = self._sources[reader.stage]
            match self._message(source, reader, position):
                case AddSplit(split):
                    return Split(split.number, source.splits[split.number])
                case SourceEvent(payload):
                    return Event(payload)
                case NoMoreSplits():
                    if reader.subtask in source.durable:
                        return None
                    self._settle(source, reader.subtask)
        self._wake()
        raise NotYet

    def _settle(self, source: _Source, subtask: int) -> None:
        """Have the journal take what a subtask reads, once."""
        if subtask in source.asked:
            return
        source.asked.add(subtask)
        tracker = source.coordinator.tracker
        source.coordinator.settle(subtask)
        numbers = tuple(split.number for split in tracker.splits(subtask))
        self._to_settle.append(SettledSubtask(source.stage, source.id, subtask, numbers))
        subtasks = range(source.coordinator.parallelism)
        if all(map(tracker.is_complete, subtasks)):
            read = sorted(split.number for one in subtasks for split in tracker.splits(one))
            with self._failing(source.stage):
                _check_each_once(read, len(source.splits))

    def say(self, reader: Reader, event: Any) -> None:
        with self._lock, self._failing(reader.stage):
            coordinator = self._sources[reader.stage].coordinator
            coordinator.handle_event_from_operator(reader.subtask, reader.attempt, SourceEvent(event))

    def _message(self, source: _Source, reader: Reader, position: int) -> object:
        """What the reader is told at that place; None where that is not known yet."""
        try:
            told = source.coordinator.inbox(reader.subtask, reader.attempt, max(0, position))
            if not told:
                with self._failing(reader.stage):
                    request = RequestSplit(reader.host)
                    source.coordinator.handle_event_from_operator(reader.subtask, reader.attempt, request)
                told = source.coordinator.inbox(reader.subtask, reader.attempt, max(0, position))
        except AttemptNotRunning:
            raise Refused("this attempt has been superseded") from None
        return told[0] if told else None

    def ended(self, reader: Reader, said: str) -> None:
        with self._lock:
            source = self._sources[reader.stage]
            source.coordinator.execution_attempt_failed(reader.subtask, reader.attempt, said)

    def _failing(self, stage: str) -> _FailsTheJob:
        return _FailsTheJob(self, stage)

    def fail(self, failure: PipelineFailed) -> None:
        """The run is to end with that."""
        self._failure = self._failure or failure
        self._wake()

    # -- the job master's thread -------------------------------------------------------------------------

    def opened(self) -> Iterable[SourceOpened]:
        """The sources that were opened since the last call, for the journal."""
        with self._lock:
            found, self._opened = self._opened, []
        return found

    def to_settle(self) -> Iterable[SettledSubtask]:
        """What is to be written to the journal, each once: `settled` is to be called when it is there.

        Raises PipelineFailed where an enumerator has failed.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            found, self._to_settle = self._to_settle, []
        return found

    def settled(self, subtasks: Iterable[SettledSubtask]) -> None:
        """The journal has these."""
        with self._lock:
            for one in subtasks:
                self._sources[one.stage].durable.add(one.subtask)
        if self._endpoint is not None:
            self._endpoint.news()

    def close(self) -> None:
        """Free the port; readers that are left hear nothing more."""
        with self._opening:
            if self._endpoint is not None:
                self._endpoint.close()
                self._endpoint = None


def _check_each_once(read: Sequence[int], count: int) -> None:
    """Raises SourceCoordinatorError where an enumerator has left splits out, or given some to two."""
    left = sorted(set(range(count)) - set(read))
    twice = sorted(number for number, times in Counter(read).items() if times > 1)
    if left or twice:
        raise SourceCoordinatorError(
            f"of {count} splits the enumerator has assigned {left or 'none'} to nobody and {twice or 'none'} more than "
            f"once, and every subtask was told that there are no more"
        )


class _FailsTheJob:
    """What an enumerator raises fails the job (`S4-11`); the reader is refused."""

    def __init__(self, reads: SourceReads, stage: str) -> None:
        self._reads, self._stage = reads, stage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, AttemptNotRunning):
            return
        from rekindle.runtime.planning import user_error

        self._reads.fail(user_error(self._stage, error))
        raise Refused(f"the enumerator of {self._stage} has failed") from error
