"""A real S3 server for the tests: versitygw, built from its Go module once and kept outside the checkout.

It keeps a bucket's objects as files of a folder and honours conditional puts, also of many writers at once.

    python -m tests.tools.bucket        build it now, with a Go that is fetched if there is none
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kind.go import find_go, go_program
from tests.kind.processes import Failed, cache

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
BUCKET, KEY, SECRET = "stores", "rekindle", "not-a-secret"
_BUILD_SECONDS = 900
_START_SECONDS = 20


@dataclass(frozen=True)
class Server:
    """A running server with one bucket."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it at once, as a lost machine does."""
        self.process.kill()
        self.process.wait(timeout=10)

    def place(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    @property
    def hadoop_conf(self) -> dict[str, str]:
        return hadoop_conf(self.endpoint)

    @property
    def spark_conf(self) -> dict[str, str]:
        return {f"spark.hadoop.{key}": value for key, value in self.hadoop_conf.items()}

    @property
    def environment(self) -> dict[str, str]:
        """How every client of S3 reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }


def hadoop_conf(endpoint: str) -> dict[str, str]:
    """How Spark reaches a server."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
    }


def server_binary() -> Path:
    """Where the server's program is, or will be."""
    return cache().parent / f"versitygw-{VERSION}"


def missing() -> str | None:
    """Why there can be no server here, None where there can."""
    if server_binary().exists() or find_go():
        return None
    return "the S3 server of the tests is built with Go, which is not here; `python -m tests.tools.bucket` fetches one"


def build() -> Path:
    """The server's program, built when it is not there yet."""
    binary = server_binary()
    if binary.exists():
        return binary
    go = go_program()
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        subprocess.run(
            [go, "install", "-ldflags=-s -w", f"{MODULE}@{VERSION}"],
            env={**os.environ, "GOBIN": folder, "CGO_ENABLED": "0"},
            timeout=_BUILD_SECONDS,
            check=True,
        )
        os.replace(Path(folder) / "versitygw", binary)
    return binary


@contextmanager
def bucket_server(folder: Path, port: int | None = None) -> Iterator[Server]:
    """A server whose bucket lies in `folder`, on a free port unless given; it is ended with the block."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    port = port or _free_port()
    command = [str(build()), "--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", SECRET]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([*command, "posix", str(folder)], stdout=log, stderr=log)
    try:
        _wait_for(process, port, folder / "server.log")
        yield Server(port, process)
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)


def main() -> int:
    """Build the server, and say so, for it takes minutes."""
    if server_binary().exists():
        return 0
    print(f"building the S3 server of the tests once, {MODULE}@{VERSION} (two minutes)", flush=True)
    try:
        build()
    except (Failed, subprocess.SubprocessError) as problem:
        print(problem, flush=True)
        return 1
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise OSError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
