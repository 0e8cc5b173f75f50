"""What the operator costs, on a real Kubernetes: a submission, a whole life, and applications that only run.

    python benchmarks/kube_operator.py                       all of it; seven minutes
    python benchmarks/kube_operator.py --only submission     beside spark-submit, in turns

The cluster is that of `make cluster`, or of REKINDLE_TEST_KUBECONFIG. The operator runs as a process of this machine,
so that its CPU time and memory are the kernel's own accounts. No pod is ever placed on a node: what a kubelet would
say of it is said here, so only the operator is measured, not Spark.

    submission   spark-submit and the operator take turns with the same application; one turn of each is not counted
    life         submitted, running, completed, deleted: applications that come at a steady rate
    idle         applications that run, each a driver and two executors, while nothing happens; and a restart with them

Results go to .build/bench/operator.json, the tables to the terminal, what the processes logged to .build/bench/logs.
An operator that is installed in rekindle-system is scaled to 0 meanwhile.

exit codes: 0 done; 1 something was wrong, and is said; 2 usage, or no cluster; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.on_kubernetes.application import EXECUTORS, spark_submit_of
from benchmarks.on_kubernetes.cluster import check_undisturbed, namespace, prepared, why_not
from benchmarks.on_kubernetes.command_line import exit_code, positive
from benchmarks.on_kubernetes.fleet import Fleet, Lives, Standing
from benchmarks.on_kubernetes.processes import Child, OperatorProcess, adopt_orphans, total
from benchmarks.results import markdown
from rekindle.controller.kube import Kube
from rekindle.local.watchdog import Watchdog
from tests.kind.kubectl import kubeconfig, kubectl
from tests.kind.processes import Failed, say
from tests.kind.spark_submit import spark_submit_environment

RESULTS = Path(__file__).resolve().parents[1] / ".build" / "bench" / "operator.json"
LOOKS = "rekindle_reconciles_total"
SETTLED_SECONDS = 2.0  # what follows a submission: events, and that the pod is not scheduled


@dataclass(frozen=True)
class Bench:
    """One call: the command line, a connection, and who ends what is left if this process is killed."""

    options: argparse.Namespace
    kube: Kube
    watchdog: Watchdog


@dataclass(frozen=True)
class Submission:
    """One by spark-submit. Seconds until the driver's pod was seen, and until the command had ended."""

    pod_seconds: float
    seconds: float
    core_seconds: float
    peak_mb: float


async def submission(bench: Bench) -> dict[str, Any]:
    theirs: list[Submission] = []
    own_turns: list[float] = []
    async with (
        namespace(bench.kube, "bench-submission") as place,
        Fleet(bench.kube, place) as fleet,
        operator_of(place, bench) as operator,
    ):
        for number in range(bench.options.applications + 1):
            theirs.append(await their_turn(f"theirs-{number}", fleet, operator, bench))
            own_turns.append(await our_turn(f"ours-{number}", fleet, operator))
            wait, first = fleet.waits()[-1], " (not counted)" * (not number)
            say(f"turn {number}: pod after {theirs[-1].pod_seconds:.2f} s, ours after {wait:.3f} s{first}")
            if not number:
                began, used, rss = time.monotonic(), operator.core_seconds(), operator.rss_mb()
        found = {
            "theirs": [vars(one) for one in theirs[1:]],
            "pod_seconds": fleet.waits()[1:],
            "core_seconds_in_own_turns": own_turns[1:],
            "core_seconds": operator.core_seconds() - used,
            "seconds": time.monotonic() - began,
            "rss_mb": [rss, operator.rss_mb()],
            "peak_mb": operator.peak_mb(),
        }
        if set(fleet.states()) != {"SUBMITTED"}:
            raise Failed(f"not all applications are SUBMITTED: {dict(fleet.states())}")
        return found


async def their_turn(name: str, fleet: Fleet, operator: OperatorProcess, bench: Bench) -> Submission:
    command = spark_submit_of(name, fleet.namespace)
    with Child(command, spark_submit_environment(), "spark-submit", bench.watchdog) as child:
        await operator.until("spark-submit ended", lambda: child.poll() is not None, 180)
        seconds = time.monotonic() - child.began
        if child.poll():
            raise Failed(f"spark-submit ended with exit code {child.poll()}; {child.last_words()}")
        await operator.until("the driver's pod of spark-submit", lambda: name in fleet.seen, 30)
        used = child.end()
    return Submission(fleet.seen[name] - child.began, seconds, used.core_seconds, used.peak_mb)


async def our_turn(name: str, fleet: Fleet, operator: OperatorProcess) -> float:
    """Core-seconds of the operator, with what follows a submission."""
    before = operator.core_seconds()
    await fleet.apply(name)
    await operator.until(f"the driver's pod of {name}", lambda: name in fleet.seen, 60)
    await asyncio.sleep(SETTLED_SECONDS)
    return operator.core_seconds() - before


