"""The driver killed at a quarter, half and three quarters of the work, against starting over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from benchmarks import event_log
from benchmarks.bench import Bench
from benchmarks.data import tpch_data
from benchmarks.recovery import account, run_seconds
from benchmarks.results import Run, Spread, core_seconds, markdown, spread
from benchmarks.tpch.oracle import difference
from rekindle.local.sessions import end_sessions
from rekindle.runtime.journal import JournalFollower, read_run
from rekindle.runtime.layout import LEASE
from rekindle.runtime.store import Store

NAME = "killed-driver"

APP = Path(__file__).resolve().parents[1] / "tpch" / "app.yaml"
FULL = "undisturbed"
SHARES = (0.25, 0.5, 0.75)
_POLL = 0.1
_STOP_SECONDS = 40.0


def title(share: float) -> str:
    """The contender whose driver is killed at this share of the work."""
    return f"driver killed at {share:.0%}"


def runs(bench: Bench) -> Iterator[Run]:
    """`rekindle run` undisturbed, then with its driver killed after shares of the time that this took."""
    data = tpch_data(bench.settings.scale, bench.cache / "data")
    for number in bench.rounds:
        full = _run(bench, data, number, FULL, None)
        yield full
        for share in SHARES:
            yield _run(bench, data, number, title(share), None if full.error else share * full.seconds)


def _run(bench: Bench, data: Path, number: int, name: str, kill_after: float | None) -> Run:
    """One `rekindle run`; `kill_after` is in seconds from the run's first record."""
    if name != FULL and kill_after is None:
        return Run(name, number, error="the undisturbed run failed, so it is unknown when to kill")
    with bench.folder("run") as folder:
        store, report = folder / "store", folder / "report.json"
        command = [sys.executable, "-m", "rekindle.cli", "run", str(_manifest(folder))]
        command += ["--store", str(store), "--report", str(report)]
        with _started(bench, name, command, {"TPCH_DATA": str(data), "TPCH_OUT": str(folder / "out")}) as process:
            killed_at = _attend(process, store, kill_after, time.monotonic() + bench.deadline)
        if process.returncode != 0:
            return Run(name, number, error=f"it ended with exit code {process.returncode} (or its deadline passed)")
        wrong = difference("profits", data, 0, folder / "out")
        used = float(json.loads(report.read_text(encoding="utf-8"))["launcher"]["coreSeconds"])
        otherwise, details = _details(folder, killed_at)
        if name != FULL and killed_at is None:
            otherwise = "it ended before its driver could be killed"
        return Run(name, number, details["total"], used, wrong or otherwise, details)


def _attend(process: subprocess.Popen[bytes], store: Path, kill_after: float | None, until: float) -> float | None:
    """Wait for the end of the run, and kill its driver when it is time; when that was."""
    follower, began, killed_at = JournalFollower(Store.at(store)), None, None
    while process.poll() is None and time.monotonic() < until:
        if began is None and (records := follower.poll()):
            began = records[0]["t"]
        if began is not None and kill_after is not None and killed_at is None and time.time() >= began + kill_after:
            killed_at = _kill_driver(store)
        time.sleep(_POLL)
    return killed_at


def _kill_driver(store: Path) -> float:
    """SIGKILL for the driver and its JVM, which the store's lease names; the time."""
    lease = json.loads((store / LEASE).read_text(encoding="utf-8"))
    killed_at = time.time()
    with suppress(ProcessLookupError):  # it was quicker this time, and has ended
        end_sessions(os.getsid(int(lease["pid"])))
    return killed_at


def _details(folder: Path, killed_at: float | None) -> tuple[str | None, dict[str, Any]]:
    """Why this is not what was meant, if so; and what is known of the run."""
    records = read_run(Store.at(folder / "store"))
    tasks = [
        event_log.read_tasks(path) for path in sorted((folder / "events").iterdir())
    ]  # in the order of their start
    if killed_at is None:
        return None, {"total": run_seconds(records), "tasks": sum(one.seconds(records[-1]["t"]) for one in tasks[0])}
    if len(tasks) != 2:
        return f"there were {len(tasks)} drivers", {"total": run_seconds(records)}
    return None, asdict(account(records, tasks[0], killed_at))


def _manifest(folder: Path) -> Path:
    """The application's manifest, with an event log."""
    manifest = yaml.safe_load(APP.read_text(encoding="utf-8"))
    spec = manifest["spec"]
    spec["mainApplicationFile"] = str(APP.with_name(spec["mainApplicationFile"]))
    events = folder / "events"
    events.mkdir()
    spec["sparkConf"] = {**event_log.CONF, "spark.eventLog.dir": events.as_uri()}
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return path


@contextmanager
def _started(
    bench: Bench, name: str, command: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session, which is asked to stop and then ended if it still runs at the end."""
    with open(bench.log(name), "wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    bench.watchdog.own("session", process.pid)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
        end_sessions(process.pid)
        process.wait()
        bench.watchdog.done("session", process.pid)


def tables(found: Sequence[Run]) -> str:
    """Seconds, and seconds of tasks, of going on and of starting over."""
    full = spread(found, FULL)
    said = f"Undisturbed: {full} s, {spread(found, FULL, core_seconds)} core-s, {_of(found, FULL, 'tasks')} s of tasks."
    head = (
        *("killed at", "seconds in all", "starting over would take", "starting over takes, times", "core-seconds"),
        *("tasks before the kill, s", "of these run again, s", "finished stages run again"),
    )
    return f"{said}\n\n{markdown(head, [_row(found, share, full) for share in SHARES])}"


def _row(found: Sequence[Run], share: float, full: Spread | None) -> tuple[object, ...]:
    name = title(share)
    again = spread(found, name, _starting_over(full)) if full else None
    total = spread(found, name)
    rerun = {stage for run in found if run.contender == name for stage in run.details.get("finished_stages_rerun", ())}
    return (
        f"{share:.0%}",
        total,
        again,
        again.median / total.median if again and total else None,
        spread(found, name, core_seconds),
        _of(found, name, "tasks_before"),
        _of(found, name, "tasks_lost"),
        ", ".join(sorted(rerun)) or "none",
    )


def _starting_over(full: Spread | None) -> Callable[[Run], float]:
    """The time before the kill, the time until a new driver is there, and a whole run."""
    whole = full.median if full else 0.0
    return lambda run: float(run.details["before"] + run.details["gap"] + whole)


def _of(found: Sequence[Run], name: str, detail: str) -> Spread | None:
    return spread(found, name, lambda run: float(run.details[detail]))
