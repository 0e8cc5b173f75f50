"""Files that a manifest names, found on one machine."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rekindle.api.manifest import ManifestError
from rekindle.api.model import nearest

_LOCAL = ("", "file", "local")


def find_file(field: str, name: str, folder: Path, notes: list[str]) -> str:
    """The absolute path of a local file; the name of a remote one (`s3a://...`) as it is.

    A `local://` path lies in the image of the manifest; where it is not on this machine, the file of the same
    name beside the manifest is taken, and a line in `notes` says so.

    Raises ManifestError, naming `field`, when there is no such file.
    """
    parts = urlsplit(name)
    if parts.scheme not in _LOCAL:
        return name
    path = folder / (name if not parts.scheme else unquote(parts.netloc + parts.path))
    if path.exists():
        return str(path.resolve())
    beside = folder / path.name
    if parts.scheme == "local" and beside.exists():
        notes.append(f"{field}: {name} is in the image; taken here from {beside}")
        return str(beside.resolve())
    near = nearest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else None
    hint = f"; did you mean {near}?" if near else f" (relative paths start at {folder})"
    raise ManifestError(f"{field}: no such file: {path}{hint}")