def submission_table(found: dict[str, Any]) -> str:
    theirs = {name: [one[name] for one in found["theirs"]] for name in vars(Submission(0, 0, 0, 0))}
    count, (before, after) = len(found["pod_seconds"]), found["rss_mb"]
    each, own = found["core_seconds"] / count, mean(found["core_seconds_in_own_turns"])
    cores = theirs["core_seconds"]
    rows = [
        versus("seconds until the driver's pod is there", theirs["pod_seconds"], found["pod_seconds"]),
        ("seconds until spark-submit has ended", spread(theirs["seconds"]), None, None),
        ("core-seconds, in its own turns", spread(cores), f"{own:.3f}", f"{mean(cores) / own:.0f}"),
        ("core-seconds, all turns", spread(cores), f"{each:.3f}", f"{mean(cores) / each:.0f}"),
        ("peak memory, MB", spread(theirs["peak_mb"]), f"{found['peak_mb']:.1f}", None),
        ("memory before and after all, MB", None, f"{before:.1f}, {after:.1f}", None),
    ]
    return markdown((f"{count} submissions each", "spark-submit", "Rekindle", "times"), rows)


async def life(bench: Bench) -> dict[str, Any]:
    count, rate = bench.options.lives, bench.options.rate
    async with (
        namespace(bench.kube, "bench-life") as place,
        Lives(bench.kube, place) as fleet,
        operator_of(place, bench) as operator,
    ):
        began, used, rss = time.monotonic(), operator.core_seconds(), operator.rss_mb()
        say(f"{count} applications, {rate:g} per second")
        await fleet.apply_all(count, rate)
        await operator.until("all have lived and are gone", lambda: fleet.gone == count, count / rate + 180)
        return {
            "applications": count,
            "rate": rate,
            "seconds": time.monotonic() - began,
            "core_seconds": operator.core_seconds() - used,
            "pod_seconds": fleet.waits(),
            "reaction_seconds": fleet.reactions,
            "rss_mb": [rss, operator.rss_mb()],
            "peak_mb": operator.peak_mb(),
        }


def life_table(found: dict[str, Any]) -> str:
    waits = quantiles(found["pod_seconds"], n=100, method="inclusive")
    reactions = quantiles(found["reaction_seconds"], n=100, method="inclusive")
    rows = [
        ("core-seconds for each", f"{found['core_seconds'] / found['applications']:.3f}"),
        ("seconds until the driver's pod is there: median", f"{waits[49]:.3f}"),
        ("the same: 99th percentile", f"{waits[98]:.3f}"),
        ("seconds from a pod's change until the status says so: median", f"{reactions[49]:.3f}"),
        ("the same: 99th percentile", f"{reactions[98]:.3f}"),
        ("seconds from the first apply until the last is gone", f"{found['seconds']:.1f}"),
        ("memory before and after all, MB", "{:.1f}, {:.1f}".format(*found["rss_mb"])),
    ]
    return markdown((f"{found['applications']} whole lives, {found['rate']:g} per second", "Rekindle"), rows)


async def idle(bench: Bench) -> dict[str, Any]:
    count, seconds = bench.options.live, bench.options.idle_seconds
    async with namespace(bench.kube, "bench-idle") as place, Standing(bench.kube, place) as fleet:
        async with operator_of(place, bench) as operator:
            nothing = await idle_cost(operator, seconds, 0)
            say(f"{count} applications with {EXECUTORS} executors each")
            await fleet.apply_all(count, bench.options.rate)
            await operator.until("all run with their executors", lambda: fleet.complete() == count, count / 2 + 180)
            with_all = await idle_cost(operator, seconds, count)
        say("the operator starts again")
        with OperatorProcess(place, bench.watchdog) as operator:
            restart = await convergence(operator, count)
            return {"applications": count, "seconds": seconds, "nothing": nothing, "all": with_all, "restart": restart}


async def idle_cost(operator: OperatorProcess, seconds: float, count: int) -> dict[str, float]:
    """Per cent of a core, MB and looks, once what went before has settled."""
    await asyncio.sleep(10 * SETTLED_SECONDS)
    say(f"{count} applications: {seconds:g} s in which nothing happens")
    looks = total(await operator.metrics(), LOOKS)
    before = operator.core_seconds()
    await asyncio.sleep(seconds)
    operator.check()
    used, rss = operator.core_seconds() - before, operator.rss_mb()
    return {"percent": 100 * used / seconds, "rss_mb": rss, "looks": total(await operator.metrics(), LOOKS) - looks}


