"""What chaos does to a store: lose or corrupt a partition of the newest run, lose a volume."""

from rekindle.api.storage import volume_folder
from rekindle.runtime.layout import RunLayout, parse_manifest_name, run_numbers
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.store import Store

_FLIPPED = 64


def find_partition(store: Store, stage: str, partition: int) -> Manifest | None:
    """The manifest of a partition's newest version, None while it is not stored."""
    numbers = run_numbers(store)
    if not numbers:
        return None
    layout = RunLayout(numbers[-1])
    names = map(parse_manifest_name, store.names(layout.manifests(stage)))
    versions = [name[1] for name in names if name is not None and name[0] == partition]
    data = store.get(layout.manifest(stage, partition, max(versions))) if versions else None
    try:
        return Manifest.parse(data) if data is not None else None
    except ValueError:
        return None


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
    folder = volume_folder(volume)
    if not store.holds(folder):
        return False
    for name in store.names(folder):
        store.delete(f"{folder}/{name}")
    return True


def _files(store: Store, stage: str, partition: int) -> dict[str, bytes]:
    """[name -> content] of the data files that are there."""
    manifest = find_partition(store, stage, partition)
    found = {file.path: store.get(file.path) for file in manifest.files} if manifest else {}
    return {name: content for name, content in found.items() if content is not None}
