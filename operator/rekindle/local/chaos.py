"""Faults on request: what `--chaos` items mean. `faults.py` does them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from os.path import isabs

from rekindle.api.model import nearest
from rekindle.api.quantities import parse_duration


class ChaosError(ValueError):
    """A `--chaos` item that cannot be understood or done; the message shows what can be written."""


class FaultKind(StrEnum):
    """What can be done to a run."""

    SLOW_NODE = "slow-node"
    HANG_EXECUTOR = "hang-executor"
    KILL_EXECUTOR = "kill-executor"
    KILL_NODE = "kill-node"
    KILL_DRIVER = "kill-driver"
    LOSE_PARTITION = "lose-partition"
    CORRUPT_PARTITION = "corrupt-partition"
    LOSE_VOLUME = "lose-volume"


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a fault happens: once all of these are so. Nothing set: once a stage has started.

    And in any case not before there is something to hit: an executor on the node, the partition stored.

    Attributes:
        stage: this stage has started.
        fraction: this share of its partitions, or of all partitions, is finished.
        time: so many seconds have passed since the first driver's start.
        file: this file is there; a program makes it.
    """

    stage: str | None = None
    fraction: float | None = None
    time: float | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One `--chaos` item. `node` is a number from 1 or an address; `duration` is seconds, None for ever."""

    text: str
    kind: FaultKind
    trigger: Trigger = Trigger()
    node: str = "1"
    factor: float = 0.1
    duration: float | None = None
    stage: str | None = None
    partition: int = 0
    volume: int = 0


USAGE = """\
--chaos FAULT[:NAME=VALUE,...][@WHEN=VALUE,...], once for each fault
  faults (node: 1, 2, ... or an address; default 1. duration: for ever):
    slow-node          node, factor (0.1), duration   the node gets this share of its CPU
    hang-executor      node, duration                 its executor is stopped, not killed
    kill-executor      node                           its executor dies
    kill-node          node, duration                 all of the node dies; with a duration it comes back
    kill-driver                                       SIGKILL
    lose-partition     stage, partition (0)           a stored partition's files are gone
    corrupt-partition  stage, partition (0)           a stored partition's bytes are changed
    lose-volume        volume (0)                     one of the store's volumes is gone
  when (default: once the first stage has started):
    stage              this stage has started
    fraction           this share of the stage's partitions is finished, or of all without a stage
    time               seconds since the driver's start
    file               this file is there: your program makes it, and it is removed once the fault is done
  examples:
    --chaos slow-node:node=1,factor=0.1@stage=delays
    --chaos hang-executor:duration=30s@stage=delays,fraction=0.5 --chaos kill-driver@time=20
