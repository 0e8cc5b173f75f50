"""The workers of the cluster: which of them is to be sick, how they are held, and how all is as it was again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.on_kubernetes.contenders import HOLD, SICK
from tests.cluster import operators
from tests.kind import levers
from tests.kind.cluster import WORKERS
from tests.kind.processes import Failed


@dataclass(frozen=True)
class Places:
    """Three workers: the operator's, the driver's, and the one that is to be sick."""

    operator: str
    driver: str
    sick: str


def places() -> Places:
    """As the operator is placed now. Raises Failed where it is not on one worker."""
    found = {str(pod["spec"].get("nodeName")) for pod in operators.pods()}
    others = [worker for worker in WORKERS if worker not in found]
    if len(found) != 1 or len(others) != 2:
        raise Failed(f"the operator is to run on one of {', '.join(WORKERS)}, and is on {sorted(found)}")
    return Places(found.pop(), *others)


def hold(sick: str | None) -> None:
    """Every worker at its share of a CPU, and the sick one, if there is one yet, at a tenth of it."""
    for worker in WORKERS:
        levers.slow(worker, SICK if worker == sick else HOLD)


def release() -> None:
    """All CPUs for every worker, also for those after one that fails."""
    problems = []
    for worker in WORKERS:
        try:
            levers.unslow(worker)
        except Failed as failed:
            problems.append(str(failed))
    if problems:
        raise Failed("; ".join(problems))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Neither Ctrl-C nor SIGTERM meanwhile, here and in what is started here."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def undone(undo: Callable[[], object]) -> Callable[[], None]:
    """`undo`, which is not to be interrupted."""

    def wrapped() -> None:
        with uninterrupted():
            undo()

    return wrapped
