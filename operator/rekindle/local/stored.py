"""What chaos does to a store: lose or corrupt a partition of the newest run, lose a volume."""

import shutil
from pathlib import Path

from rekindle.runtime.layout import RunLayout, parse_manifest_name, run_numbers
from rekindle.runtime.manifest import Manifest

_FLIPPED = 64


def find_partition(root: Path, stage: str, partition: int) -> Manifest | None:
    """The manifest of a partition's newest version, None while it is not stored."""
    numbers = run_numbers(root)
    if not numbers:
        return None
    folder = root / RunLayout(numbers[-1]).manifests(stage)
    versions = {}
    for path in folder.glob("*.json"):
        parsed = parse_manifest_name(path.name)
        if parsed is not None and parsed[0] == partition:
            versions[parsed[1]] = path
    if not versions:
        return None
    try:
        return Manifest.parse(versions[max(versions)].read_bytes())
    except (OSError, ValueError):
        return None


def lose_partition(root: Path, stage: str, partition: int) -> bool:
    """Remove a partition's data files; its manifest stays. False when there are none."""
    paths = _files(root, stage, partition)
    for path in paths:
        path.unlink()
    return bool(paths)


def corrupt_partition(root: Path, stage: str, partition: int) -> bool:
    """Change bytes in the middle of each data file, its size stays. False when there are none."""
    paths = _files(root, stage, partition)
    for path in paths:
        data = bytearray(path.read_bytes())
        middle = max(0, len(data) // 2 - _FLIPPED // 2)
        data[middle : middle + _FLIPPED] = bytes(byte ^ 0xFF for byte in data[middle : middle + _FLIPPED])
        path.write_bytes(data)
    return bool(paths)


def lose_volume(root: Path, volume: int) -> bool:
    """Remove all that a volume holds. False while it holds nothing."""
    folder = root / f"volume-{volume}"
    if not any(path.is_file() for path in folder.rglob("*")):
        return False
    for child in folder.iterdir():
        shutil.rmtree(child, ignore_errors=True)
    return True


def _files(root: Path, stage: str, partition: int) -> list[Path]:
    manifest = find_partition(root, stage, partition)
    paths = [root / file.path for file in manifest.files] if manifest else []
    return [path for path in paths if path.is_file()]
