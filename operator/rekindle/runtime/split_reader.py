"""What runs inside an executor: a subtask of a source asks the driver for splits and reads them, one at a time.

This module is sent to the executors by value, as `task` is, so it imports nothing else of the project but that. To
Spark it is a Python DataSource whose partitions are the subtasks; the user's own reader reads what each is given.

The conversation, over TCP: each side says one JSON object in a line, and the driver sends a split's bytes behind its
line. A reader says who it is and what it has been told so far, so it can ask again, on another connection too.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader, InputPartition

from rekindle.runtime.task import VERSIONS_PROPERTY, version_of

_ANSWER_SECONDS = 30.0
FINISHED = "finished"
"""What a reader says that has read all its splits."""

MOST_LINE = 1 << 16
MOST_EVENT = 60_000
"""Bytes of an event of a source's own, as JSON."""


@dataclass(frozen=True)
class SourceSpec:
    """How a subtask of a source reads.

    Attributes:
        address: (host, port) of the driver's endpoint.
        token: that opens it.
        stage: whose source it is.
        subtasks: how many there are.
        generation: of the subtasks; None where it is the version of the result partition that the task writes.
        reader: the user's reader, pickled.
        splits: how many there are, for messages.
        patience: seconds for which a driver that does not answer is asked again.
        secrets: options that the reader is given before it reads, as they are not stored with it.
    """

    address: tuple[str, int]
    token: str = field(repr=False)
    stage: str
    subtasks: int
    generation: int | None
    reader: bytes
    splits: int
    patience: float
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


class SplitsRefused(Exception):
    """The driver gives this attempt no splits: it has been superseded, or the run is over."""


def data_source(spec: SourceSpec) -> type[DataSource]:
    """A class for `spark.dataSource.register`. It has a name of its own for each stage."""

    class SplitDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"rekindle-{spec.stage}"

        def reader(self, schema: Any) -> DataSourceReader:
            return _SubtaskReader(spec)

    return SplitDataSource


class SourceReaderContext:
    """What a reader with a method `start_source_reader(context)` is given before it reads anything."""

    def __init__(self, client: SplitClient) -> None:
        self._client = client

    def send_source_event(self, event: Any) -> None:
        """Send an event to the source's enumerator: a value in JSON types, of 60,000 bytes at most."""
        if len(json.dumps(event)) > MOST_EVENT:
            raise ValueError(f"an event of a source may have {MOST_EVENT} bytes")
        self._client.send(event)


class _SubtaskReader(DataSourceReader):
    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(subtask) for subtask in range(self._spec.subtasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark import TaskContext, cloudpickle

        context = TaskContext.get()
        assert context is not None
        subtask, generation = int(partition.value), self._spec.generation
        if generation is None:
            generation = version_of(context.getLocalProperty(VERSIONS_PROPERTY), subtask)
        reader: Any = cloudpickle.loads(self._spec.reader)
        if self._spec.secrets:
            reader = reader.with_secrets(CaseInsensitiveDict(self._spec.secrets))
        client = SplitClient(self._spec, subtask, generation, context.taskAttemptId())
        said = FINISHED
        try:
            if callable(getattr(reader, "start_source_reader", None)):
                reader.start_source_reader(SourceReaderContext(client))
            for number, split in client.splits(getattr(reader, "handle_source_event", None)):
                yield from _rows(reader, number, self._spec.splits, split)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
            raise
        finally:
            client.close(said)


def _rows(reader: Any, number: int, count: int, split: bytes) -> Iterator[Any]:
    """The rows of one split; an error of the reader tells of which."""
    from pyspark import cloudpickle

    partition: Any = None
    try:
        partition = cloudpickle.loads(split)
        yield from reader.read(partition)
    except Exception as error:
        error.add_note(f"while it read split {number} of {count}: {partition!r:.200}")
        raise


class SplitClient:
    """Asks for the splits of one attempt of a subtask. `task`: Spark's id of it."""

    def __init__(self, spec: SourceSpec, subtask: int, generation: int, task: int) -> None:
        self._address, self._patience = spec.address, spec.patience
        self._hello = {
            "token": spec.token,
            "id": uuid.uuid4().hex,
            "stage": spec.stage,
            "subtask": subtask,
            "generation": generation,
            "task": task,
            "host": socket.gethostname(),
        }
        self._events = 0
        self._connection: socket.socket | None = None
        self._stream: Any = None

    def splits(self, handle_event: Callable[[Any], None] | None = None) -> Iterator[tuple[int, bytes]]:
        """(number, the split pickled), in order, until there are no more.

        Args:
            handle_event: gets the events that the enumerator sends, each in its place among the splits.

        Raises:
            SplitsRefused: the driver has none for this attempt.
            ConnectionError: the driver has not answered for as long as one has patience.
        """
        position, silent_since = 0, time.monotonic()
        while True:
            answer, split = self._ask({"next": position}, silent_since)
            if "split" in answer:
                yield int(answer["split"]), split
                position += 1
            elif "event" in answer:
                if handle_event is None:
                    raise TypeError("the enumerator sends an event, and the reader has no method handle_source_event")
                handle_event(answer["event"])
                position += 1
            elif "noMore" in answer:
                return
            elif not answer.get("held") and time.monotonic() > silent_since + self._patience:
                raise ConnectionError(f"the source's enumerator has had no split to give for {self._patience:g} s")
            if "wait" not in answer or answer.get("held"):
                silent_since = time.monotonic()

    def send(self, event: Any) -> None:
        """Send an event to the enumerator, in JSON types. Raises ConnectionError as `splits`."""
        silent_since = time.monotonic()
        while "wait" in (answer := self._ask({"event": event, "number": self._events}, silent_since)[0]):
            if answer.get("held"):
                silent_since = time.monotonic()
            elif time.monotonic() > silent_since + self._patience:
                raise ConnectionError(f"the source's enumerator has taken no event for {self._patience:g} s")
        self._events += 1

    def close(self, said: str) -> None:
        """Say how it ended, if anybody hears."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._say({"bye": said[:1000]})
        self._hang_up()

    def _ask(self, what: dict[str, Any], silent_since: float) -> tuple[dict[str, Any], bytes]:
        """Ask until there is an answer: to ask twice changes nothing."""
        pause = 0.1
        while True:
            try:
                if self._stream is None:
                    self._connect()
                self._say(what)
                return self._hear()
            except (OSError, ValueError, EOFError) as error:
                self._hang_up()
                if time.monotonic() > silent_since + self._patience:
                    host, port = self._address
                    raise ConnectionError(f"the driver does not answer on {host}:{port}: {error}") from error
            time.sleep(pause)
            pause = min(5.0, 2 * pause)

    def _connect(self) -> None:
        self._connection = socket.create_connection(self._address, _ANSWER_SECONDS)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._connection.makefile("rwb")
        self._say(self._hello)
        self._hear()

    def _say(self, what: dict[str, Any]) -> None:
        self._stream.write(json.dumps(what).encode() + b"\n")
        self._stream.flush()

    def _hear(self) -> tuple[dict[str, Any], bytes]:
        line = self._stream.readline(MOST_LINE)
        if not line.endswith(b"\n"):
            raise EOFError("the connection has ended")
        answer = dict(json.loads(line))
        if "refused" in answer:
            raise SplitsRefused(str(answer["refused"]))
        size = int(answer.get("bytes", 0))
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("the connection has ended within a split")
        return answer, data

    def _hang_up(self) -> None:
        for one in filter(None, (self._stream, self._connection)):
            with contextlib.suppress(OSError):
                one.close()
        self._stream = self._connection = None
