"""The manifests of a run: which partitions are committed, read as they appear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from rekindle.runtime.layout import RunLayout, parse_attempt_name, parse_manifest_name
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.store import Store

T = TypeVar("T")
R = TypeVar("R")

_LOOKED_AT_ONCE = 16


@dataclass
class CommittedPartitions:
    """Manifests read so far.

    Attributes:
        manifests: [stage -> [(partition, version) -> Manifest]]
        damaged: [(stage, partition, version) -> why], manifests that cannot be read
    """

    store: Store
    layout: RunLayout
    manifests: dict[str, dict[tuple[int, int], Manifest]] = field(default_factory=dict)
    damaged: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def has_unread(self, stage: str) -> bool:
        """Whether manifests of `stage` appeared since the last scan."""
        return next(self._unread(stage), None) is not None

    def scan(self, stage: str) -> list[Manifest]:
        """Read the manifests of `stage` that appeared since the last scan, of any version."""
        found = self._together(lambda key: self._read(stage, *key), list(self._unread(stage)))
        manifests = [manifest for manifest in found if manifest is not None]
        for manifest in manifests:
            self.manifests.setdefault(stage, {})[(manifest.partition, manifest.version)] = manifest
        return manifests

    def get(self, stage: str, partition: int, version: int) -> Manifest | None:
        return self.manifests.get(stage, {}).get((partition, version))

    def missing(self, manifest: Manifest) -> str | None:
        """Why the data of a committed partition cannot be read as written, or None."""
        with self.store.errors(manifest.stage):
            return manifest.missing(self.store.storage)

    def all_missing(self, manifests: Sequence[Manifest]) -> dict[int, str]:
        """[partition -> why] of those of `manifests` whose data cannot be read as written."""
        found = zip(manifests, self._together(self.missing, manifests), strict=True)
        return {manifest.partition: why for manifest, why in found if why}

    def corrupt(self, manifest: Manifest) -> str | None:
        """Why a committed partition cannot be read back, or None. Reads all of it."""
        with self.store.errors(manifest.stage):
            return manifest.missing(self.store.storage) or manifest.corrupt(self.store.storage)

    def remove_damaged(self, stage: str, partition: int, version: int) -> None:
        """Remove a manifest that cannot be read."""
        self.store.delete(self.layout.manifest(stage, partition, version))
        self.damaged.pop((stage, partition, version), None)

    def remove_losers(self, stage: str, versions: dict[int, int]) -> None:
        """Remove what attempts of `stage` wrote that no current manifest names (S5-13). What is newer stays: it is
        of a driver that has taken over meanwhile.

        Args:
            versions: partition -> current version, of a stage all of whose partitions are committed.
        """
        current = [self.get(stage, partition, version) for partition, version in versions.items()]
        wanted = {PurePosixPath(file.path).parent.name for one in current if one for file in one.files}
        for name, partition, version in self._attempts(stage):
            if PurePosixPath(name).name not in wanted and version <= versions.get(partition, 0):
                self.store.delete(name)

    def remove_older(self, stage: str, versions: Mapping[int, int]) -> None:
        """Remove what attempts of `stage` wrote of versions before the current ones, or of partitions that it has not.

        Args:
            versions: partition -> current version, whether that is committed or not.
        """
        for name, partition, version in self._attempts(stage):
            if partition not in versions or version < versions[partition]:
                self.store.delete(name)

    def release(self, stage: str) -> None:
        """Remove the data of a result nobody needs any more. Its manifests stay: they are the record."""
        for folder in self.layout.data_folders(stage):
            self.store.delete(folder)

    def _attempts(self, stage: str) -> Iterator[tuple[str, int, int]]:
        """(folder, partition, version) of the attempts of `stage` that have left something."""
        for folder in self.layout.data_folders(stage):
            for name in self.store.names(folder):
                key = parse_attempt_name(name)
                if key is not None:
                    yield f"{folder}/{name}", *key

    def _unread(self, stage: str) -> Iterator[tuple[int, int]]:
        known = self.manifests.get(stage, {})
        for name in self.store.names(self.layout.manifests(stage)):
            key = parse_manifest_name(name)
            if key is not None and key not in known and (stage, *key) not in self.damaged:
                yield key

    def _read(self, stage: str, partition: int, version: int) -> Manifest | None:
        data = self.store.get(self.layout.manifest(stage, partition, version))
        try:
            manifest = Manifest.parse(data or b"")
            if (manifest.stage, manifest.partition, manifest.version) != (stage, partition, version):
                raise ValueError(f"it says {manifest.stage}/{manifest.partition} version {manifest.version}")
        except ValueError as error:
            self.damaged[(stage, partition, version)] = str(error)
            return None
        return manifest

    def _together(self, look: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`look` at each item, in a bucket at several at a time: there each look is a request to wait for."""
        if self.store.folder is not None or len(items) < 2:
            return [look(item) for item in items]
        with ThreadPoolExecutor(min(_LOOKED_AT_ONCE, len(items)), "rekindle-look") as pool:
            return list(pool.map(look, items))
