"""What the loss of a pipeline's driver costs on Kubernetes, beside starting over.

    make cluster
    python benchmarks/lost_driver_on_kubernetes.py                          25, 50 and 75 %, each contender once
    python benchmarks/lost_driver_on_kubernetes.py --at 75 --rounds 3       in turns, medians and ranges

Real Spark on the cluster of `make cluster`, with Rekindle from this source tree, which is built and installed first.
A pipeline of four stages of equal tasks that sleep, two of which shuffle, on three executors. Its driver is killed
(SIGKILL) after a share of the time that the pipeline takes undisturbed; the operator starts the next one.

    contender     what it is
    undisturbed   nobody kills its driver
    anew          each driver has a store of its own: it starts over, as with every other operator
    rekindle      spec.recovery.storage

seconds: from when the operator says RUNNING for the first time to COMPLETED, as seen every 0.2 s. rerun: task-seconds
of tasks that ran again. noticed, next driver, first task: seconds from the kill until the operator had taken the driver
for lost, until the next one ran, and until its first task began.

Results go to .build/bench/lost_driver_on_kubernetes.json. Nothing is left behind but Rekindle and a ConfigMap.

exit codes: 0 done; 1 a run did not end well; 2 usage, or no cluster; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench import interleaved
from benchmarks.on_kubernetes.command_line import positive, say, show
from benchmarks.on_kubernetes.installed import installed
from benchmarks.results import ResultsFile, Run, markdown, ratio, spread
from rekindle.controller.resources import Object
from tests.cluster import api
from tests.cluster.api import SPREAD, Application, items, until
from tests.cluster.deployment import JOBS
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import given_kubeconfig
from tests.kind.processes import Failed
from tests.kind.storage import CLASS, recycle_volumes

_FOLDER = Path(__file__).resolve().parents[1] / ".build" / "bench"
_PROGRAM = Path(__file__).with_name("on_kubernetes") / "pipelines" / "four_stages.py"
_PROGRAMS, _NAME = "lost-driver-programs", "lost-driver"
_EXECUTORS = 3
_START_SECONDS, _GONE_SECONDS = 180.0, 120.0
_PHASES = ("noticed", "next driver", "first task")


def manifest(image: str, words: Sequence[str]) -> Object:
    """The application. Its driver is followed by another at once."""
    pod = {"memory": "600m", "coreRequest": "100m", "configMaps": [{"name": _PROGRAMS, "path": "/app"}]}
    storage = {"claimTemplate": {"storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}}
    spec = {
        "type": "Python",
        "sparkVersion": version("pyspark"),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "mainApplicationFile": f"local:///app/{_PROGRAM.name}",
        "arguments": list(words),
        "restartPolicy": {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1},
        "recovery": {"storage": storage},
        "driver": {**pod, "cores": 1, "serviceAccount": "spark"},
        "executor": {**pod, "cores": 1, "instances": _EXECUTORS, "affinity": SPREAD},
    }
    metadata = {"name": _NAME, "namespace": JOBS}
    return {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "metadata": metadata, "spec": spec}


def run_once(image: str, options: argparse.Namespace, contender: str, kill_at: float | None) -> Run:
    """One run; `kill_at`: seconds after it runs. Raises AssertionError or Failed where it does not end well."""
    words = (str(options.tasks), str(options.seconds), "anew" if contender.startswith("anew") else "keep")
    recycle_volumes()
    app = Application(manifest(image, words))
    _clear(app)
    try:
        app.apply()
        app.wait_for("RUNNING", "FAILED", seconds=_START_SECONDS)
        began = time.time()
        phases = _kill(app, began + kill_at) if kill_at is not None else {}
        app.wait_for("COMPLETED", "FAILED", seconds=options.deadline)
        seconds = time.time() - began
        if app.state != "COMPLETED":
            raise Failed(f"it is {app.state}: {app.tell()}")
        (report,), (drivers,) = app.said("report"), app.said("drivers")
        if kill_at is not None and (first := drivers[-1]["firstTask"]) is not None:
            phases["first task"] = first - phases.pop("killed")
        return Run(contender, 0, seconds, details={**phases, "rerun": _rerun(contender, report, kill_at)})
    finally:
        _clear(app)


def _kill(app: Application, at: float) -> dict[str, float]:
    """Kill the driver, and look what the operator does: the moment, and seconds from it on."""
    time.sleep(max(0.0, at - time.time()))
    say("  the driver is killed")
    app.kill_driver()
    killed = time.time()
    app.wait_for("PENDING_RERUN", "SUBMITTED", "FAILED", seconds=_START_SECONDS)
    noticed = time.time() - killed
    until("the next driver", lambda: app.status.get("attempt") == 2 and app.state == "RUNNING", _START_SECONDS)
    return {"killed": killed, "noticed": noticed, "next driver": time.time() - killed}


def _rerun(contender: str, report: Any, kill_at: float | None) -> float:
    """Task-seconds that were made again; who starts over makes again all that there was."""
    if kill_at is None or not contender.startswith("anew"):
        return float(report["spent"]["rerunTaskSeconds"])
    return kill_at * _EXECUTORS


def _clear(app: Application) -> None:
    app.delete()
    pods = f"rekindle.dev/application={app.name}"
    until(f"the end of the pods of {app.name}", lambda: not items("pods", JOBS, pods), _GONE_SECONDS)


def measure(options: argparse.Namespace) -> list[Run]:
    """All runs; each is saved, and told in a line, as soon as it is there."""
    images = installed()
    data = {_PROGRAM.name: _PROGRAM.read_text(encoding="utf-8")}
    metadata = {"name": _PROGRAMS, "namespace": JOBS}
    api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    found: list[Run] = []
    results = ResultsFile(options.folder / "lost_driver_on_kubernetes.json")
    settings = {name: getattr(options, name) for name in ("at", "rounds", "tasks", "seconds")}
    about = {"cores": os.cpu_count(), "settings": settings, "rekindle": version("rekindle")}

    def add(contender: str, number: int, kill_at: float | None) -> None:
        say(f"round {number}, {contender}")
        try:
            run = run_once(images.spark, options, contender, kill_at)
            found.append(Run(run.contender, number, run.seconds, details=run.details))
        except (Failed, AssertionError) as error:
            say(f"  {error}")
            found.append(Run(contender, number, error=str(error).partition("\n")[0]))
        results.save("lost_driver", about, found)
        say(f"  {found[-1].error or f'{found[-1].seconds:.1f} s, {dict(found[-1].details)}'}")

    for number in range(1, options.rounds + 1):
        add("undisturbed", number, None)
    whole = spread(found, "undisturbed")
    if whole is None:
        return found
    for number, name in interleaved(_names(options.at), range(1, options.rounds + 1)):
        add(name, number, whole.median * float(name.rpartition(" ")[2]) / 100)
    return found


def _names(shares: Iterable[int]) -> list[str]:
    return [f"{who} {share}" for share in shares for who in ("anew", "rekindle")]


def table(found: Sequence[Run], shares: Sequence[int]) -> str:
    """A line for each contender, with its time beside that of starting over."""

    def detail(name: str) -> Callable[[Run], float]:
        return lambda run: float(run.details.get(name, 0.0))

    rows = []
    for name in ("undisturbed", *_names(shares)):
        share = name.rpartition(" ")[2]
        against = ratio(found, name, f"anew {share}") if name != "undisturbed" else None
        spent = [spread(found, name, detail(title)) if name != "undisturbed" else None for title in _PHASES]
        rows.append((name, spread(found, name), against, spread(found, name, detail("rerun")), *spent))
    return markdown(("lost at %", "seconds", "times starting over", "rerun task-s", *_PHASES), rows)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--at", nargs="+", type=positive, default=[25, 50, 75], metavar="PERCENT", help="(default: 25 50 75)")
    add("--rounds", type=positive, default=1, help="how often each contender runs (default: %(default)s)")
    add("--tasks", type=positive, default=12, help="of each stage (default: %(default)s)")
    add("--seconds", type=positive, default=4, help="that a task takes (default: %(default)s)")
    add("--deadline", type=positive, default=900, help="seconds after which a run failed (default: %(default)s)")
    add("--folder", type=Path, default=_FOLDER, help="where results go (default: .build/bench)")
    add("--markdown", type=Path, metavar="FILE", help="write the table there too")
    return parser


def main() -> int:
    options = make_parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an error it has everything undone
    problem = "unset REKINDLE_TEST_KUBECONFIG" if given_kubeconfig() is not None else why_unhealthy()
    if problem is not None:
        print(f"lost_driver_on_kubernetes.py: no measurement: {problem}; `make cluster`", file=sys.stderr)
        return 2
    try:
        found = measure(options)
    except KeyboardInterrupt:
        say("interrupted; the application is removed")
        return 130
    except Failed as error:
        print(f"lost_driver_on_kubernetes.py: {error}", file=sys.stderr)
        return 1
    return show(found, table(found, options.at), options.markdown)


if __name__ == "__main__":
    sys.exit(main())
