"""A node: one Spark Worker with everything it starts, on an address, with CPU and a disk of its own.

What happens to real nodes can be done to it: it is slow, its executor hangs or dies, it is gone, it comes
back. Methods that change it are called by one thread at a time.
"""

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import psutil

from rekindle.local.java import daemon_command
from rekindle.local.logs import wait_for_line
from rekindle.local.sessions import end_sessions, session_pids, signal_all
from rekindle.local.throttle import DutyCycleThrottle, Throttle, make_cgroup_throttle
from rekindle.local.watchdog import Watchdog

_REGISTERED = re.compile(r"Successfully registered with master")
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as it is made. `memory` is MiB; `hold` is its CPU in cores, None for as much as there is."""

    host: str
    cores: int
    memory: int
    hold: float | None = None


class Node:
    """One node. `start` and then `wait_ready` before anything else; `close` at last."""

    def __init__(
        self,
        spec: NodeSpec,
        folder: Path,
        java: Path,
        environment: dict[str, str],
        properties: Path,
        watchdog: Watchdog,
        name: str,
    ) -> None:
        """`folder` is the node's disk and log; `name` is unique on this machine."""
        self.spec, self.folder = spec, folder
        self._java, self._properties, self._watchdog = java, properties, watchdog
        self._environment = {
            **environment,
            "SPARK_LOCAL_IP": spec.host,
            "SPARK_PUBLIC_DNS": spec.host,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._hung: set[int] = set()
        self._master_url = ""
        self.throttle: Throttle = self._make_throttle(name)

    @property
    def host(self) -> str:
        return self.spec.host

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, master_url: str) -> None:
        """Start the Worker; it registers on its own."""
        self._master_url = master_url
        for part in ("local", "work", "tmp"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        with open(self.folder / "worker.log", "wb") as log:
            self._process = subprocess.Popen(
                self._command(master_url),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._watchdog.own("session", self._process.pid)
        self.throttle.adopt(self._process.pid)
        self.throttle.limit(self.spec.hold)

    def wait_ready(self, until: float) -> None:
        """Wait until the master knows the Worker. Raises EnvironmentProblem after `until` (monotonic)."""
        assert self._process is not None
        wait_for_line(f"node {self.host}", self._process, self.folder / "worker.log", _REGISTERED, until)

    def slow(self, factor: float) -> None:
        """Run at `factor` (0 to 1) of its speed: of its hold if it has one, else of its cores."""
        self.throttle.limit(factor * (self.spec.hold or self._full_cores()))

    def recover_speed(self) -> None:
        """Run at its own speed again."""
        self.throttle.limit(self.spec.hold)

    def hang_executors(self) -> int:
        """Stop the executors and their Python workers, not the Worker; how many executors."""
        executors = self._executors()
        while new := {pid for executor in executors for pid in _tree(executor)} - self._hung:
            with self.throttle.signals:
                signal_all(new, SIGSTOP)
                self._hung |= new  # and look again: one may have forked just before it stopped
        return len(executors)

    def resume_executors(self) -> None:
        """Let the executors that hang go on."""
        hung, self._hung = self._hung, set()
        signal_all(hung & set(session_pids(*self.sessions())), SIGCONT)

    def kill_executors(self) -> int:
        """Kill the executors and their Python workers; how many executors. The Worker tells the master."""
        executors = self._executors()
        signal_all([pid for executor in executors for pid in _tree(executor)], SIGKILL)
        return len(executors)

    def kill(self) -> None:
        """The node is gone: its processes and its local disk."""
        if self._process is not None:
            end_sessions(self._process.pid)
            self._process.wait()
            self._watchdog.done("session", self._process.pid)
        self._process, self._hung = None, set()
        shutil.rmtree(self.folder / "local", ignore_errors=True)
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)

    def start_again(self) -> None:
        """The node comes back, empty, on the same address; it registers on its own."""
        self.kill()
        self.start(self._master_url)

    def restart(self, deadline: float = 60.0) -> None:
        """`start_again`, and wait until the master knows it. Raises EnvironmentProblem."""
        self.start_again()
        self.wait_ready(time.monotonic() + deadline)

    def pids(self) -> list[int]:
        """Its processes now."""
        return session_pids(*self.sessions())

    def sessions(self) -> tuple[int, ...]:
        """Its session, none while it is gone."""
        return (self._process.pid,) if self._process is not None else ()

    def executor_count(self) -> int:
        """Executors that run on it now."""
        return len(self._executors())

    def close(self) -> None:
        """End everything of it."""
        self.kill()
        self.throttle.close()

    def _command(self, master_url: str) -> list[str]:
        return daemon_command(
            self._java,
            self.folder / "tmp",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", self.host, "--cores", str(self.spec.cores), "--memory", f"{self.spec.memory}m"),
            *("--webui-port", "0", "--work-dir", str(self.folder / "work")),
            *("--properties-file", str(self._properties), master_url),
        )

    def _make_throttle(self, name: str) -> Throttle:
        quota = make_cgroup_throttle(name)
        if quota is None:
            return DutyCycleThrottle(lambda: [p for p in self.pids() if p not in self._hung], self._full_cores())
        self._watchdog.own("cgroup", quota.folder)
        return quota

    def _full_cores(self) -> float:
        return float(min(self.spec.cores, psutil.cpu_count() or 1))

    def _executors(self) -> list[psutil.Process]:
        found = []
        for pid in self.pids():
            try:
                process = psutil.Process(pid)
                if _EXECUTOR in process.cmdline():
                    found.append(process)
            except psutil.Error:
                continue
        return found


def _tree(process: psutil.Process) -> list[int]:
    try:
        return [process.pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return [process.pid]
