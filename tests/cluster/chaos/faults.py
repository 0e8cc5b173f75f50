"""What is done to the cluster and to a pipeline on it. Each fault undoes itself, and says what it did."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rekindle.api.storage import volume_folder
from rekindle.local.stored import corrupt_partition, lose_partition, lose_volume
from rekindle.runtime.store import Store
from tests.cluster import api, operators
from tests.cluster.api import Object
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.kind import kubelet, levers, storage
from tests.kind.cluster import WORKERS
from tests.kind.kubectl import kubectl

_UNHELD = '{"metadata": {"finalizers": null}}'

Do = Callable[[Sequence[Subject], random.Random], str | None]
"""Does it to one of them: what was done, or None where there is nothing to do it to."""


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        share: how many of forty faults are of this kind.
        alone: it may not meet another one of which this holds: who undoes it needs the rest of the cluster.
    """

    name: str
    share: int
    do: Do
    alone: bool = False


def _kill_driver(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    """As the kernel does it."""
    subject = dice.choice(list(subjects))
    pod = _driver(subject)
    if pod is None:
        return None
    subject.app.kill_driver()
    return f"the driver of {subject} was killed"


def _delete_driver(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    subject = dice.choice(list(subjects))
    pod = _driver(subject)
    if pod is None:
        return None
    if dice.random() < 0.5:
        api.kill(pod["metadata"]["namespace"], pod["metadata"]["name"])
        return f"the driver of {subject} was deleted by force"
    kubectl("delete", "pod", pod["metadata"]["name"], "-n", pod["metadata"]["namespace"], "--wait=false", timeout=20)
    return f"the driver of {subject} was deleted"


def _kill_executor(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    pod = _executor(dice.choice(list(subjects)), dice)
    if pod is None:
        return None
    if dice.random() < 0.5:
        api.kill(pod["metadata"]["namespace"], pod["metadata"]["name"])
        return f"executor {pod['metadata']['name']} was deleted by force"
    kubectl(*_in_pod(pod, kubelet.EXECUTOR), "pkill", "-KILL", "java", timeout=20)
    return f"executor {pod['metadata']['name']} was killed"


def _kill_operator(_: Sequence[Subject], __: random.Random) -> str | None:
    if not operators.pods():
        return None
    operators.kill()
    return "the operator was killed"


def _to_node(done: str, to: Callable[[str], AbstractContextManager[object]], longest: float) -> Do:
    """Something to a node, for some seconds."""

    def do(_: Sequence[Subject], dice: random.Random) -> str | None:
        node, seconds = dice.choice(WORKERS), dice.uniform(2, longest)
        with to(node):
            time.sleep(seconds)
        return f"node {node} {done} for {seconds:.0f} s"

    return do


def _stop_api_server(_: Sequence[Subject], dice: random.Random) -> str | None:
    seconds = dice.uniform(2, 10)
    with levers.without_api_server():
        time.sleep(seconds)
    return f"the API server was away for {seconds:.0f} s"


def _to_partition(done: str, to: Callable[[Store, str, int], bool]) -> Do:
    """Something to a partition of which there are files."""

    def do(subjects: Sequence[Subject], dice: random.Random) -> str | None:
        subject = dice.choice(list(subjects))
        store, stored = subject.store(), subject.stored()
        dice.shuffle(stored)
        for stage, partition in stored:
            what = f"partition {partition} of {stage} of {subject} was {done}"
            if store is not None and stage != subject.sink:  # what is published is not read again
                subject.harmed.append(what)
                if to(store, stage, partition):
                    return what
                subject.harmed.remove(what)
        return None

    return do


def _empty_volume(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    subject, number = dice.choice(list(subjects)), dice.randrange(VOLUMES)
    store = subject.store()
    if store is None or not lose_volume(store, number):
        return None
    what = f"volume {number} of {subject} was emptied"
    subject.harmed.append(what)
    return what


def _delete_claim(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    """As a person does; pods hold it still."""
    found = _claim(subjects, dice)
    if found is None:
        return None
    subject, claim = found
    kubectl("delete", "pvc", claim, "-n", subject.app.namespace, "--wait=false", timeout=20)
    return f"claim {claim} was deleted"


def _lose_claim(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    """And it goes at once, under the pods that mount it."""
    found = _claim(subjects, dice)
    if found is None:
        return None
    subject, claim = found
    namespace = ("-n", subject.app.namespace)
    kubectl("delete", "pvc", claim, *namespace, "--wait=false", timeout=20)
    kubectl("patch", "pvc", claim, *namespace, "--type=merge", "-p", _UNHELD, timeout=20)
    return f"claim {claim} is gone"


def _claim(subjects: Sequence[Subject], dice: random.Random) -> tuple[Subject, str] | None:
    """One of results, which counts as harmed."""
    subject = dice.choice(list(subjects))
    names = [one["metadata"]["name"] for one in subject.app.claims() if not one["metadata"]["name"].endswith("-store")]
    if not names:
        return None
    claim = dice.choice(sorted(names))
    subject.harmed.append(f"claim {claim}")
    return subject, claim


def _refuse_writes(subjects: Sequence[Subject], dice: random.Random) -> str | None:
    subject, number, seconds = dice.choice(list(subjects)), dice.randrange(VOLUMES), dice.uniform(1, 5)
    folder = subject.volumes().get(volume_folder(number))
    if folder is None:
        return None
    with _read_only(folder):
        time.sleep(seconds)
    return f"volume {number} of {subject} took nothing for {seconds:.0f} s"


def _fill_volumes(_: Sequence[Subject], dice: random.Random) -> str | None:
    """All of them, the journals' too."""
    seconds = dice.uniform(1, 8)
    with storage.full():
        time.sleep(seconds)
    return f"all volumes were full for {seconds:.0f} s"


FAULTS = (
    Fault("kill-driver", 5, _kill_driver),
    Fault("delete-driver", 3, _delete_driver),
    Fault("kill-executor", 7, _kill_executor),
    Fault("kill-operator", 4, _kill_operator),
    Fault("pause-node", 3, _to_node("stood still", levers.paused, 12), alone=True),
    Fault("cut-node", 2, _to_node("was cut off", levers.isolated, 15), alone=True),
    Fault("kill-node", 1, _to_node("was dead", levers.killed, 10), alone=True),
    Fault("stop-api-server", 1, _stop_api_server, alone=True),
    Fault("lose-partition", 4, _to_partition("lost", lose_partition)),
    Fault("corrupt-partition", 4, _to_partition("corrupted", corrupt_partition)),
    Fault("empty-volume", 1, _empty_volume),
    Fault("delete-claim", 1, _delete_claim),
    Fault("lose-claim", 1, _lose_claim),
    Fault("refuse-writes", 1, _refuse_writes),
    Fault("fill-volumes", 2, _fill_volumes),
)


def deck(dice: random.Random) -> list[Fault]:
    """Forty faults in some order."""
    cards = [fault for fault in FAULTS for _ in range(fault.share)]
    dice.shuffle(cards)
    return cards


def pairs(cards: Sequence[Fault]) -> Iterator[tuple[Fault, ...]]:
    """Two at a time, in about that order; those that must be alone do not meet."""
    left = list(cards)
    while left:
        first = left.pop(0)
        fitting = next((place for place, one in enumerate(left) if not (first.alone and one.alone)), None)
        yield (first,) if fitting is None else (first, left.pop(fitting))


def _driver(subject: Subject) -> Object | None:
    pod = subject.app.driver()
    return pod if pod is not None and _runs(pod) else None


def _executor(subject: Subject, dice: random.Random) -> Object | None:
    running = [pod for pod in subject.app.executors() if _runs(pod)]
    return dice.choice(sorted(running, key=operators.name_of)) if running else None


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _in_pod(pod: Object, container: str) -> tuple[str, ...]:
    return ("exec", pod["metadata"]["name"], "-n", pod["metadata"]["namespace"], "-c", container, "--")


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Nobody but root may make or remove anything there."""
    changed: dict[Path, int] = {}
    try:
        for path in (folder, *(one for one in folder.rglob("*") if one.is_dir())):
            with suppress(FileNotFoundError):  # a stage has ended meanwhile
                mode = path.stat().st_mode & 0o7777
                changed[path] = mode
                path.chmod(mode & 0o555)
        yield
    finally:
        for path, mode in changed.items():
            with suppress(FileNotFoundError):
                path.chmod(mode)
