"""The lines of a driver's log as they come, from one kubectl that follows it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kind import kubelet
from tests.kind.kubectl import kubeconfig, kubectl_program

_AGAIN_SECONDS = 1.0


class DriverLog:
    """Follows the log of a pod that runs, into a file too. A context manager: at its end nobody follows."""

    def __init__(self, pod: str, namespace: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        command = [kubectl_program(), "--kubeconfig", str(kubeconfig()), "logs", "--follow", pod, "-n", namespace]
        self._command, self._file = [*command, "-c", kubelet.DRIVER], file
        self._lines: queue.Queue[str] = queue.Queue()
        self._count = 0
        self._process: subprocess.Popen[str] | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="driver-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if (process := self._process) is not None:
            process.terminate()
        self._thread.join()

    def told(self, seconds: float) -> tuple[str, dict[str, Any]] | None:
        """The next word and what it tells (apps/measured.py); None where nothing is told in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return None
            word, _, rest = line.strip().partition(" ")
            if rest.startswith("{") and rest.endswith("}"):
                return word, json.loads(rest)
        return None

    def _follow(self) -> None:
        """Again and again: a kubelet that has no time may end it."""
        with open(self._file, "w", encoding="utf-8") as file:
            while not self._is_over.is_set():
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # a Ctrl-C is for who waits, who then ends this
                )
                with self._process as process:
                    assert process.stdout is not None
                    for number, line in enumerate(process.stdout, 1):
                        if number > self._count:
                            self._count = number
                            file.write(line)
                            self._lines.put(line)
                self._is_over.wait(_AGAIN_SECONDS)
