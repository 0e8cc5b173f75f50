"""A private standalone Spark cluster: a master, and one Worker for each node, on loopback addresses.

Every node has an address of its own (127.0.0.2, .3, ...), so Spark sees distinct hosts, places copies of slow
tasks on others and can exclude one. Ports are the kernel's choice and a run has its own secret, so several
clusters can be up at once and none takes another's work.
"""

import os
import re
import secrets
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rekindle.local.java import base_environment, daemon_command, find_java, make_secret
from rekindle.local.logs import wait_for_line
from rekindle.local.node import Node, NodeSpec
from rekindle.local.sessions import end_sessions
from rekindle.local.watchdog import Watchdog

MASTER_HOST = "127.0.0.1"

_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_ELECTED = re.compile(r"I have been elected leader! New state: ALIVE")


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """Nodes, and what each has. `memory` is MiB; `hold` is each node's CPU in cores, None for no limit."""

    nodes: int = 3
    cores: int = 1
    memory: int = 1024
    hold: float | None = None


def loopback_addresses(count: int) -> list[str] | None:
    """Addresses for the nodes, or None where this system has only 127.0.0.1 (macOS, until told otherwise)."""
    addresses = [f"127.0.0.{number}" for number in range(2, count + 2)]
    for address in addresses:
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return None
    return addresses


class LocalCluster:
    """The cluster, up between `__enter__` and `__exit__`; nothing is left after that.

    If this process is killed, the watchdog ends the cluster.

    Attributes:
        master_url: `spark://...`.
        properties: a file of properties that a driver needs (`--properties-file`).
        nodes: the nodes, in the order of their addresses.
    """

    def __init__(self, shape: ClusterShape, folder: Path, watchdog: Watchdog, *, deadline: float = 120.0) -> None:
        """`folder` gets logs and the nodes' disks; `deadline` is for the whole start, in seconds."""
        self.shape, self.folder = shape, folder
        self.master_url, self.properties = "", folder
        self.nodes: tuple[Node, ...] = ()
        self._watchdog, self._deadline = watchdog, deadline
        self._master: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End master and nodes."""
        for node in self.nodes:
            node.close()
        if self._master is not None:
            end_sessions(self._master.pid)
            self._master.wait()
            self._watchdog.done("session", self._master.pid)
            self._master = None

    def environment(self, temporary: Path, conf: Mapping[str, str]) -> dict[str, str]:
        """Environment of a Python program whose SparkSession is to be on this cluster, with these settings."""
        arguments = ["--properties-file", str(self.properties)]
        arguments += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        return {
            **base_environment(temporary),
            "SPARK_LOCAL_IP": MASTER_HOST,
            "PYSPARK_SUBMIT_ARGS": shlex.join(["--master", self.master_url, *arguments, "pyspark-shell"]),
        }

    def sessions(self) -> tuple[int, ...]:
        """Sessions of the master and of the nodes that live."""
        masters = (self._master.pid,) if self._master is not None else ()
        return masters + tuple(session for node in self.nodes for session in node.sessions())

    def node(self, host: str) -> Node:
        """The node with this address. KeyError when there is none."""
        return {node.host: node for node in self.nodes}[host]

    def _start(self) -> None:
        until = time.monotonic() + self._deadline
        java = find_java()
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment, self.properties = base_environment(temporary), make_secret(self.folder)
        self.master_url = self._start_master(java, temporary, environment, until)
        self._make_nodes(java, environment)
        for node in self.nodes:
            node.start(self.master_url)
        for node in self.nodes:
            node.wait_ready(until)

    def _start_master(self, java: Path, temporary: Path, environment: dict[str, str], until: float) -> str:
        log_path = self.folder / "master.log"
        main = "org.apache.spark.deploy.master.Master"
        ports = ("--host", MASTER_HOST, "--port", "0", "--webui-port", "0")
        command = daemon_command(java, temporary, main, *ports, "--properties-file", str(self.properties))
        with open(log_path, "wb") as log:
            self._master = subprocess.Popen(
                command,
                env={**environment, "SPARK_LOCAL_IP": MASTER_HOST, "SPARK_PUBLIC_DNS": MASTER_HOST},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._watchdog.own("session", self._master.pid)
        found = wait_for_line("the Spark master", self._master, log_path, _MASTER_URL, until)
        wait_for_line("the Spark master", self._master, log_path, _ELECTED, until)
        return found[1]

    def _make_nodes(self, java: Path, environment: dict[str, str]) -> None:
        unique = f"rekindle-{os.getpid()}-{secrets.token_hex(4)}"
        for host in loopback_addresses(self.shape.nodes) or []:
            spec = NodeSpec(host, self.shape.cores, self.shape.memory, self.shape.hold)
            node_environment = {**environment, "TMPDIR": str(self.folder / host / "tmp")}
            name = f"{unique}-{host}"
            node = Node(spec, self.folder / host, java, node_environment, self.properties, self._watchdog, name)
            self.nodes += (node,)