"""


def _node(text: str) -> str:
    parts = text.split(".")
    if text.isdigit() and int(text) >= 1:
        return text
    if len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts):
        return text
    raise ValueError("is no node; write its number, from 1, or its address")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("is not between 0 and 1")
    return value


def _factor(text: str) -> float:
    if _share(text) == 0:
        raise ValueError("would stop the node; write hang-executor or kill-node")
    return _share(text)


def _index(text: str) -> int:
    if not text.isdigit():
        raise ValueError("is not a number from 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError("is not a duration; write seconds or such as 500ms, 1min") from None


def _absolute(text: str) -> str:
    if not isabs(text):
        raise ValueError("is no absolute path")
    return text


_Converter = Callable[[str], object]

_VALUES: Mapping[str, _Converter] = {
    "node": _node,
    "factor": _factor,
    "duration": _seconds,
    "stage": str,
    "partition": _index,
    "volume": _index,
}
_WHEN: Mapping[str, _Converter] = {"stage": str, "fraction": _share, "time": _seconds, "file": _absolute}

_ALLOWED: Mapping[FaultKind, tuple[str, ...]] = {
    FaultKind.SLOW_NODE: ("node", "factor", "duration"),
    FaultKind.HANG_EXECUTOR: ("node", "duration"),
    FaultKind.KILL_EXECUTOR: ("node",),
    FaultKind.KILL_NODE: ("node", "duration"),
    FaultKind.KILL_DRIVER: (),
    FaultKind.LOSE_PARTITION: ("stage", "partition"),
    FaultKind.CORRUPT_PARTITION: ("stage", "partition"),
    FaultKind.LOSE_VOLUME: ("volume",),
}

ON_NODES = (FaultKind.SLOW_NODE, FaultKind.HANG_EXECUTOR, FaultKind.KILL_EXECUTOR, FaultKind.KILL_NODE)
ON_PARTITIONS = (FaultKind.LOSE_PARTITION, FaultKind.CORRUPT_PARTITION)


def parse_fault(text: str) -> Fault:
    """The fault that a `--chaos` item describes. Raises ChaosError, with the usage."""
    what, _, when = text.partition("@")
    name, _, values = what.partition(":")
    if name not in list(FaultKind):
        near = nearest(name, list(FaultKind))
        raise _error(text, f"unknown fault {name!r}{f'; did you mean {near}?' if near else ''}")
    kind = FaultKind(name)
    allowed = {key: _VALUES[key] for key in _ALLOWED[kind]}
    arguments = _pairs(text, values, allowed, f"{kind} takes")
    trigger = _pairs(text, when, _WHEN, "after @ there can be")
    if "@" in text and not trigger:
        raise _error(text, "nothing after the @")
    if kind in ON_PARTITIONS and "stage" not in arguments:
        raise _error(text, f"{kind} needs a stage, such as {kind}:stage=flights,partition=3")
    return Fault(text=text, kind=kind, trigger=Trigger(**trigger), **arguments)  # type: ignore[arg-type]


def _pairs(text: str, pairs: str, allowed: Mapping[str, _Converter], says: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs.split(",") if pairs else []:
        name, equals, value = pair.partition("=")
        if name not in allowed:
            near = nearest(name, allowed)
            hint = f"did you mean {near}?" if near else f"{says} {', '.join(allowed) or 'no values'}"
            raise _error(text, f"unknown name {name!r}; {hint}")
        if not equals or not value:
            raise _error(text, f"{name} has no value; write {name}=...")
        if name in found:
            raise _error(text, f"{name} is there twice")
        try:
            found[name] = allowed[name](value)
        except ValueError as error:
            raise _error(text, f"{name}: {value!r} {error}") from None
    return found


def check_faults(faults: tuple[Fault, ...], hosts: tuple[str, ...], volumes: int) -> None:
    """Raises ChaosError for a fault that this cluster and store cannot have.

    `hosts` are the nodes' addresses; none where all executors share one host.
    """
    for fault in faults:
        if fault.kind in ON_NODES:
            if not hosts:
                raise ChaosError(
                    f"--chaos {fault.text}: there are no nodes here, only 127.0.0.1; on macOS, "
                    "`sudo ifconfig lo0 alias 127.0.0.2` (and .3, .4) makes some"
                )
            find_host(fault, hosts)
        if fault.kind is FaultKind.LOSE_VOLUME and (volumes == 1 or fault.volume >= volumes):
            have = "one volume; set recovery.volumes" if volumes == 1 else f"volumes 0 to {volumes - 1}"
            raise ChaosError(f"--chaos {fault.text}: the store has {have}")


def find_host(fault: Fault, hosts: tuple[str, ...]) -> str:
    """The address of a fault's node. Raises ChaosError when there is no such node."""
    if fault.node in hosts:
        return fault.node
    if fault.node.isdigit() and int(fault.node) <= len(hosts):
        return hosts[int(fault.node) - 1]
    raise ChaosError(f"--chaos {fault.text}: there is no node {fault.node}; there are {', '.join(hosts)}")


def _error(text: str, what: str) -> ChaosError:
    return ChaosError(f"{text}: {what}\n\n{USAGE}")
