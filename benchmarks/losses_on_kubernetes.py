"""What the loss of a pipeline's driver, of a node, a volume or an executor costs on Kubernetes, beside its peers.

    make cluster
    python benchmarks/losses_on_kubernetes.py                                   each loss at 25, 50 and 75 %, once
    python benchmarks/losses_on_kubernetes.py --lost node --at 75 --rounds 3    in turns, medians and ranges

Real Spark on the cluster of `make cluster`, with Rekindle from this source tree, which is built and installed first.
A pipeline of four stages of equal tasks that sleep, two of which shuffle, on three executors. After a share of the time
that it takes undisturbed something is lost:

    driver        SIGKILL for the driver's JVM, as the kernel does it where memory runs out
    node          the machine of the driver, and of one or two executors, dies, and its Node is deleted at once, as a
                  cloud's controller does; how long a cluster takes to notice a dead machine is not in it
    volume        a PersistentVolume under the claim that holds results: one of two, or the only one where each
                  driver starts over
    executor      the pod of one is deleted by force, with its part of Spark's shuffle; driver and nodes live

    contender     what it is
    undisturbed   nothing is lost
    anew          each driver has a store of its own: it starts over, as with every other operator
    spark         of executors: stages of as many tasks in one plan of Spark's, which stores nothing and makes lost
                  shuffle files again
    shuffles      the same with spec.recovery.shuffleVolumes, Spark's own recovery of shuffle files
    rekindle      spec.recovery.storage

seconds: from when the operator says RUNNING for the first time to COMPLETED, as seen every 0.2 s. since: from the loss
to COMPLETED, which a pipeline's earlier hours do not dilute. Both beside the first of the same loss, anew or spark;
spark undisturbed is there too, as stages end elsewhere than a pipeline's. rerun: task-seconds of tasks that ran again,
where they are told. noticed, next
driver, first task: seconds from the loss until the operator had taken the driver for lost, until the next one ran, and
until its first task that makes a result began: of a stage that shuffles, after all of its map side.

Results go to .build/bench/losses_on_kubernetes.json. Nothing is left behind but Rekindle and a ConfigMap; volumes are
emptied when they are taken next.

exit codes: 0 done; 1 a run did not end well; 2 usage, or no cluster; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench import interleaved
from benchmarks.on_kubernetes.command_line import exit_code, percent, positive, say, show
from benchmarks.on_kubernetes.installed import installed
from benchmarks.results import ResultsFile, Run, Spread, markdown, ratio, spread
from rekindle.controller.resources import Object
from tests.cluster import api, operators
from tests.cluster.api import SPREAD, Application, items, until
from tests.cluster.deployment import JOBS
from tests.kind import levers, storage
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import given_kubeconfig
from tests.kind.processes import Failed

_FOLDER = Path(__file__).resolve().parents[1] / ".build" / "bench"
_PROGRAM = Path(__file__).with_name("on_kubernetes") / "pipelines" / "four_stages.py"
_PROGRAMS, _NAME = "losses-programs", "losses"
_EXECUTORS = 3
_START_SECONDS, _GONE_SECONDS = 180.0, 120.0
_PHASES = ("noticed", "next driver", "first task")
_PEERS = {
    "driver": ("anew", "rekindle"),
    "node": ("anew", "rekindle"),
    "volume": ("anew", "rekindle"),
    "executor": ("spark", "shuffles", "rekindle"),
}
"""[what is lost -> who loses it, the first of whom the others are set beside]"""

_MODES = {"anew": "anew", "spark": "plain", "shuffles": "plain", "rekindle": "keep", "undisturbed": "keep"}
"""[contender -> what its program is told]"""


def manifest(image: str, words: Sequence[str], volumes: int = 1, *, is_shuffle_kept: bool = False) -> Object:
    """The application. Its driver is followed by another at once."""
    pod = {"memory": "600m", "coreRequest": "100m", "configMaps": [{"name": _PROGRAMS, "path": "/app"}]}
    claim = {"storageClassName": storage.CLASS, "resources": {"requests": {"storage": "1Gi"}}}
    recovery: Object = {"storage": {"claimTemplate": claim}, "volumes": volumes}
    conf = {}
    if is_shuffle_kept:
        recovery = {"shuffleVolumes": {"size": "1Gi", "storageClassName": storage.CLASS}}
        conf = {"spark.kubernetes.legacy.useReadWriteOnceAccessMode": "true"}  # what the cluster's volumes have
    spec = {
        "type": "Python",
        "sparkVersion": version("pyspark"),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "mainApplicationFile": f"local:///app/{_PROGRAM.name}",
        "arguments": list(words),
        "restartPolicy": {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1},
        "recovery": recovery,
        "sparkConf": conf,
        "driver": {**pod, "cores": 1, "serviceAccount": "spark"},
        "executor": {**pod, "cores": 1, "instances": _EXECUTORS, "affinity": SPREAD},
    }
    metadata = {"name": _NAME, "namespace": JOBS}
    return {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "metadata": metadata, "spec": spec}


def run_once(image: str, options: argparse.Namespace, contender: str, loss: tuple[str, float] | None) -> Run:
    """One run; `loss`: what is lost, and seconds after it runs. AssertionError or Failed where it does not end well."""
    who = contender.partition(" ")[0]
    volumes = 2 if who == "rekindle" and loss is not None and loss[0] == "volume" else 1
    storage.recycle_volumes()
    words = (str(options.tasks), str(options.seconds), _MODES[who])
    app = Application(manifest(image, words, volumes, is_shuffle_kept=who == "shuffles"))
    _clear(app)
    try:
        with levers.cordoned(operators.pods()[0]["spec"]["nodeName"]):  # the operator is not what is lost
            app.apply().wait_for("RUNNING", "FAILED", seconds=_START_SECONDS)
            began = time.time()
            app.wait_until("its executors", _has_executors, _START_SECONDS)
        if loss is None:
            return Run(contender, 0, _ended(app, options.deadline) - began, details={"rerun": 0.0})
        what, after = loss
        time.sleep(max(0.0, began + after - time.time()))  # its executors may have taken longer to come
        say(f"  the {what} is lost")
        lost = time.time()
        with _lost(app, what):
            details = _phases(app, lost) if what != "executor" else {}
            ended = _ended(app, options.deadline)
        if who == "rekindle":
            details["rerun"] = _rerun(app)
        if who == "anew":
            details["rerun"] = after * _EXECUTORS  # who starts over makes all again that there was
        if "next driver" in details and (first := app.said("drivers")[-1][-1]["firstTask"]) is not None:
            details["first task"] = first - lost
        return Run(contender, 0, ended - began, details={**details, "since": ended - lost})
    finally:
        _clear(app)


def _has_executors(status: Object) -> bool:
    return int(status.get("executors", {}).get("running", 0)) == _EXECUTORS


@contextmanager
def _lost(app: Application, what: str) -> Iterator[None]:
    """Take something away, and give back what the cluster needs afterwards."""
    if what == "driver":
        app.kill_driver()
        yield
    elif what == "executor":
        api.kill(JOBS, min(pod["metadata"]["name"] for pod in app.executors()))
        yield
    elif what == "node":
        driver = app.driver()
        assert driver is not None, app.tell()
        with levers.gone(driver["spec"]["nodeName"]):
            yield
    else:
        claims = sorted(app.claims(), key=lambda claim: str(claim["metadata"]["name"]))
        with storage.lost(claims[-1]["spec"]["volumeName"]):  # the first has the journal
            yield


def _phases(app: Application, lost: float) -> dict[str, float]:
    """What the operator does about a loss, in seconds since then."""
    app.wait_for("PENDING_RERUN", "SUBMITTED", "FAILED", seconds=_START_SECONDS)
    noticed = time.time() - lost
    app.wait_until("the next driver", _is_next, _START_SECONDS)
    return {"noticed": noticed, "next driver": time.time() - lost}


def _is_next(status: Object) -> bool:
    return status.get("attempt") == 2 and (status.get("applicationState") or {}).get("state") == "RUNNING"


def _ended(app: Application, deadline: float) -> float:
    """When it was seen to be complete. Raises Failed where it is not."""
    state, ended = app.wait_for("COMPLETED", "FAILED", seconds=deadline), time.time()
    if state != "COMPLETED":
        raise Failed(f"it is {state}: {app.tell()}")
    return ended


def _rerun(app: Application) -> float:
    """Task-seconds of tasks that ran again, as its last driver says."""
    (report,) = app.said("report")
    return float(report["spent"]["rerunTaskSeconds"])


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
    results = ResultsFile(options.folder / "losses_on_kubernetes.json")
    settings = {name: getattr(options, name) for name in ("lost", "at", "rounds", "tasks", "seconds")}
    about = {"cores": os.cpu_count(), "settings": settings, "rekindle": version("rekindle")}

    def add(contender: str, number: int, loss: tuple[str, float] | None) -> None:
        say(f"round {number}, {contender}")
        try:
            run = run_once(images.spark, options, contender, loss)
            found.append(Run(run.contender, number, run.seconds, details=run.details))
        except (Failed, AssertionError, ValueError, LookupError) as error:  # the last two: its driver told too little
            say(f"  {error}")
            found.append(Run(contender, number, error=str(error).partition("\n")[0]))
        results.save("losses", about, found)
        say(f"  {found[-1].error or f'{found[-1].seconds:.1f} s, {dict(found[-1].details)}'}")

    for number in range(1, options.rounds + 1):
        for name in _undisturbed(options.lost):
            add(name, number, None)
    for number, name in interleaved(_names(options.lost, options.at), range(1, options.rounds + 1)):
        who, what, share = name.split()
        whole = spread(found, _whole(who))
        if whole is not None:
            add(name, number, (what, whole.median * float(share) / 100))
    return found


def _names(losses: Iterable[str], shares: Iterable[int]) -> list[str]:
    return [f"{who} {what} {share}" for share in shares for what in losses for who in _PEERS[what]]


def _undisturbed(losses: Iterable[str]) -> list[str]:
    """Those of whose time a share passes before a loss."""
    return list(dict.fromkeys(_whole(who) for what in losses for who in _PEERS[what]))


def _whole(who: str) -> str:
    """A contender's run without a loss."""
    return "spark undisturbed" if _MODES[who] == "plain" else "undisturbed"


