"""A driver on a private cluster that answers a test's questions."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rekindle.local.cluster import LocalCluster
from rekindle.local.java import QUICK_JVM


class Driver:
    """`program`, a Python text, on `cluster`; it reads a question from each line and answers with a line of JSON."""

    def __init__(self, cluster: LocalCluster, folder: Path, program: str) -> None:
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.memory": "500m",
            "spark.executor.cores": "1",
            "spark.locality.wait": "0",
            "spark.executor.extraJavaOptions": " ".join(QUICK_JVM),
        }
        with open(folder / "driver.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                env=cluster.environment(folder, conf),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def ask(self, question: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        """Close its input and wait; whatever is left of it is killed."""
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            self.process.wait()


def until(condition: Callable[[], Any], seconds: float = 90.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
