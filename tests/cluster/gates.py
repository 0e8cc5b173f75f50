"""Gates of a pipeline's tasks, in a folder of its store's volume: who waits there, and who may pass."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.api import until
from tests.cluster.chaos.subject import Subject

IN_POD = "/rekindle/store/gates"


class Gates:
    """Those of one application, whose programs get `IN_POD`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._folder: Path = until("the volume of the journal", self._make, 120, tell=subject.app.tell)
        self._seen: dict[str, int] = {}

    def _make(self) -> Path | None:
        journal = self._subject.volumes().get("")
        if journal is None:
            return None
        folder = journal / "gates"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        return folder

    def wait_for(self, name: str, count: int, seconds: float = 120.0) -> None:
        """Until so many more tasks have come to that gate than at the last call."""
        before = self._seen.get(name, 0)
        said = f"{count} more tasks at gate {name}, where {before} had been"
        until(said, lambda: self._count(name) >= before + count, seconds, tell=self._subject.app.tell)
        self._seen[name] = self._count(name)

    def open(self, name: str) -> None:
        (self._folder / name).touch()

    def _count(self, name: str) -> int:
        return sum(1 for _ in self._folder.glob(f"{name}-*"))
