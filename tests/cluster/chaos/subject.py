"""A pipeline under chaos: its application, and its store as the machine that is the cluster sees it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.api.application_status import RecoveryStatus
from rekindle.api.job_report import JobReport
from rekindle.controller.recovery.planning import job_of
from rekindle.core.job_graph import JobGraph
from rekindle.runtime.layout import RunLayout, parse_manifest_name, run_numbers
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.store import Store
from tests.cluster.api import Application, Object
from tests.kind.storage import host_folder

VOLUMES = 2


class HostFolders(PosixStorage):
    """A store on volumes that are folders here: pods mount those of results within that of the journal."""

    def __init__(self, journal: Path, volumes: Mapping[str, Path]) -> None:
        super().__init__(str(journal))
        self._volumes = volumes

    def replace(self, name: str, data: bytes) -> None:
        """In place: what its driver has removed meanwhile stays away."""
        with suppress(FileNotFoundError), open(self._path(name), "r+b") as file:
            file.write(data)

    def _path(self, name: str) -> str:
        volume, _, rest = name.partition("/")
        return str(self._volumes[volume] / rest) if volume in self._volumes else super()._path(name)


@dataclass
class Subject:
    """One application of a pipeline on volumes of its own.

    Attributes:
        harmed: what was done to its results on purpose, in words.
        graph: its job graph, as its driver told the operator.
        sink: the stage that is published.
    """

    app: Application
    harmed: list[str] = field(default_factory=list)
    graph: JobGraph | None = None
    sink: str = "totals"

    def __str__(self) -> str:
        return self.app.name

    def look(self) -> str:
        """Its state; on the way its job graph is learned."""
        status = self.app.status
        if self.graph is None:
            self.graph = _graph(status)
        return str((status.get("applicationState") or {}).get("state", ""))

    def volumes(self) -> dict[str, Path]:
        """[`volume-0` … as in the store, empty for the journal's -> the folder that it is]."""
        found = {}
        for claim in self.app.claims():
            _, _, number = claim["metadata"]["name"].rpartition("-store")
            if volume := claim["spec"].get("volumeName"):
                found[f"volume{number}" if number else ""] = host_folder() / volume
        return found

    def store(self) -> Store | None:
        """None while the volume of its journal is not there."""
        volumes = self.volumes()
        journal = volumes.pop("", None)
        return Store(HostFolders(journal, volumes)) if journal is not None else None

    def layout(self) -> RunLayout | None:
        """Of its newest run."""
        store = self.store()
        numbers = run_numbers(store) if store is not None else []
        return RunLayout(numbers[-1], VOLUMES) if numbers else None

    def stored(self) -> list[tuple[str, int]]:
        """Stages and partitions of which there are manifests."""
        store, layout = self.store(), self.layout()
        if store is None or layout is None:
            return []
        names = [(stage, name) for stage in store.names(layout.stages) for name in store.names(layout.manifests(stage))]
        return sorted({(stage, parsed[0]) for stage, name in names if (parsed := parse_manifest_name(name))})


def _graph(status: Object) -> JobGraph | None:
    told: JobReport | None = job_of(RecoveryStatus(job=(status.get("recovery") or {}).get("job") or {}))
    return told.job_graph() if told is not None else None
