"""Doing the faults of `--chaos`, each once, when its time has come and there is something to hit."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rekindle.api.model import nearest
from rekindle.local.chaos import ON_PARTITIONS, Fault, FaultKind, find_host
from rekindle.local.node import Node
from rekindle.local.progress import Progress
from rekindle.local.stored import corrupt_partition, lose_partition, lose_volume
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.store import Store


class Killable(Protocol):
    """A driver, as far as chaos is concerned."""

    def kill(self) -> None:
        """SIGKILL for all of it."""


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that happened, or the end of one. `t` is seconds since the epoch."""

    t: float
    fault: str
    what: str


def is_due(fault: Fault, progress: Progress, seconds: float) -> bool:
    """Whether a fault's trigger is reached, `seconds` after the first driver's start."""
    trigger = fault.trigger
    if trigger.time is not None and seconds < trigger.time:
        return False
    if trigger.file is not None and not Path(trigger.file).exists():
        return False
    if trigger.stage is not None:
        stage = progress.stage(trigger.stage)
        if stage is None or not stage.started:
            return False
    if trigger.fraction is not None:
        return progress.begun and progress.fraction(trigger.stage) >= trigger.fraction
    return trigger != type(trigger)() or progress.begun


class Chaos:
    """Goes along with a run (`Companion`) and does its faults.

    Attributes:
        done: what was done, in order, for the report.
    """

    def __init__(
        self,
        faults: tuple[Fault, ...],
        nodes: tuple[Node, ...],
        store: Store,
        progress: Progress,
        say: Callable[[str], None],
    ) -> None:
        self._pending, self._ends = list(faults), list[tuple[float, Fault, Callable[[], None], str]]()
        self._nodes, self._store = {node.host: node for node in nodes}, store
        self._progress, self._say = progress, say
        self._began: float | None = None
        self._checked = False
        self.done: list[Done] = []

    def step(self, now: float, driver: Killable) -> None:
        """Do what is due at `now`, seconds since the epoch."""
        self._began = now if self._began is None else self._began
        self._check_stages()
        for end in [end for end in self._ends if end[0] <= now]:
            self._ends.remove(end)
            end[2]()
            self._tell(now, end[1], end[3])
        for fault in list(self._pending):
            if is_due(fault, self._progress, now - self._began):
                what = self._do(fault, now, driver)
                if what is not None:
                    self._pending.remove(fault)
                    self._tell(now, fault, what)
                    self._answer(fault)

    @property
    def missed(self) -> list[str]:
        """Items that did not happen."""
        return [fault.text for fault in self._pending]

    def _do(self, fault: Fault, now: float, driver: Killable) -> str | None:
        """Do one fault: what happened, or None while there is nothing to hit, or it cannot be reached."""
        try:
            return self._hit(fault, now, driver)
        except StoreRefused:
            return None

    def _hit(self, fault: Fault, now: float, driver: Killable) -> str | None:
        if fault.kind is FaultKind.KILL_DRIVER:
            driver.kill()
            return "the driver was killed"
        if fault.kind is FaultKind.LOSE_VOLUME:
            return f"volume {fault.volume} is gone" if lose_volume(self._store, fault.volume) else None
        if fault.kind in ON_PARTITIONS:
            return self._hit_partition(fault)
        return self._hit_node(fault, self._nodes[find_host(fault, tuple(self._nodes))], now)

    def _hit_partition(self, fault: Fault) -> str | None:
        assert fault.stage is not None
        what = f"partition {fault.partition} of {fault.stage}"
        if fault.kind is FaultKind.LOSE_PARTITION:
            return f"{what} is gone" if lose_partition(self._store, fault.stage, fault.partition) else None
        return f"{what} is corrupt" if corrupt_partition(self._store, fault.stage, fault.partition) else None

    def _hit_node(self, fault: Fault, node: Node, now: float) -> str | None:
        if not node.alive:
            return None
        if fault.kind is FaultKind.SLOW_NODE:
            node.slow(fault.factor)
            self._later(fault, now, node.recover_speed, f"node {node.host} has its speed again")
            return f"node {node.host} runs at {fault.factor:g} of its speed ({node.throttle.kind})"
        if fault.kind is FaultKind.KILL_NODE:
            node.kill()
            self._later(fault, now, node.start_again, f"node {node.host} is back")
            return f"node {node.host} is gone"
        if fault.kind is FaultKind.KILL_EXECUTOR:
            return f"the executor on {node.host} was killed" if node.kill_executors() else None
        if not node.hang_executors():
            return None
        self._later(fault, now, node.resume_executors, f"the executor on {node.host} goes on")
        return f"the executor on {node.host} hangs"

    def _later(self, fault: Fault, now: float, end: Callable[[], None], what: str) -> None:
        if fault.duration is not None:
            self._ends.append((now + fault.duration, fault, end, what))

    def _tell(self, now: float, fault: Fault, what: str) -> None:
        self.done.append(Done(now, fault.text, what))
        self._say(f"chaos: {what}")

    def _answer(self, fault: Fault) -> None:
        """Remove the file that has asked for a fault, once nothing else waits for it."""
        asked = fault.trigger.file
        if asked is not None and asked not in [other.trigger.file for other in self._pending]:
            Path(asked).unlink(missing_ok=True)

    def _check_stages(self) -> None:
        """Say once, when the stages are known, which faults name none of them."""
        known = [stage.name for stage in self._progress.stages]
        if self._checked or not known:
            return
        self._checked = True
        for fault in self._pending:
            for name in {fault.stage, fault.trigger.stage} - {None, *known}:
                near = nearest(str(name), known)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                self._say(f"chaos: {fault.text} will not happen: no stored stage {name!r}; {hint}")
