"""Which file system a path or a URL names."""

from __future__ import annotations

import os
from typing import Any


def file_system(root: str) -> tuple[Any, str]:
    """A `pyarrow.fs.FileSystem`, and the path there. Raises ValueError for a scheme that pyarrow does not know."""
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" in root:
        system, path = FileSystem.from_uri(root)
        return system, path.rstrip("/")
    return LocalFileSystem(), os.path.abspath(root)
