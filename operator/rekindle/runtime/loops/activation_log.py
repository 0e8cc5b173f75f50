"""What each activation of a loop took and made, as numbered objects that are put if absent.

The first driver to write a number has made that activation; another one that finds it there is not the loop's driver
any more. A driver that begins writes a number of its own before it removes anything: whoever was there before can write
none from then on, so nothing that counts is removed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.loops.batches import Batch
from rekindle.runtime.loops.states import State
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed, unsealed

_NAME = re.compile(r"(\d{8,})\.json", re.ASCII)
_MOST_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Put:
    """A batch that was put into a queue: of a loop, its `input` or its `feedback`."""

    loop: str
    side: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class Activation:
    """A batch, from a loop's entry to wherever what was made of it waits.

    Attributes:
        loop, side: whose entry it was, and from which of its queues; empty for what is no activation: that a driver
            begins, and that the loop has ended.
        took: how many of the batches that waited there were taken as one.
        put: batches that wait now, in order.
        states: [update -> its state now], of those that have changed.
        output: what the outermost loop has put out.
        ended: nothing is left to do.
        anew: what was before counts no more.
    """

    loop: str = ""
    side: str = ""
    took: int = 0
    put: tuple[Put, ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    output: tuple[Batch, ...] = ()
    ended: bool = False
    anew: bool = False


class ActivationLog:
    """Of one loop.

    Args:
        folder: a prefix in the store.
        writer: who writes; records of two are never the same.
    """

    def __init__(self, store: Store, folder: str, writer: str) -> None:
        self._store, self._folder, self._next = store, folder, 1
        self._writer = f"{writer}-{uuid.uuid4().hex}"

    def take_over(self) -> Iterator[Activation]:
        """What there is since it began, anew or at all. When the last was given this driver is the only one to write.

        Raises:
            StoreRefused: a record is damaged or gone.
        """
        found = list(self._new())
        for _ in range(_MOST_TRIES):
            if self._put(Activation()):
                break
            found += self._new()  # somebody has written in between
        else:
            raise Fenced(f"another driver writes to {self._folder} all the time", remedy="see which driver that is")
        begun = max((place for place, one in enumerate(found) if one.anew), default=-1)
        yield from found[begun + 1 :]

    def append(self, activation: Activation) -> None:
        """Raises Fenced where another driver goes on with the loop."""
        if not self._put(activation):
            raise Fenced(
                f"another driver has written {self._name(self._next)}: it goes on with this loop",
                remedy="nothing is lost; this driver ends",
            )

    def begin_anew(self) -> None:
        """What there is counts no more."""
        list(self.take_over())
        self.append(Activation(anew=True))

    def _put(self, activation: Activation) -> bool:
        record = {**asdict(activation), "writer": self._writer}
        if not self._store.put_if_absent(self._name(self._next), sealed(record).encode()):
            return False
        self._next += 1
        return True

    def _new(self) -> Iterator[Activation]:
        """Records that were not read yet."""
        numbers = sorted(int(found[1]) for found in map(_NAME.fullmatch, self._store.names(self._folder)) if found)
        for number in numbers[self._next - 1 :]:
            if number != self._next:
                raise self._refused(self._name(self._next), "it is gone, and later ones are there")
            data = self._store.get(self._name(number))
            try:
                found = _activation(unsealed(data or b""))
            except (ValueError, KeyError, TypeError) as error:
                raise self._refused(self._name(number), str(error)) from error
            self._next += 1
            yield found

    def _refused(self, name: str, why: str) -> StoreRefused:
        return StoreRefused(
            f"{self._store}/{name} cannot be read: {why}",
            remedy="restore it, or begin anew with --fresh; nothing was removed",
        )

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:08d}.json"


def _activation(raw: dict[str, Any]) -> Activation:
    states = {
        name: State(
            tuple(state["keys"]),
            None if state["base"] is None else _batch(state["base"]),
            tuple(map(_batch, state["changes"])),
        )
        for name, state in raw["states"].items()
    }
    puts = tuple(Put(one["loop"], one["side"], _batch(one["batch"])) for one in raw["put"])
    output = tuple(map(_batch, raw["output"]))
    return Activation(raw["loop"], raw["side"], int(raw["took"]), puts, states, output, raw["ended"], raw["anew"])


def _batch(raw: dict[str, Any]) -> Batch:
    return Batch(raw["name"], int(raw["rows"]), raw["schema"], tuple(raw["keys"]), int(raw["partitions"]))
