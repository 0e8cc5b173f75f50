"""`rekindle run` and `rekindle explain`: from a manifest to an exit code. Nothing started is left."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rekindle.api.manifest import load_manifest
from rekindle.api.restart_policy import RestartPolicy
from rekindle.api.settings import EXPLAIN
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.local.chaos import Fault, check_faults
from rekindle.local.cluster import ClusterShape, LocalCluster, loopback_addresses
from rekindle.local.faults import Chaos
from rekindle.local.java import find_java
from rekindle.local.launch_report import write_report
from rekindle.local.meter import CpuMeter
from rekindle.local.progress import Follow, Progress, ProgressScreen
from rekindle.local.restarts import INTERRUPTED, SUCCESS
from rekindle.local.stores import forget, last_driver_is_gone, refuse_in_use
from rekindle.local.submission import (
    Submission,
    driver_java_options,
    executor_java_conf,
    plan_submission,
)
from rekindle.local.supervisor import Outcome, Screen, Supervisor, Target
from rekindle.local.watchdog import Watchdog
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.store import Store

NO_NODES = (
    "only 127.0.0.1 exists here, so all executors share one host: no copies on other nodes, no blocked "
    "nodes, no --hold-cores, no --chaos on nodes (macOS: sudo ifconfig lo0 alias 127.0.0.2; and .3, .4 for three nodes)"
)


_LOGS, _LOGS_KEPT = "logs", 5


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line of `rekindle run` says. `hold_cores` is each node's CPU, in cores."""

    manifest: Path
    nodes: int = 3
    store: str | Path | None = None
    store_limit: int | None = None
    hold_cores: float | None = None
    fresh: bool = False
    chaos: tuple[Fault, ...] = ()
    report: Path | None = None


class RunScreen(Screen, ProgressScreen, Protocol):
    """Both of what a run tells: lines and progress."""


def run_application(options: RunOptions, screen: RunScreen) -> Outcome:
    """Run a manifest's application on a private cluster.

    Raises ManifestError, SettingsError, ChaosError; and EnvironmentProblem, StoreRefused of the runtime.
    """
    application = load_manifest(options.manifest)
    submission = plan_submission(
        application,
        options.manifest.resolve().parent,
        nodes=options.nodes,
        store=options.store,
        store_limit=options.store_limit,
    )
    for note in submission.notes:
        screen.line(note)
    check_faults(options.chaos, _hosts(options.nodes), submission.settings.recovery.volumes)
    find_java()
    take_store = forget if options.fresh else refuse_in_use
    store = submission.store
    take_store(store, submission.settings.recovery.lease_seconds, screen.line)
    with ExitStack() as stack:
        watchdog = stack.enter_context(Watchdog())
        work = stack.enter_context(work_folder(application.metadata.name, watchdog))
        cluster = _make_cluster(options, submission, work, watchdog)
        screen.line(f"starting a master and {options.nodes} nodes" if cluster else NO_NODES)
        if cluster is not None:
            stack.enter_context(cluster)
        return _drive(options, application, submission, store, work, watchdog, cluster, screen)


def explain_application(manifest: Path, form: str, screen: Screen) -> Outcome:
    """Print a pipeline's explanation, `form` being `true` (text) or `mermaid`; runs its driver, no cluster.

    Raises as `run_application` does.
    """
    application = load_manifest(manifest)
    submission = plan_submission(application, manifest.resolve().parent, nodes=1)
    find_java()
    with Watchdog() as watchdog, work_folder(application.metadata.name, watchdog) as work:
        target = make_target(application.spec, "local[1]", work)
        conf = {**target.conf, EXPLAIN: form}
        once = replace(submission, restart_policy=RestartPolicy(type="Never"))
        return Supervisor(once, replace(target, conf=conf), watchdog, screen).run()


def make_target(spec: SparkApplicationSpec, master_url: str, work: Path) -> Target:
    """Where and how drivers are started for this run."""
    return Target(
        master_url=master_url,
        folder=work,
        driver_java_options=driver_java_options(spec, work / "tmp"),
        conf=executor_java_conf(spec, work / "tmp"),
    )


@contextmanager
def work_folder(name: str, watchdog: Watchdog) -> Iterator[Path]:
    """A temporary folder for logs, the nodes' disks and all temporary files; removed at the end."""
    work = Path(tempfile.mkdtemp(prefix=f"rekindle-{name}-"))
    watchdog.own("folder", work)
    (work / "tmp").mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def keep_logs(work: Path, store: Store) -> str:
    """Copy the logs of a failed run beside the stored results, the last few runs'; a line that says where."""
    kept = f"{_LOGS}/{time.strftime('%Y%m%d-%H%M%S')}"
    patterns = ("*.log", "*.err", "*/worker.log", "*/work/*/*/std*")
    try:
        store.storage.prepare()
        for old in store.names(_LOGS)[: 1 - _LOGS_KEPT]:
            store.delete(f"{_LOGS}/{old}")
        for log in [log for pattern in patterns for log in work.glob(pattern)]:
            store.replace(f"{kept}/{log.relative_to(work).as_posix()}", log.read_bytes())
    except (OSError, StoreRefused) as error:
        return f"the logs could not be kept: {error}"
    return f"logs: {store}/{kept}"


def _drive(
    options: RunOptions,
    application: SparkApplication,
    submission: Submission,
    store: Store,
    work: Path,
    watchdog: Watchdog,
    cluster: LocalCluster | None,
    screen: RunScreen,
) -> Outcome:
    progress = Progress()
    follow = Follow(store, progress, screen)
    nodes = cluster.nodes if cluster else ()
    chaos = Chaos(options.chaos, nodes, store, progress, screen.line)
    meter = CpuMeter(cluster.sessions if cluster else tuple)
    target = make_target(application.spec, _master_url(cluster, submission), work)
    if cluster is not None:
        target = replace(target, properties=cluster.properties)
    supervisor = Supervisor(
        submission,
        target,
        watchdog,
        screen,
        (follow, chaos, meter),
        takeover=last_driver_is_gone(store),
    )
    outcome = supervisor.run()
    follow.finish()
    for text in chaos.missed:
        screen.line(f"chaos: did not happen: {text}")
    if outcome.code not in (SUCCESS, INTERRUPTED):
        screen.line(keep_logs(work, store))
    if options.report is not None:
        write_report(options.report, store, outcome, meter.core_seconds, chaos.done, screen.line)
    return outcome


def _make_cluster(options: RunOptions, submission: Submission, work: Path, watchdog: Watchdog) -> LocalCluster | None:
    if not _hosts(options.nodes):
        return None
    executors = submission.executors
    each = -(-executors.instances // options.nodes)
    memory = each * (executors.memory + executors.beside_heap)
    shape = ClusterShape(options.nodes, each * executors.cores, memory, options.hold_cores)
    return LocalCluster(shape, work, watchdog)


def _master_url(cluster: LocalCluster | None, submission: Submission) -> str:
    if cluster is not None:
        return cluster.master_url
    executors = submission.executors
    memory = executors.memory + executors.beside_heap
    return f"local-cluster[{executors.instances},{executors.cores},{memory}]"


def _hosts(nodes: int) -> tuple[str, ...]:
    return tuple(loopback_addresses(nodes) or ())