def table(found: Sequence[Run], losses: Sequence[str], shares: Sequence[int]) -> str:
    """A line for each contender, with its time beside that of starting over: from the start, and from the loss."""

    def detail(name: str) -> Callable[[Run], float]:
        return lambda run: float(run.details[name])

    def told(contender: str, name: str) -> Spread | None:
        return spread([run for run in found if name in run.details], contender, detail(name))

    since = detail("since")
    nothing: list[None] = [None] * (4 + len(_PHASES))
    rows: list[tuple[object, ...]] = [(name, spread(found, name), *nothing) for name in _undisturbed(losses)]
    for name in _names(losses, shares):
        _, what, share = name.split()
        first = f"{_PEERS[what][0]} {what} {share}"
        times = (spread(found, name), ratio(found, name, first))
        after = (spread(found, name, since), ratio(found, name, first, since))
        rows.append((name, *times, *after, *(told(name, title) for title in ("rerun", *_PHASES))))
    head = ("lost at %", "seconds", "times the first", "since", "times the first", "rerun task-s", *_PHASES)
    return markdown(head, rows)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "--lost",
        nargs="+",
        choices=list(_PEERS),
        default=list(_PEERS),
        metavar="WHAT",
        help=f"of {', '.join(_PEERS)} (default: each)",
    )
    add("--at", nargs="+", type=percent, default=[25, 50, 75], metavar="PERCENT", help="(default: 25 50 75)")
    add("--rounds", type=positive, default=1, help="how often each contender runs (default: %(default)s)")
    add("--tasks", type=positive, default=12, help="of each stage (default: %(default)s)")
    add("--seconds", type=positive, default=10, help="that a task takes (default: %(default)s)")
    add("--deadline", type=positive, default=900, help="seconds after which a run failed (default: %(default)s)")
    add("--folder", type=Path, default=_FOLDER, help="where results go (default: .build/bench)")
    add("--markdown", type=Path, metavar="FILE", help="write the table there too")
    return parser


def main() -> int:
    options = make_parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an error it has everything undone
    problem = "unset REKINDLE_TEST_KUBECONFIG" if given_kubeconfig() is not None else why_unhealthy()
    if problem is not None:
        print(f"losses_on_kubernetes.py: no measurement: {problem}; `make cluster`", file=sys.stderr)
        return 2
    try:
        found = measure(options)
    except (KeyboardInterrupt, Failed) as error:
        return exit_code(error, "the application is removed")
    return show(found, table(found, options.lost, options.at), options.markdown)


if __name__ == "__main__":
    sys.exit(main())
