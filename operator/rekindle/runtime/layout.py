"""Names in the store: which object lies where.

```
rekindle.json                                   whose store this is, and its format
lease.json                                      who writes to it now
first-run                                       the number of the first run since all were forgotten, if they were
runs/0001/journal/00000001.jsonl                the journal, numbered segments
runs/0001/stages/<stage>/manifests/p00003-v0001.json
runs/0001/splits/<stage>-<source>               what a source's partitions() returned
runs/0001/loops/<stage>-<inputs>/activations/00000001.json
runs/0001/loops/<stage>-<inputs>/batches/<batch>/p00003-v0001.json
[volume-1/]runs/0001/loops/<stage>-<inputs>/rows/<batch>/.attempt-p00003-v0001-<uuid>/part-...
[volume-1/]runs/0001/data/<stage>/.attempt-p00003-v0001-<uuid>/part-00003-..._00003.c000.parquet
```

A run that finished is followed by a new run with a number of its own; a run that was cut off goes on.
Partition i lies on volume `i mod volumes`, so a lost volume costs its share and no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rekindle.api.storage import volume_folder, volume_of
from rekindle.runtime.store import Store

IDENTITY = "rekindle.json"
LEASE = "lease.json"
RUNS = "runs"
FIRST_RUN = "first-run"
FORMAT = 1

_MANIFEST = re.compile(r"p(\d+)-v(\d+)\.json", re.ASCII)
_SEGMENT = re.compile(r"(\d+)\.jsonl", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
_ATTEMPT = re.compile(r"\.attempt-p(?P<partition>\d+)-v(?P<version>\d+)-[^/]+", re.ASCII)
_DATA = re.compile(rf"/data/(?P<stage>[^/]+)/{_ATTEMPT.pattern}/")


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Where the objects of one run lie. `number` counts from 1."""

    number: int
    volumes: int = 1

    @property
    def prefix(self) -> str:
        return f"{RUNS}/{self.number:04d}"

    def folders(self) -> tuple[str, ...]:
        """All folders of the run, on all volumes, relative to the root."""
        return everywhere(self.prefix, self.volumes)

    @property
    def journal(self) -> str:
        return f"{self.prefix}/journal"

    def segment(self, number: int) -> str:
        return f"{self.journal}/{number:08d}.jsonl"

    @property
    def stages(self) -> str:
        return f"{self.prefix}/stages"

    def manifests(self, stage: str) -> str:
        return f"{self.stages}/{stage}/manifests"

    @property
    def all_splits(self) -> str:
        return f"{self.prefix}/splits"

    def splits(self, stage: str, source: str) -> str:
        """Of a stage that reads by splits; `source` tells apart what it read before and after an edit."""
        return f"{self.all_splits}/{stage}-{source}"

    @property
    def loops(self) -> str:
        return f"{self.prefix}/loops"

    def loop(self, stage: str, made_of: str) -> str:
        """Of a stage that is a loop; `made_of` tells apart what it was made from before a loss or an edit."""
        return f"{self.loops}/{stage}-{made_of}"

    def manifest(self, stage: str, partition: int, version: int) -> str:
        return f"{self.manifests(stage)}/{manifest_name(partition, version)}"

    def data(self, stage: str, partition: int) -> str:
        """Folder of the attempts of one partition, relative to the root."""
        volume = f"{volume_folder(volume_of(partition, self.volumes))}/" if self.volumes > 1 else ""
        return f"{volume}{self.prefix}/data/{stage}"

    def data_folders(self, stage: str) -> tuple[str, ...]:
        """All folders that attempts of `stage` may have written to, relative to the root."""
        return tuple(dict.fromkeys(self.data(stage, volume) for volume in range(self.volumes)))


def on_volumes(folder: str, volumes: int) -> tuple[str, ...]:
    """Where data of a folder lies: on each volume, or in the store itself where that is one."""
    return tuple(f"{volume_folder(one)}/{folder}" for one in range(volumes)) if volumes > 1 else (folder,)


def everywhere(folder: str, volumes: int) -> tuple[str, ...]:
    """A folder, and where its data lies."""
    return tuple(dict.fromkeys((folder, *on_volumes(folder, volumes))))


def manifest_name(partition: int, version: int) -> str:
    return f"p{partition:05d}-v{version:04d}.json"


def parse_manifest_name(name: str) -> tuple[int, int] | None:
    """(partition, version) of a manifest's file name, or None for any other name."""
    match = _MANIFEST.fullmatch(name)
    key = (int(match[1]), int(match[2])) if match else None
    return key if key and manifest_name(*key) == name else None


def parse_attempt_name(name: str) -> tuple[int, int] | None:
    """(partition, version) of an attempt's folder, or None for any other name."""
    match = _ATTEMPT.fullmatch(name)
    return (int(match["partition"]), int(match["version"])) if match else None


def partition_of_path(text: str) -> tuple[str, int, int] | None:
    """(stage, partition, version) of the first stored data file that `text` names, or None."""
    match = _DATA.search(text)
    return (match["stage"], int(match["partition"]), int(match["version"])) if match else None


def run_numbers(store: Store) -> list[int]:
    """Numbers of the runs in a store, ascending; names that are not ours are passed over."""
    numbers = {int(name): name for name in store.names(RUNS) if _NUMBER.fullmatch(name)}
    return sorted(number for number, name in numbers.items() if RunLayout(number).prefix == f"{RUNS}/{name}")


def segment_numbers(store: Store, layout: RunLayout) -> list[int]:
    """Numbers of a journal's segments, ascending; names that are not ours are passed over."""
    matches = filter(None, map(_SEGMENT.fullmatch, store.names(layout.journal)))
    return sorted(int(match[1]) for match in matches if layout.segment(int(match[1])).endswith(f"/{match[0]}"))
