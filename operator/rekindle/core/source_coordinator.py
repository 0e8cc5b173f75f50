"""The coordinator of a source: an enumerator hands out splits, any number of attempts of each subtask read them.

Flink's SourceCoordinator as FLIP-245 makes it aware of attempts. What it has for an attempt lies in that attempt's
inbox, in order; a reader takes messages from there by their position, so that to ask twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from rekindle.core.splits import InputSplitAssigner, SplitAssignmentTracker

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class SourceCoordinatorError(Exception):
    """A source that asks for what cannot be; it fails the job (`S4-11`)."""


class AttemptNotRunning(SourceCoordinatorError):
    """Something was sent to an attempt that does not run (`S4-14`)."""


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """A registered reader: of which subtask, and on which host."""

    subtask: int
    host: str


# -- what readers say ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReaderRegistration:
    """A reader is there (Flink's ReaderRegistrationEvent)."""

    host: str


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """A reader has read all it was given (Flink's RequestSplitEvent)."""

    host: str


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event of a source's own protocol, in either direction."""

    payload: Any


@dataclass(frozen=True, slots=True)
class ReportedWatermark:
    """For the alignment of watermarks, which only streams have."""

    watermark: int


OperatorEvent = ReaderRegistration | RequestSplit | SourceEvent | ReportedWatermark


# -- what they are told ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddSplit(Generic[S]):
    """A split to read."""

    split: S


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """The splits before this message are all that the subtask reads."""


Message = AddSplit[S] | NoMoreSplits | SourceEvent


class SplitEnumerator(Protocol[S_contra]):
    """Decides which subtask reads which split. An exception of any of these methods fails the job (`S4-11`)."""

    def handle_split_request(self, subtask: int, host: str) -> None:
        """A reader of the subtask has read all it was given: assign more by the context, or say that there is none."""
        ...

    def add_splits_back(self, splits: Sequence[S_contra], subtask: int) -> None:
        """Splits of a subtask all of whose attempts are gone, to be assigned again."""
        ...

    def add_reader(self, subtask: int) -> None:
        """The first reader of a subtask is there, since it began (anew)."""
        ...


@runtime_checkable
class HandlesSourceEvents(Protocol):
    """An enumerator with events of its own, for subtasks that have one attempt."""

    def handle_source_event(self, subtask: int, event: Any) -> None: ...


@runtime_checkable
class SupportsHandleExecutionAttemptSourceEvent(Protocol):
    """An enumerator with events of its own that tells attempts apart (`S4-23`)."""

    def handle_attempt_source_event(self, subtask: int, attempt: int, event: Any) -> None: ...


class AssigningEnumerator(Generic[S]):
    """The enumerator of a source that is fed by an assigner: a split for each request while there are some (`S4-7`)."""

    def __init__(self, context: SplitEnumeratorContext[S], assigner: InputSplitAssigner[S]) -> None:
        self._context, self._assigner = context, assigner

    def handle_split_request(self, subtask: int, host: str) -> None:
        split = self._assigner.next_input_split(subtask, host)
        if split is None:
            self._context.signal_no_more_splits(subtask)
        else:
            self._context.assign_splits({subtask: [split]})

    def add_splits_back(self, splits: Sequence[S], subtask: int) -> None:
        self._assigner.return_input_splits(splits, subtask)

    def add_reader(self, subtask: int) -> None:
        """Nothing is assigned that was not asked for."""


@dataclass(slots=True)
class _Attempt(Generic[S]):
    """An attempt that runs. `inbox`: what it is told, and was; `asked`: a request of it has not been answered."""

    reader: ReaderInfo | None = None
    inbox: list[Message[S]] = field(default_factory=list)
    asked: bool = False


class SourceCoordinator(Generic[S]):
    """Of one source.

    Args:
        enumerator: makes it, with its context.
        parallelism: subtasks of the source.
        concurrent_attempts: whether a subtask may have more than one attempt at a time (`S4-32`, `S4-33`).
        settled: [subtask -> what it reads], as it was settled before; the enumerator must not have these splits.
        admit: raises for a message of the enumerator's that cannot be sent.

    Attributes:
        told: how many messages there were for attempts.
    """

    def __init__(
        self,
        enumerator: Callable[[SplitEnumeratorContext[S]], SplitEnumerator[S]],
        parallelism: int,
        *,
        concurrent_attempts: bool,
        settled: Mapping[int, Sequence[S]] = MappingProxyType({}),
        admit: Callable[[Message[S]], None] = lambda message: None,
    ) -> None:
        self.parallelism, self.concurrent_attempts, self.told = parallelism, concurrent_attempts, 0
        self.tracker: SplitAssignmentTracker[S] = SplitAssignmentTracker()
        self._admit = admit
        self._attempts: dict[int, dict[int, _Attempt[S]]] = {}  # [subtask -> attempt -> it]
        self._greeted: set[int] = set()
        self._settled = set(settled)
        for subtask, splits in settled.items():
            self._check(subtask)
            self.tracker.record(subtask, splits)
            self.tracker.complete(subtask)
        self._enumerator = enumerator(SplitEnumeratorContext(self))

    # -- what the scheduler says -------------------------------------------------------------------------

    def execution_attempt_ready(self, subtask: int, attempt: int) -> None:
        """An attempt can be sent messages from now on (`S4-13`, `S4-28`). Raises SourceCoordinatorError for one beside
        another where there may be only one."""
        self._check(subtask)
        attempts = self._attempts.setdefault(subtask, {})
        if attempts and not self.concurrent_attempts and attempt not in attempts:
            raise SourceCoordinatorError(f"subtask {subtask} has an attempt already, and may have only one at a time")
        attempts.setdefault(attempt, _Attempt())

    def execution_attempt_failed(self, subtask: int, attempt: int, reason: str | None = None) -> None:
        """An attempt has failed or was cancelled (`S4-12`). Its siblings and what the subtask reads stay (`S4-30`)."""
        self._attempts.get(subtask, {}).pop(attempt, None)

    def subtask_reset(self, subtask: int) -> None:
        """All attempts of a subtask are gone, and it begins anew (`S4-15`, `S4-31`). Its splits go back to the
        enumerator, unless they are settled."""
        self._attempts.pop(subtask, None)
        self._greeted.discard(subtask)
        if subtask not in self._settled:
            splits = self.tracker.take_back(subtask)
            if splits:
                self._enumerator.add_splits_back(splits, subtask)

    def settle(self, subtask: int) -> None:
        """A subtask that gets no more splits keeps those that it has, whatever becomes of its attempts: one of them has
        finished or is about to, and where its result is made again it must be made of the same."""
        if not self.tracker.is_complete(subtask):
            raise SourceCoordinatorError(f"subtask {subtask} may get more splits, and nothing is settled before")
        self._settled.add(subtask)

    @property
    def settled(self) -> frozenset[int]:
        """Subtasks that read what they have, for good."""
        return frozenset(self._settled)

    def attempts(self, subtask: int) -> tuple[int, ...]:
        """The attempts of a subtask that run, as far as anybody has told."""
        return tuple(self._attempts.get(subtask, ()))

    # -- what readers say --------------------------------------------------------------------------------

    def handle_event_from_operator(self, subtask: int, attempt: int, event: OperatorEvent) -> None:
        """An event of an attempt (`S4-10`). AttemptNotRunning where it does not run. Whatever else this raises fails
        the job (`S4-11`)."""
        found = self._running(subtask, attempt)
        match event:
            case ReaderRegistration(host):
                self._register(subtask, found, host)
            case RequestSplit(host):
                if not found.asked and not self.tracker.is_complete(subtask):
                    found.asked = True
                    self._enumerator.handle_split_request(subtask, host)
            case SourceEvent(payload):
                self._handle_source_event(subtask, attempt, payload)
            case ReportedWatermark():
                self._refuse_watermark()

    def inbox(self, subtask: int, attempt: int) -> Sequence[Message[S]]:
        """What an attempt was told, in order; AttemptNotRunning where it does not run."""
        return self._running(subtask, attempt).inbox

    def _register(self, subtask: int, attempt: _Attempt[S], host: str) -> None:
        """A reader that comes back after it was cut off has its inbox already. Of subtasks that get no more splits the
        enumerator is told nothing: there is nothing to decide."""
        if attempt.reader is not None:
            return
        attempt.reader = ReaderInfo(subtask, host)
        attempt.inbox += map(AddSplit, self.tracker.splits(subtask))
        if self.tracker.is_complete(subtask):
            attempt.inbox.append(NoMoreSplits())
        elif subtask not in self._greeted:
            self._greeted.add(subtask)
            self._enumerator.add_reader(subtask)

    def _handle_source_event(self, subtask: int, attempt: int, payload: Any) -> None:
        enumerator: object = self._enumerator
        if not self.concurrent_attempts and isinstance(enumerator, HandlesSourceEvents):
            enumerator.handle_source_event(subtask, payload)
        elif isinstance(enumerator, SupportsHandleExecutionAttemptSourceEvent):
            enumerator.handle_attempt_source_event(subtask, attempt, payload)
        else:
            needed = "handle_attempt_source_event" if self.concurrent_attempts else "handle_source_event"
            raise SourceCoordinatorError(
                f"a reader sent an event, and {type(enumerator).__name__} has no method {needed}"
            )

    def _refuse_watermark(self) -> None:
        if self.concurrent_attempts:
            raise SourceCoordinatorError("a reader reports a watermark, and only bounded sources have several attempts")

    # -- what the enumerator says ------------------------------------------------------------------------

    def assign_splits(self, assignment: Mapping[int, Sequence[S]]) -> None:
        """To all registered readers of these subtasks, and to those that register later (`S4-17`, `S4-18`)."""
        for subtask, splits in assignment.items():
            self._check(subtask)
            messages = [AddSplit(split) for split in splits]
            for message in messages:
                self._admit(message)
            if splits and self.tracker.is_complete(subtask):
                raise SourceCoordinatorError(
                    f"subtask {subtask} gets no more splits and is assigned some: assign to those that are not among "
                    "context.settled_subtasks(), and before signal_no_more_splits"
                )
            self.tracker.record(subtask, splits)
            self._tell(subtask, messages)

    def signal_no_more_splits(self, subtask: int) -> None:
        """The subtask reads what it has been assigned, and that is all."""
        self._check(subtask)
        if not self.tracker.is_complete(subtask):
            self.tracker.complete(subtask)
            self._tell(subtask, [NoMoreSplits()])

    def send_event_to_source_reader(self, subtask: int, event: Any, attempt: int | None) -> None:
        """As of the context."""
        if attempt is None:
            if self.concurrent_attempts:
                raise SourceCoordinatorError(
                    f"subtask {subtask} may have several attempts: say to which of them the event goes"
                )
            attempt = min(self._attempts.get(subtask, {}), default=0)
        self._admit(SourceEvent(event))
        self._running(subtask, attempt).inbox.append(SourceEvent(event))
        self.told += 1

    def registered_readers_of_attempts(self) -> Mapping[int, Mapping[int, ReaderInfo]]:
        """As of the context."""
        found = {
            subtask: {number: one.reader for number, one in sorted(attempts.items()) if one.reader is not None}
            for subtask, attempts in sorted(self._attempts.items())
        }
        return {subtask: attempts for subtask, attempts in found.items() if attempts}

    def _tell(self, subtask: int, messages: Sequence[Message[S]]) -> None:
        for attempt in self._attempts.get(subtask, {}).values():
            if attempt.reader is not None:
                attempt.asked = False
                attempt.inbox += messages
                self.told += len(messages)

    def _running(self, subtask: int, attempt: int) -> _Attempt[S]:
        found = self._attempts.get(subtask, {}).get(attempt)
        if found is None:
            raise AttemptNotRunning(f"attempt {attempt} of subtask {subtask} does not run")
        return found

    def _check(self, subtask: int) -> None:
        if not 0 <= subtask < self.parallelism:
            raise SourceCoordinatorError(f"there is no subtask {subtask}: the source has {self.parallelism}")


class SplitEnumeratorContext(Generic[S]):
    """What an enumerator may do (Flink's SplitEnumeratorContext; `S4-24` to `S4-27`)."""

    def __init__(self, coordinator: SourceCoordinator[S]) -> None:
        self._coordinator = coordinator

    @property
    def current_parallelism(self) -> int:
        """Subtasks of the source."""
        return self._coordinator.parallelism

    def settled_subtasks(self) -> frozenset[int]:
        """Subtasks that read what they have, for good: under a driver that takes over, those of drivers before."""
        return self._coordinator.settled

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """[subtask -> its reader; of several attempts the earliest that runs] (`S4-26`)"""
        readers = self._coordinator.registered_readers_of_attempts()
        return {subtask: attempts[min(attempts)] for subtask, attempts in readers.items()}

    def registered_readers_of_attempts(self) -> Mapping[int, Mapping[int, ReaderInfo]]:
        """[subtask -> attempt -> its reader] (`S4-25`)"""
        return self._coordinator.registered_readers_of_attempts()

    def assign_splits(self, assignment: Mapping[int, Sequence[S]]) -> None:
        """[subtask -> splits that it reads after those that it has]"""
        self._coordinator.assign_splits(assignment)

    def signal_no_more_splits(self, subtask: int) -> None:
        """The subtask gets no more splits."""
        self._coordinator.signal_no_more_splits(subtask)

    def send_event_to_source_reader(self, subtask: int, event: Any, *, attempt: int | None = None) -> None:
        """Send an event of the source's own to a reader.

        Raises:
            AttemptNotRunning: that attempt does not run (any more).
            SourceCoordinatorError: no attempt is named, and there may be several (`S4-24`).
        """
        self._coordinator.send_event_to_source_reader(subtask, event, attempt)
