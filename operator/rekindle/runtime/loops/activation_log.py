"""What each activation of a loop took and made, as numbered objects that are put if absent.

The first driver to write a number has made that activation; another one that finds it there is not the loop's driver
any more. So what a driver makes that has been superseded is read by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.loops.batches import Batch
from rekindle.runtime.loops.states import State
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed, unsealed


@dataclass(frozen=True, slots=True)
class Put:
    """A batch that was put into a queue: of a loop, its `input` or its `feedback`."""

    loop: str
    side: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class Activation:
    """One batch, from a loop's entry to wherever what was made of it waits.

    Attributes:
        loop, side: whose entry it was, and from which of its queues; empty for what happens when loops have ended.
        put: batches that wait now, in order.
        states: [update -> its state now], of those that have changed.
        output: what the outermost loop has put out.
        ended: nothing is left to do.
    """

    loop: str
    side: str
    put: tuple[Put, ...] = ()
    states: Mapping[str, State] = field(default_factory=dict)
    output: tuple[Batch, ...] = ()
    ended: bool = False


class ActivationLog:
    """Of one loop. `folder` is a prefix in the store."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder, self._next = store, folder, 1

    def replay(self) -> Iterator[Activation]:
        """Those that there are; `append` goes on behind them. Raises StoreRefused for one that is damaged."""
        while (data := self._store.get(self._name(self._next))) is not None:
            try:
                found = _activation(unsealed(data))
            except (ValueError, KeyError, TypeError) as error:
                raise StoreRefused(
                    f"{self._store}/{self._name(self._next)} cannot be read: {error}",
                    remedy="restore it, or have the loop made again: rekindle rerun",
                ) from error
            self._next += 1
            yield found

    def append(self, activation: Activation) -> None:
        """Raises Fenced where another driver goes on with the loop."""
        name = self._name(self._next)
        if not self._store.put_if_absent(name, sealed(asdict(activation)).encode()):
            raise Fenced(
                f"another driver has written {name}: it goes on with this loop",
                remedy="nothing is lost; this driver ends",
            )
        self._next += 1

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
    return Activation(raw["loop"], raw["side"], puts, states, tuple(map(_batch, raw["output"])), raw["ended"])


def _batch(raw: dict[str, Any]) -> Batch:
    return Batch(raw["name"], int(raw["rows"]), raw["schema"], tuple(raw["keys"]), int(raw["partitions"]))
