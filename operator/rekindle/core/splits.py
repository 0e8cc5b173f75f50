"""Which splits of a source each subtask reads: assigned once, the same for all of its attempts (`S4-4`).

A subtask's splits are remembered in the order of their assignment, so that a copy or a task that is tried again reads
what the first attempt has read, and only then something new. Splits are whatever an enumerator hands out; they are
never looked into.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")
H = TypeVar("H", bound=Hashable)

_NOWHERE = ""


class SplitAssignmentTracker(Generic[S]):
    """What has been assigned to each subtask, and whether that is all it gets (`S4-16`)."""

    def __init__(self) -> None:
        self._assigned: dict[int, list[S]] = {}
        self._complete: set[int] = set()

    def splits(self, subtask: int) -> tuple[S, ...]:
        """The splits of a subtask, in the order of their assignment."""
        return tuple(self._assigned.get(subtask, ()))

    def count(self, subtask: int) -> int:
        """How many splits a subtask has."""
        return len(self._assigned.get(subtask, ()))

    def is_complete(self, subtask: int) -> bool:
        """Whether it has been said that the subtask gets no more."""
        return subtask in self._complete

    def record(self, subtask: int, splits: Sequence[S]) -> None:
        """Raises ValueError where the subtask was to get no more."""
        if splits and subtask in self._complete:
            raise ValueError(f"subtask {subtask} was told that there are no more splits, and is assigned some")
        self._assigned.setdefault(subtask, []).extend(splits)

    def complete(self, subtask: int) -> None:
        """The subtask gets no more."""
        self._complete.add(subtask)

    def take_back(self, subtask: int) -> tuple[S, ...]:
        """Forget what a subtask was assigned; what that was."""
        self._complete.discard(subtask)
        return tuple(self._assigned.pop(subtask, ()))


class InputSplitAssigner(Protocol[S]):
    """Hands out splits one at a time (FLIP-27's predecessor, Flink's InputSplitAssigner; `S4-5`)."""

    def next_input_split(self, subtask: int, host: str) -> S | None:
        """A split that nobody has, near `host` if there is one; None when there are no more."""
        ...

    def return_input_splits(self, splits: Sequence[S], subtask: int) -> None:
        """Take splits back that nobody reads now."""
        ...


class InOrder(Generic[S]):
    """An assigner that hands out splits in their order, those that came back first."""

    def __init__(self, splits: Iterable[S]) -> None:
        self._left = deque(splits)

    def next_input_split(self, subtask: int, host: str) -> S | None:
        return self._left.popleft() if self._left else None

    def return_input_splits(self, splits: Sequence[S], subtask: int) -> None:
        self._left.extendleft(reversed(splits))


class LocalFirst(Generic[H]):
    """An assigner that prefers splits near the one who asks, then those that are near nobody, then the first that is
    left (`S4-9`).

    Args:
        splits: in their order, [split -> the hosts that have it].
    """

    def __init__(self, splits: Mapping[H, Sequence[str]]) -> None:
        self._hosts = dict(splits)
        self._left = OrderedDict.fromkeys(splits)
        self._near: dict[str, deque[H]] = {}
        for split in splits:
            for host in self._places(split):
                self._near.setdefault(host, deque()).append(split)

    def next_input_split(self, subtask: int, host: str) -> H | None:
        for place in (host, _NOWHERE):
            near = self._near.get(place, deque())
            while near:
                split = near.popleft()
                if split in self._left:
                    del self._left[split]
                    return split
        return self._left.popitem(last=False)[0] if self._left else None

    def return_input_splits(self, splits: Sequence[H], subtask: int) -> None:
        for split in reversed(splits):
            self._left[split] = None
            self._left.move_to_end(split, last=False)
            for host in self._places(split):
                self._near[host].appendleft(split)

    def _places(self, split: H) -> Sequence[str]:
        return self._hosts[split] or (_NOWHERE,)
