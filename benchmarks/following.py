"""What it costs the operator to follow running applications (speculation.enabled), and how soon it sees a slow node.

    python benchmarks/following.py                                 100 applications; 16 minutes
    python benchmarks/following.py --applications 20 --minutes 1   a first look; six minutes

Each application has five executors of four cores, and its driver goes through stages of 1,000 tasks of 30 s, all of
them at another place of theirs. The same fleet is run three times in turns, with a new operator each time:

    off             speculation is off: no driver is asked anything
    executionTime   the default detector
    nodeAware       the other one

First nothing is slow, for --minutes: core-seconds of the operator, and what drivers were asked and told. Then one
executor stands still in each of --slow drivers that are past the gate of three quarters. From when on its node is slow
is worked out from all that is known of the driver, by the core's detector; from there to the event SlowNode counts, in
check intervals. Then core-seconds for another minute, while these are slow.

The operator is a process of its own, so that its CPU time is the kernel's account. Its API server and the drivers'
REST are stand-ins in this process: neither a cluster nor Spark is needed, but the loopback addresses from 127.1.0.1 on
and their port 4040. Results go to .build/bench/following.json, what operators logged to .build/bench/logs.

exit codes: 0 done; 1 something was wrong, and is said; 2 usage; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.on_kubernetes import application
from benchmarks.on_kubernetes.command_line import exit_code, positive
from benchmarks.on_kubernetes.fleet import Standing
from benchmarks.on_kubernetes.processes import OperatorProcess
from benchmarks.on_kubernetes.stand_in_drivers import (
    Schedule,
    StandInDriver,
    StandInDrivers,
    address_of,
    until_asked,
)
from benchmarks.results import ResultsFile, Run, Value, core_seconds, markdown, ratio, spread
from rekindle.api.settings import CoreOptions, RekindleSettings
from rekindle.controller.affinity import HOSTNAME
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Kube
from rekindle.controller.resources import EVENT, NODE, Object, labels_of
from rekindle.controller.speculation.stages import SeenStages, seen_stage
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, SlowTaskDetector
from rekindle.local.watchdog import Watchdog
from tests.kind.processes import Failed, say
from tests.unit.controller.api_server import ApiServer
from tests.unit.controller.blocks import objects

RESULTS = Path(__file__).resolve().parents[1] / ".build" / "bench" / "following.json"
SCENARIO, NAMESPACE = "following", "bench-following"
CONTENDERS = ("off", "executionTime", "nodeAware")
EXECUTORS, CORES, NODES = 5, 4, 100
TASK_SECONDS = 30.0
SETTLED_SECONDS = 35.0
"""After the last application was seen to run: the longest pause between two looks is shorter."""

PAST_THE_GATE = (0.8, 0.92)
SEEN_WITHIN = 150.0
STEP = 0.25


class FollowedFleet(Standing):
    """Applications whose drivers are stand-ins; when SlowNode was said of each, in epoch seconds. An async context."""

    executors = EXECUTORS

    def __init__(self, kube: Kube, drivers: Sequence[StandInDriver], speculation: Object) -> None:
        super().__init__(kube, NAMESPACE)
        self.drivers, self._speculation = drivers, speculation
        self.said: dict[int, float] = {}
        self._events = Informer(kube, EVENT, namespace=NAMESPACE)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._events.listen(self._event_changed)
        self.do_always(self._events.run())
        return self

    def manifest(self, name: str) -> Object:
        body = application.manifest(name)
        executor = {**body["spec"]["executor"], "instances": EXECUTORS, "cores": CORES}
        return {**body, "spec": {**body["spec"], "executor": executor, "speculation": self._speculation}}

    def driver_status(self, driver: Object) -> Object:
        return {**super().driver_status(driver), "podIP": address_of(_number(labels_of(driver)["spark-app-name"]))}

    def executor(self, driver: Object, number: int) -> Object:
        pod = super().executor(driver, number)
        where = node_of(_number(labels_of(driver)["spark-app-name"]), number)
        return {**pod, "spec": {**pod["spec"], "nodeName": where}}

    def _event_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and after.get("reason") == "SlowNode":
            self.said.setdefault(_number(after["regarding"]["name"]), time.time())


def node_of(number: int, executor: int) -> str:
    """Where an executor of that application is: its five on five nodes."""
    return f"node-{(number + executor * NODES // EXECUTORS) % NODES}"


def _number(name: str) -> int:
    return int(name.removeprefix("app-"))


async def measured(contender: str, number: int, options: argparse.Namespace, watchdog: Watchdog) -> Run:
    """One turn."""
    schedule = Schedule.drawn(options.tasks, EXECUTORS, CORES, TASK_SECONDS)
    # The golden ratio spreads any number of drivers evenly over the stage.
    begins = [time.time() - schedule.seconds * (0.618034 * one % 1) for one in range(options.applications)]
    drivers = [StandInDriver(schedule, began) for began in begins]
    speculation = {"enabled": contender != "off", "detector": contender} if contender != "off" else {}
    async with (
        ApiServer() as api,
        StandInDrivers(drivers),
        FollowedFleet(api.kube, drivers, speculation) as fleet,
    ):
        for one in range(NODES):
            api.make(NODE, "", objects.node(f"node-{one}", labels={HOSTNAME: f"node-{one}"}))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as kubeconfig:
            kubeconfig.write(api.kubeconfig())
            kubeconfig.flush()
            os.environ["KUBECONFIG"] = kubeconfig.name
            with OperatorProcess(NAMESPACE, watchdog, "--node-blocks", "dry-run") as operator:
                await operator.until_it_works()
                run = await _turn(contender, number, fleet, operator, options)
                await asyncio.to_thread(operator.end)  # here, while somebody answers, so that it gives its Lease back
                return run


async def _turn(
    contender: str, number: int, fleet: FollowedFleet, operator: OperatorProcess, options: argparse.Namespace
) -> Run:
    count = options.applications
    say(f"round {number}, {contender}: {count} applications")
    await fleet.apply_all(count, rate=10)
    await operator.until("all run with their executors", lambda: fleet.complete() == count, count + 60)
    if contender != "off":
        await until_asked(fleet.drivers, 60)
    await asyncio.sleep(SETTLED_SECONDS)
    seconds = 60 * options.minutes
    asked, told = _asked(fleet.drivers)
    used = await _used(operator, seconds)
    asked_then, told_then = _asked(fleet.drivers)
    per_driver = count * options.minutes
    details: dict[str, Any] = {
        "requests": {what: (asked_then[what] - asked[what]) / per_driver for what in asked_then},
        "kilobytes": (told_then - told) / 1000 / per_driver,
        "rss_mb": operator.rss_mb(),
    }
    say(f"{contender}: {60 * used / seconds:.2f} core-seconds a minute; asked {details['requests']}")
    if contender != "off":
        details |= await _reactions(contender, fleet, operator, options.slow)
    return Run(contender, number, seconds, used, details=details)


def _asked(drivers: Iterable[StandInDriver]) -> tuple[Counter[str], int]:
    """How often what was asked of all, and how much they told."""
    asked: Counter[str] = Counter()
    told = 0
    for one in drivers:
        asked += one.asked
        told += one.bytes_told
    return asked, told


async def _used(operator: OperatorProcess, seconds: float) -> float:
    """Core-seconds."""
    before = operator.core_seconds()
    await asyncio.sleep(seconds)
    operator.check()
    return operator.core_seconds() - before


async def _reactions(contender: str, fleet: FollowedFleet, operator: OperatorProcess, most: int) -> dict[str, Any]:
    low, high = PAST_THE_GATE
    now = time.time()
    there = {
        node_of(number, 1): number for number, one in enumerate(fleet.drivers) if low <= one.part_done(now) <= high
    }
    slow = list(there.values())[:most]  # each on a node of its own, for a node is blocked once
    if not slow:
        raise Failed("no driver is past its gate: more --applications are needed")
    for number in slow:
        await asyncio.sleep(0.37)  # so that they are not all at the same place between two looks
        fleet.drivers[number].freeze(1, time.time())
    say(f"{contender}: an executor stands still in {len(slow)} drivers")
    await operator.until("SlowNode of each of them", lambda: fleet.said.keys() >= set(slow), SEEN_WITHIN)
    used = await _used(operator, 60)
    wrong = sorted(fleet.said.keys() - set(slow))
    options = RekindleSettings.model_validate({"speculation": {"enabled": True, "detector": contender}}).to_core()
    since = [slow_from(fleet.drivers[one], one, options, fleet.said[one]) for one in slow]
    intervals = [
        (fleet.said[one] - began) / options.slow_tasks.check_interval for one, began in zip(slow, since, strict=True)
    ]
    say(f"{contender}: SlowNode was said after {', '.join(f'{one:.2f}' for one in intervals)} check intervals")
    say(f"{contender}: {used:.2f} core-seconds a minute meanwhile" + f"; wrongly said of {wrong}" * bool(wrong))
    return {"intervals": intervals, "core_seconds_while_slow": used, "slow": len(slow), "wrongly": wrong}


def slow_from(driver: StandInDriver, number: int, options: CoreOptions, seen_at: float) -> float:
    """From when on a task of it is slow (epoch seconds), by all that is known of it."""
    detector: SlowTaskDetector = ExecutionTimeBasedSlowTaskDetector(options.slow_tasks)
    if options.node_aware is not None:
        detector = NodeAwareSlowTaskDetector(options.node_aware)
    nodes = {str(executor): node_of(number, executor) for executor in range(1, EXECUTORS + 1)}

    def is_slow(now: float) -> bool:
        tasks = driver.tasks(now)
        finished, running = ([one for one in tasks if one.running is runs] for runs in (False, True))
        stage = seen_stage(driver.stage(now), finished, running, nodes)
        return bool(detector.find_slow(SeenStages([stage]), now).slow)

    steps = int((seen_at - driver.frozen_at) / STEP)
    after = next((step for step in range(steps + 1) if is_slow(driver.frozen_at + STEP * step)), steps + 1)
    low, high = driver.frozen_at + STEP * (after - 1), driver.frozen_at + STEP * after
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if is_slow(middle) else (middle, high)
    return high


def table(runs: Sequence[Run]) -> str:
    """Medians and ranges; the reactions of all rounds together."""
    details: list[tuple[str, Value]] = [
        ("requests for each driver and minute", lambda run: sum(run.details["requests"].values())),
        *((f"of these: {what}", _requests(what)) for what in ("stages", "running", "success")),
        ("kilobytes for each driver and minute", lambda run: float(run.details["kilobytes"])),
        ("memory, MB", lambda run: float(run.details["rss_mb"])),
    ]
    rows: list[tuple[object, ...]] = [
        ("core-seconds a minute", *(spread(runs, one, _per_minute) for one in CONTENDERS)),
        ("times those without following", *(ratio(runs, one, "off", core_seconds) for one in CONTENDERS)),
        *((title, *(spread(runs, one, value) for one in CONTENDERS)) for title, value in details),
        ("check intervals until SlowNode is said", None, *(_intervals(runs, one) for one in CONTENDERS[1:])),
        (
            "core-seconds a minute meanwhile",
            None,
            *(spread(runs, one, lambda run: float(run.details["core_seconds_while_slow"])) for one in CONTENDERS[1:]),
        ),
    ]
    return markdown(("", *CONTENDERS), rows)


def _per_minute(run: Run) -> float:
    return 60 * run.core_seconds / run.seconds


def _requests(what: str) -> Value:
    return lambda run: float(run.details["requests"].get(what, 0.0))


def _intervals(runs: Iterable[Run], contender: str) -> str | None:
    every = [late for run in runs if run.contender == contender for late in run.details["intervals"]]
    found = spread([Run(contender, 1, late) for late in every], contender)
    return f"{found.median:.2f} ({found.low:.2f} – {found.high:.2f})" if found is not None else None


async def measure(options: argparse.Namespace) -> list[Run]:
    """All turns; the file has them as soon as they are there."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)  # so the operator is ended
    runs: list[Run] = []
    contenders = [one for one in CONTENDERS if one in (options.only or CONTENDERS)]
    with Watchdog() as watchdog:
        for number in range(1, options.rounds + 1):
            for contender in contenders:
                runs.append(await measured(contender, number, options, watchdog))
                ResultsFile(RESULTS).save(SCENARIO, _about(options), runs)
    return runs


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "settings": vars(options),
        "python": platform.python_version(),
        **{package: version(package) for package in ("rekindle", "pydantic", "aiohttp")},
    }


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--applications", type=positive, default=100, help="that run at once (default: %(default)s)")
    add("--tasks", type=positive, default=1000, help="of each stage (default: %(default)s)")
    add("--minutes", type=positive, default=3, help="in which nothing is slow (default: %(default)s)")
    add("--slow", type=positive, default=5, help="drivers in which an executor stands still (default: %(default)s)")
    add("--rounds", type=positive, default=1, help="turns of each (default: %(default)s)")
    add("--only", action="append", choices=CONTENDERS, help="only this one; may be given several times")
    return parser


def main() -> int:
    options = make_parser().parse_args()
    try:
        print(f"\n{table(asyncio.run(measure(options)))}\n", flush=True)
    except BaseException as error:
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
