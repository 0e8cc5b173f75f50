"""One application beside a slow node: placed, held, let go, followed to its answer; and nothing is left of it.

Nobody asks the cluster for anything while the application is measured: its driver's log is followed, and what the
operator did is read from its events afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.on_kubernetes.apps.measured import GO
from benchmarks.on_kubernetes.contenders import EXECUTORS, FROM_THE_START, NEVER, SICK, Contender, Scenario, manifest
from benchmarks.on_kubernetes.driver_log import DriverLog
from benchmarks.on_kubernetes.nodes import Places, hold, places, release, undone
from benchmarks.on_kubernetes.outcome import Note, Told, notes_of
from tests.cluster.api import Application, items
from tests.cluster.deployment import JOBS, NAMESPACE
from tests.cluster.node_blocks import blocks, marked_nodes
from tests.kind import kubelet, levers
from tests.kind.cluster import WORKERS
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

PREFIX = "slow-node-"
"""Of the names of all applications of these measurements."""

_EVERY, _SILENCE = 1.0, 9.0
_START_SECONDS, _END_SECONDS, _GONE_SECONDS = 240.0, 120.0, 150.0
_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # what guests used is in user and nice already
_SETTLED_SECONDS = 2.0  # until the operator has sent its last events


@dataclass(frozen=True)
class Bench:
    """What all runs of a call have in common; `words` are the arguments of the program, `say` prints a line."""

    letter: str
    scenario: Scenario
    words: list[str]
    image: str
    deadline: float
    logs: Path
    say: Callable[[str], None]

    def wait(self, what: str, seen: Callable[[], Any], seconds: float, state: Callable[[], str] = lambda: "") -> Any:
        """What `seen` returns once it is true; the state is said every ten seconds. Raises Failed where it is late."""
        began = told = time.monotonic()
        while not (found := seen()):
            now = time.monotonic()
            if now - began > seconds:
                raise Failed(f"not seen within {seconds:g} s: {what}; {state()}")
            if now - told > _SILENCE:
                told = now
                self.say(f"  waiting for {what}: {state()}")
            time.sleep(_EVERY)
        return found


def run_once(bench: Bench, contender: Contender, number: int) -> Told:
    """Run number so-and-so. Raises Failed, and AssertionError with what the cluster says, where there is no answer."""
    logs = bench.logs / f"{bench.letter}-{contender.name}-{number}"
    where = places()
    title = f"{PREFIX}{bench.letter}-{contender.name.replace('.', '-')}"
    app = Application(manifest(title, contender, bench.scenario, bench.words, bench.image, where.driver))
    clear(app, bench)
    with ExitStack() as undo:
        if contender.cordoned:
            kubectl("cordon", where.sick)
            undo.callback(undone(lambda: kubectl("uncordon", where.sick)))
        undo.callback(undone(lambda: clear(app, bench)))
        undo.callback(undone(release))
        since = time.time()
        undo.callback(undone(lambda: _save_operators_log(since, logs)))
        result = _measured(app, contender, where, bench, logs)
        undone(release)()
        _finish(app, bench)
        sick = where.sick if contender.sick and bench.scenario.moment != NEVER else None
        return Told(result, _notes(app, since), sick)


def _measured(app: Application, contender: Contender, where: Places, bench: Bench, logs: Path) -> dict[str, Any]:
    """What the driver tells at its end."""
    is_sick = contender.sick and not contender.cordoned
    app.apply()
    bench.wait(f"{app.name} runs", lambda: _runs(app), _START_SECONDS, lambda: _state(app))
    driver = app.driver()
    if driver is None:
        raise Failed(f"no driver of {app.name}; {app.tell()}")
    with DriverLog(driver["metadata"]["name"], JOBS, logs / "driver.log") as log:
        ready = _next(log, "ready", app, bench, _START_SECONDS)
        _check_places(ready["nodes"], where, contender)
        hold(where.sick if is_sick and bench.scenario.moment == FROM_THE_START else None)
        began, busy = time.monotonic(), _busy_seconds()
        kubectl("exec", driver["metadata"]["name"], "-n", JOBS, "-c", kubelet.DRIVER, "--", "touch", str(GO))
        bench.say("  executors on " + ", ".join(ready["nodes"]) + "; it begins")
        result = _next(log, "result", app, bench, bench.deadline, where.sick if is_sick else None)
        return {**result, "busy": (_busy_seconds() - busy) / (time.monotonic() - began)}


def _busy_seconds() -> float:
    """Seconds in which a core of this machine did something, for whomever."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.values()) - sum(times.get(name, 0.0) for name in _NOT_BUSY))