async def convergence(operator: OperatorProcess, count: int) -> dict[str, float]:
    """Seconds since the operator's start until its last look and until its metrics have all; what it used by then."""
    looks, last_look = 0.0, operator.began

    async def counted() -> bool:
        nonlocal looks, last_look
        found = await operator.metrics()
        if (now := total(found, LOOKS)) > looks:
            looks, last_look = now, time.monotonic()
        return total(found, "rekindle_applications", state="RUNNING") == count

    await operator.until("all applications in the metrics", counted, 120, every=0.1)
    used, seconds = operator.core_seconds(), time.monotonic() - operator.began
    return {"seconds": seconds, "last_look": last_look - operator.began, "looks": looks, "core_seconds": used}


def idle_table(found: dict[str, Any]) -> str:
    nothing, with_all, restart = found["nothing"], found["all"], found["restart"]
    rows = [
        ("per cent of a core", f"{nothing['percent']:.2f}", f"{with_all['percent']:.2f}"),
        ("memory, MB", f"{nothing['rss_mb']:.1f}", f"{with_all['rss_mb']:.1f}"),
        ("looks at an application", f"{nothing['looks']:.0f}", f"{with_all['looks']:.0f}"),
        ("seconds from a restart until its last look", None, f"{restart['last_look']:.1f}"),
        ("seconds from a restart until all are in the metrics", None, f"{restart['seconds']:.1f}"),
        ("core-seconds by then", None, f"{restart['core_seconds']:.2f}"),
    ]
    return markdown((f"{found['seconds']:g} s idle", "no application", f"{found['applications']} running"), rows)


def spread(values: Sequence[float]) -> str:
    """Median, lowest and highest, with as many digits as small ones need."""
    digits = 0 if median(values) >= 100 else 2 if median(values) >= 1 else 3
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def versus(title: str, theirs: Sequence[float], ours: Sequence[float]) -> tuple[str, str, str, str]:
    return title, spread(theirs), spread(ours), f"{median(theirs) / median(ours):.0f}"


@asynccontextmanager
async def operator_of(place: str, bench: Bench) -> AsyncIterator[OperatorProcess]:
    """The operator, working; gone at the end."""
    with OperatorProcess(place, bench.watchdog) as operator:
        say(f"the operator of {place} works after {await operator.until_it_works():.1f} s")
        await asyncio.sleep(SETTLED_SECONDS)
        yield operator
        operator.check()


def save(name: str, found: dict[str, Any], options: argparse.Namespace) -> None:
    """Replace what is kept of a scenario."""
    about = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "settings": vars(options),
        "kubernetes": json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"],
        "python": platform.python_version(),
        **{package: version(package) for package in ("rekindle", "pyspark", "kopf")},
    }
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    aside = RESULTS.with_suffix(".new")
    aside.write_text(json.dumps({**kept, name: {"about": about, **found}}, indent=1) + "\n")
    os.replace(aside, RESULTS)


Scenario = Callable[[Bench], Coroutine[Any, Any, dict[str, Any]]]
SCENARIOS: dict[str, tuple[Scenario, Callable[[dict[str, Any]], str]]] = {
    "submission": (submission, submission_table),
    "life": (life, life_table),
    "idle": (idle, idle_table),
}


async def measure(names: Sequence[str], options: argparse.Namespace) -> None:
    """Run scenarios; each is saved and shown as soon as it is there."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)  # so all that was made is removed
    kube = await Kube.connect()
    try:
        with Watchdog() as watchdog, prepared():
            for name in names:
                run, table = SCENARIOS[name]
                found = await run(Bench(options, kube, watchdog))
                check_undisturbed()
                save(name, found, options)
                print(f"\n### {name}\n\n{table(found)}\n", flush=True)
    finally:
        await kube.close()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", action="append", choices=list(SCENARIOS), help="only this scenario; may be given several times")
    add("--applications", type=positive, default=20, help="submissions of each side (default: %(default)s)")
    add("--lives", type=positive, default=50, help="applications that live and go (default: %(default)s)")
    add("--live", type=positive, default=200, help="applications that only run (default: %(default)s)")
    add("--rate", type=positive, default=5, help="applications sent per second (default: %(default)s)")
    add("--idle-seconds", type=positive, default=60, help="seconds of idleness (default: %(default)s)")
    return parser


def main() -> int:
    options = make_parser().parse_args()
    names = options.only or list(SCENARIOS)
    if (problem := why_not(names)) is not None:
        print(f"kube_operator.py: no measurement: {problem}", file=sys.stderr)
        return 2
    os.environ["KUBECONFIG"] = str(kubeconfig())
    adopt_orphans()
    try:
        asyncio.run(measure(names, options))
    except BaseException as error:
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
