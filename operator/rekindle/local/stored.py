"""What chaos does to a store: lose or corrupt a partition of the newest run, lose a volume."""

from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.layout import RunLayout, run_numbers
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.store import Store

_FLIPPED = 64


def find_partition(store: Store, stage: str, partition: int) -> Manifest | None:
    """The manifest of a partition's newest version, None while it is not stored."""
    numbers = run_numbers(store)
    if not numbers:
        return None
    manifests = CommittedPartitions(store, RunLayout(numbers[-1])).scan(stage)
    versions = [manifest for manifest in manifests if manifest.partition == partition]
    return max(versions, key=lambda manifest: manifest.version, default=None)


def lose_partition(store: Store, stage: str, partition: int) -> bool:
    """Remove a partition's data files; its manifest stays. False when there are none."""
    files = _files(store, stage, partition)
    for name in files:
        store.delete(name)
    return bool(files)


def corrupt_partition(store: Store, stage: str, partition: int) -> bool:
    """Change bytes in the middle of each data file, its size stays. False when there are none."""
    files = _files(store, stage, partition)
    for name, content in files.items():
        data = bytearray(content)
        middle = max(0, len(data) // 2 - _FLIPPED // 2)
        data[middle : middle + _FLIPPED] = bytes(byte ^ 0xFF for byte in data[middle : middle + _FLIPPED])
        store.replace(name, bytes(data))
    return bool(files)


def lose_volume(store: Store, volume: int) -> bool:
    """Remove all that a volume holds. False while it holds nothing."""
    folder = f"volume-{volume}"
    held = store.names(folder)
    for name in held:
        store.delete(f"{folder}/{name}")
    return bool(held)


def _files(store: Store, stage: str, partition: int) -> dict[str, bytes]:
    """[name -> content] of the data files that are there."""
    manifest = find_partition(store, stage, partition)
    found = {file.path: store.get(file.path) for file in manifest.files} if manifest else {}
    return {name: content for name, content in found.items() if content is not None}