def _next(
    log: DriverLog, wanted: str, app: Application, bench: Bench, seconds: float, sick: str | None = None
) -> dict[str, Any]:
    """What the driver tells under that word; at its moment the node becomes sick."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        told = log.told(_SILENCE)
        if told is None:
            state = _state(app)
            bench.say(f"  waiting for {wanted!r} of {app.name}: {state}")
            if state.startswith(("FAILED", "COMPLETED", "PENDING_RERUN")):
                raise Failed(f"{app.name} ended without its {wanted!r}: {app.tell()}")
            continue
        word, what = told
        if word == wanted:
            return what
        if word == "moment" and sick is not None:
            levers.slow(sick, SICK)
            bench.say(f"  {sick} is sick from now on")
        elif word == "progress":
            bench.say(f"  {what['done']} of {what['tasks']} tasks of the active stages are done")
    raise Failed(f"no {wanted!r} of {app.name} within {seconds:g} s")


def _runs(app: Application) -> bool:
    state = app.state
    if state in ("FAILED", "COMPLETED"):
        raise Failed(f"{app.name} is {state}: {app.tell()}")
    return state == "RUNNING"


def _state(app: Application) -> str:
    pods = [
        f"{pod['metadata']['name'].rpartition('-exec-')[2]} {pod['status'].get('phase')}" for pod in app.executors()
    ]
    return f"{app.state or 'new'}, executors: {', '.join(pods) or 'none'}"


def _check_places(nodes: list[str], where: Places, contender: Contender) -> None:
    wanted = {where.operator, where.driver} if contender.cordoned else set(WORKERS)
    if set(nodes) != wanted or len(nodes) != EXECUTORS:
        raise Failed(f"{EXECUTORS} executors were to be on {', '.join(sorted(wanted))}, and are on {', '.join(nodes)}")


def _finish(app: Application, bench: Bench) -> None:
    bench.wait(f"{app.name} ends", lambda: app.state in ("COMPLETED", "FAILED"), _END_SECONDS, lambda: _state(app))
    if app.state != "COMPLETED":
        raise Failed(f"{app.name} is {app.state}: {app.tell()}")
    time.sleep(_SETTLED_SECONDS)


def _notes(app: Application, since: float) -> list[Note]:
    """The operator's events of the application and of nodes, which lie in the namespace default."""
    about = kubectl("get", "events.v1.events.k8s.io", "-n", "default", "-o", "json")
    return notes_of([*app.events(), *json.loads(about)["items"]], since)


def _save_operators_log(since: float, logs: Path) -> None:
    moment = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = kubectl("logs", "deployment/rekindle", "-n", NAMESPACE, f"--since-time={moment}")
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "operator.log").write_text(text, encoding="utf-8")


def clear(app: Application, bench: Bench) -> None:
    """Nothing is left of the application, of its blocks and of their marks."""
    app.delete(wait=False)
    pods = f"rekindle.dev/application={app.name}"
    bench.wait(f"the end of the pods of {app.name}", lambda: not items("pods", JOBS, pods), _GONE_SECONDS)
    names = [block["metadata"]["name"] for block in blocks() if app_of(block) == {f"{JOBS}/{app.name}"}]
    if names:
        kubectl("delete", "nodeblocks", *names, "--ignore-not-found")
        bench.wait("no marked nodes", lambda: not marked_nodes(), _GONE_SECONDS)


def app_of(block: dict[str, Any]) -> set[str]:
    """The applications that asked for a block."""
    return set(block["spec"].get("applications") or ())
