"""A PostgreSQL server in the cluster: a pod and a service, whose programs lie beside the volumes of the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import api
from tests.cluster.deployment import JOBS
from tests.kind.kubectl import kubectl
from tests.kind.storage import IN_NODE, host_folder
from tests.postgres import PASSWORD, USER, laid_out

_NAME, _PORT, _FOLDER = "database", 5432, "postgresql"
_READY_SECONDS = 60

URL = f"postgresql://{USER}@{_NAME}:{_PORT}/postgres"
"""Where pods find it, without the password."""

PASSWORD_VARIABLE = [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": _NAME, "key": "password"}}}]
"""Of driver and executors: libpq reads it there."""


class Server:
    """As who has the password asks it, within its pod."""

    def __init__(self, programs: str) -> None:
        self._programs = programs

    def execute(self, sql: str) -> list[str]:
        """Each row in a line, with | between its values."""
        asked = [f"{self._programs}/psql", "-U", USER, "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qAt", "-c", sql]
        return kubectl("exec", _NAME, "-n", JOBS, "--", *asked).splitlines()

    def statements(self, *words: str) -> int:
        """How many it has logged that have all of these."""
        lines = kubectl("logs", _NAME, "-n", JOBS).splitlines()
        return sum(all(word in line for word in words) for line in lines if "statement:" in line or "execute " in line)


@contextmanager
def server(image: str) -> Iterator[Server]:
    """`image`: any that has a shell and glibc. The server is gone with the block, and so is what it held."""
    programs = _lay_out()
    labels = {"app": _NAME}
    command = f"""
        {programs}/initdb -D /data/db -U {USER} --auth-local=trust --auth-host=scram-sha-256 \\
            --pwfile=/secret/password -E UTF8 --locale=C --no-sync >/dev/null &&
        echo 'host all all all scram-sha-256' >>/data/db/pg_hba.conf &&
        exec {programs}/postgres -D /data/db -p {_PORT} -c listen_addresses='*' -c unix_socket_directories=/tmp \\
            -c fsync=off -c shared_buffers=32MB -c log_statement=all
    """
    container = {
        "name": _NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "env": [{"name": "PGHOST", "value": "/tmp"}, {"name": "PGPORT", "value": str(_PORT)}],
        "readinessProbe": {"exec": {"command": [f"{programs}/pg_isready", "-q"]}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": _FOLDER, "mountPath": f"/{_FOLDER}", "readOnly": True},
            {"name": "data", "mountPath": "/data"},
            {"name": "secret", "mountPath": "/secret", "readOnly": True},
        ],
    }
    volumes = [
        {"name": _FOLDER, "hostPath": {"path": f"{IN_NODE}/{_FOLDER}", "type": "Directory"}},
        {"name": "data", "emptyDir": {}},
        {"name": "secret", "secret": {"secretName": _NAME}},
    ]
    service = {"selector": labels, "ports": [{"port": _PORT}]}
    metadata = {"name": _NAME, "namespace": JOBS, "labels": labels}
    pod: dict[str, Any] = {"containers": [container], "volumes": volumes}
    _remove()  # what a test that was killed has left holds other data
    try:
        api.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": PASSWORD}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        )
        ready = ("wait", "--for=condition=Ready", f"pod/{_NAME}", "-n", JOBS, f"--timeout={_READY_SECONDS}s")
        kubectl(*ready, timeout=_READY_SECONDS + 10)
        yield Server(programs)
    finally:
        _remove()


def _remove() -> None:
    kubectl("delete", "pod,service,secret", _NAME, "-n", JOBS, "--ignore-not-found", "--grace-period=1")


def _lay_out() -> str:
    """Put the programs where nodes see them; where pods find them."""
    folder = host_folder() / _FOLDER
    if not folder.exists():
        draft = folder.with_name(f".{_FOLDER}")
        shutil.rmtree(draft, ignore_errors=True)
        laid_out(draft, copied=True)
        draft.rename(folder)
    (found,) = folder.glob("*/pginstall/bin")
    return str(Path(f"/{_FOLDER}") / found.relative_to(folder))
