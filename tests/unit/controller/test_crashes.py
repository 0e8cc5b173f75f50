"""An operator that dies after any one of its calls, on every way that a life may take, and its successor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from rekindle.api.application_status import ApplicationState as State
from rekindle.controller.clock import format_time
from rekindle.controller.kube import KubeError
from rekindle.controller.reconciler import Reconciler
from rekindle.controller.resources import CONFIG_MAP, POD, SERVICE, SPARK_APPLICATION, labels_of, uid_of
from rekindle.controller.submission.names import LABEL_ATTEMPT
from tests.cluster.crashes import Crash, CrashingKube
from tests.unit.controller import world
from tests.unit.controller.api_server import DEADLINE, ApiServer
from tests.unit.controller.test_reconciler import AGAIN, Clock, Desk, at_work, clock

pytestmark = pytest.mark.thorough

__all__ = ["clock"]

Act = Callable[[Desk], Any]
RUN_AGAIN = {"type": "Always", "onFailureRetryInterval": 1}


def edit(desk: Desk) -> None:
    desk.edit(arguments=["2"])


def suspend(desk: Desk) -> None:
    desk.edit(suspend=True)


def resume(desk: Desk) -> None:
    desk.edit(suspend=False)


def mend(desk: Desk) -> None:
    desk.edit(proxyUser=None)


def delete(desk: Desk) -> None:
    desk.server.change(SPARK_APPLICATION, "team", "pi", {"metadata": {"deletionTimestamp": format_time(time.time())}})


def kill(desk: Desk) -> None:
    desk.kubelet(world.failed(137))


def spoil_and_kill(desk: Desk) -> None:
    desk.edit(proxyUser="root")
    kill(desk)


def succeed(desk: Desk) -> None:
    desk.kubelet(world.SUCCEEDED)


def succeed_beside_a_sidecar(desk: Desk) -> None:
    desk.kubelet(world.beside_a_sidecar(terminated={"exitCode": 0}))


def refuse_the_driver(desk: Desk) -> None:
    desk.server.fault("POST", "/pods$", 403, message="exceeded quota", body='attempt": ?"1"', times=1000)


@dataclass
class Way:
    """What happens to an application the first time that it is in a state and an attempt."""

    acts: dict[str, Act]
    spec: dict[str, Any] = field(default_factory=dict)
    end: str = "COMPLETED"
    """A state; or "gone"."""

    drivers: int = 2
    begin: Act = lambda desk: None
    since: str = ""
    """From there on the operator dies; unset: from the first act on. What comes before is the same on other ways."""


BEFORE: dict[str, dict[str, Act]] = {
    "SUBMITTED 1": {},
    "RUNNING 1": {},
    "PENDING_RERUN 1": {"RUNNING 1": kill},
    "COMPLETED 1": {"RUNNING 1": succeed},
}
WAYS: dict[str, Way] = {}
for state, before in BEFORE.items():
    WAYS[f"edit in {state}"] = Way({**before, state: edit, "RUNNING 2": succeed})
    WAYS[f"delete in {state}"] = Way({**before, state: delete}, end="gone", drivers=1)
    if state != "COMPLETED 1":
        WAYS[f"suspend in {state}"] = Way({**before, state: suspend, "SUSPENDED 1": resume, "RUNNING 2": succeed})
WAYS |= {
    "time to live": Way({"RUNNING 1": succeed}, {"timeToLiveSeconds": 5}, "gone", 1),
    "delete while suspended": Way({"RUNNING 1": suspend, "SUSPENDED 1": delete}, {}, "gone", 1),
    "suspended from the beginning": Way({"SUSPENDED 0": resume, "RUNNING 1": succeed}, {"suspend": True}, drivers=1),
    "a refused submission": Way({"RUNNING 2": succeed}, drivers=1, begin=refuse_the_driver),
    "a last refused submission": Way({}, {"restartPolicy": {"type": "Never"}}, "FAILED", 0, refuse_the_driver),
    "a spec spoiled and mended": Way({"RUNNING 1": spoil_and_kill, "FAILED 1": mend, "RUNNING 2": succeed}, drivers=2),
    "a sidecar": Way({"RUNNING 1": succeed_beside_a_sidecar}, drivers=1),
    "runs again and again": Way(
        {**{f"RUNNING {number}": succeed for number in range(1, 5)}, "SUBMITTED 5": delete},
        {"restartPolicy": RUN_AGAIN},
        "gone",
        5,
        since="RUNNING 4",
    ),
}


class Life:
    """One application on its way, until it is where that ends."""

    def __init__(self, way: Way, clock: Clock) -> None:
        self._clock, self._left, self._end, self._since = clock, dict(way.acts), way.end, way.since
        self.drivers: dict[str, str] = {}
        """Uid to attempt of all drivers that were ever seen."""

        self.first = 0
        """How many calls there were before the operator is to die."""

    async def live(self, desk: Desk, most: int = 150) -> bool:
        """Whether it came to its end; raises Crash where the operator dies."""
        for _ in range(most):
            with suppress(KubeError):
                await desk.look()
            if self._see(desk):
                return True
        return False

    def _see(self, desk: Desk) -> bool:
        """What the world does between two looks."""
        pods = desk.server.all(POD)
        self.drivers |= {uid_of(pod): labels_of(pod)[LABEL_ATTEMPT] for pod in pods}
        alive = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        assert len(alive) <= 1
        if not desk.server.all(SPARK_APPLICATION):
            return self._end == "gone"
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                desk.server.remove(POD, "team", pod["metadata"]["name"])
        self._clock.later += 2
        state = desk.state().value
        where = f"{state} {desk.status.attempt}"
        if (act := self._left.pop(where, None)) is not None:
            if self._since in ("", where):
                self.first = self.first or len(desk.server.written())
            act(desk)
        elif state == self._end and not self._left and "deletionTimestamp" not in desk.body["metadata"]:
            return not alive
        elif state == State.SUBMITTED and [pod for pod in alive if not pod["spec"].get("nodeName")]:
            desk.kubelet(world.RUNNING)
        return False


async def live(way: Way, clock: Clock, at: int | None) -> tuple[Life, bool]:
    """One life whose operator dies after that call, and whether there were so many."""
    clock.later = 0.0
    async with ApiServer() as server:
        life = Life(way, clock)
        async with at_work(server, **{"restartPolicy": AGAIN, **way.spec}) as desk:
            way.begin(desk)
            crashing = CrashingKube(desk.kube, at, after=True)
            desk.reconciler = Reconciler(
                crashing, desk.store, desk.pods, desk.claims, desk.nodes, desk.recorder, desk.metrics
            )
            try:
                ended = await life.live(desk)
            except Crash:
                ended = False
        if crashing.crashed.is_set():
            async with at_work(server, made=False) as successor:
                ended = await life.live(successor)
        assert ended, f"never ends: {server.all(SPARK_APPLICATION)}"
        assert sorted(life.drivers.values()) == sorted(set(life.drivers.values()))
        assert len(life.drivers) == way.drivers
        if way.end != "gone":
            assert not server.all(SERVICE)
            assert not server.all(CONFIG_MAP)
        return life, crashing.crashed.is_set()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_after_whichever_call_the_operator_dies_its_successor_comes_to_the_same_end(way, clock):
    async def lives() -> None:
        whole, _ = await live(way, clock, None)
        at = first = 1 if way is WAYS["edit in RUNNING 1"] else max(whole.first, 1)
        while (await live(way, clock, at))[1]:
            at += 1
        assert at > first

    asyncio.run(asyncio.wait_for(lives(), 9 * DEADLINE))
