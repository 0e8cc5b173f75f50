"""A pipeline under chaos: its application, and its store as the machine that is the cluster sees it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.api.application_status import RecoveryStatus
from rekindle.api.job_report import JobReport
from rekindle.controller.recovery.planning import job_of
from rekindle.core.job_graph import JobGraph
from rekindle.runtime.layout import RunLayout, parse_manifest_name, run_numbers
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.store import Store
from tests.cluster import api
from tests.cluster.api import Application, Object
from tests.kind.storage import host_folder

VOLUMES = 2


@dataclass(frozen=True)
class Stored:
    """A stored result partition, of the newest version that there is."""

    stage: str
    partition: int
    manifest: Manifest


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

    def claims(self) -> list[Object]:
        selector = f"rekindle.dev/application-uid={self.app.body['metadata']['uid']}"
        return api.items("persistentvolumeclaims", self.app.namespace, selector)

    def volume(self, number: int | None) -> Path | None:
        """The folder that one of its volumes is, None: that of the journal; None while it has none."""
        ending = "-store" if number is None else f"-store-{number}"
        names = [one["spec"].get("volumeName") for one in self.claims() if one["metadata"]["name"].endswith(ending)]
        return host_folder() / names[0] if names and names[0] else None

    def store(self) -> Store | None:
        """Its journal and manifests."""
        folder = self.volume(None)
        return Store.at(folder) if folder is not None else None

    def layout(self) -> RunLayout | None:
        """Of its newest run."""
        store = self.store()
        numbers = run_numbers(store) if store is not None else []
        return RunLayout(numbers[-1], VOLUMES) if numbers else None

    def stored(self) -> list[Stored]:
        store, layout = self.store(), self.layout()
        if store is None or layout is None:
            return []
        return sorted(_stored(store, layout), key=lambda one: (one.stage, one.partition))

    def files(self, one: Stored) -> list[Path]:
        """The data files of a partition that are there."""
        found = []
        for file in one.manifest.files:
            volume, _, rest = file.path.partition("/")
            folder = self.volume(int(volume.removeprefix("volume-")))
            if folder is not None and (folder / rest).is_file():
                found.append(folder / rest)
        return found

    def empty(self, number: int) -> bool:
        """Take away all that one of its volumes has; False where that is nothing."""
        folder = self.volume(number)
        entries = list(folder.iterdir()) if folder is not None else []
        for entry in entries:
            shutil.rmtree(entry, ignore_errors=True)
        return bool(entries)


def _stored(store: Store, layout: RunLayout) -> Iterator[Stored]:
    for stage in store.names(layout.stages):
        newest: dict[int, int] = {}
        for partition, version in filter(None, map(parse_manifest_name, store.names(layout.manifests(stage)))):
            newest[partition] = max(version, newest.get(partition, 0))
        for partition, version in newest.items():
            data = store.get(layout.manifest(stage, partition, version))
            if data is not None:
                yield Stored(stage, partition, Manifest.parse(data))


def _graph(status: Object) -> JobGraph | None:
    told: JobReport | None = job_of(RecoveryStatus(job=(status.get("recovery") or {}).get("job") or {}))
    return told.job_graph() if told is not None else None
