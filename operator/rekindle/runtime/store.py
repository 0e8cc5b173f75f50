"""The store: one primitive, `put_if_absent`, and names that fence.

Everything that must be true after a crash rests on one operation: a name is created once, whole or not at
all, and the second writer of the same name is told so. Manifests, journal segments and the store's own
identity are such names. Nothing is ever renamed over, so a driver that was thought dead can only write names
that nobody reads (their version or segment number has been superseded).

On a POSIX file system the operation is: write aside, flush to disk, hard-link to the final name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rekindle.runtime.errors import StoreFull, StoreRefused

_ASIDE = ".aside"


class Store(Protocol):
    """A flat name space of small immutable objects. Names are relative, with `/` between parts."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`; False when it exists already (its content is left alone)."""

    def get(self, name: str) -> bytes | None:
        """The content of `name`, or None."""

    def names(self, prefix: str) -> list[str]:
        """The last parts of the names directly below `prefix`, sorted."""

    def replace(self, name: str, data: bytes) -> None:
        """Create or overwrite `name` as a whole. Only for what may be lost (the lease)."""

    def delete(self, prefix: str) -> None:
        """Remove a name, or all names below it. Missing names are no error."""


class PosixStore:
    """A store in a folder that every driver and executor of the application can reach.

    Raises:
        StoreFull: the file system has no space left.
        StoreRefused: the folder cannot be made or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        with self._errors(root):
            (root / _ASIDE).mkdir(parents=True, exist_ok=True)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target = self.root / name
        with self._errors(target):
            aside = self._write_aside(data)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(aside, target)
            except FileExistsError:
                return False
            finally:
                aside.unlink(missing_ok=True)
        return True

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, prefix: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / prefix))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def replace(self, name: str, data: bytes) -> None:
        with self._errors(self.root / name):
            os.replace(self._write_aside(data), self.root / name)

    def delete(self, prefix: str) -> None:
        target = self.root / prefix
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def _write_aside(self, data: bytes) -> Path:
        aside = self.root / _ASIDE / uuid.uuid4().hex
        try:
            with open(aside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return aside

    @contextlib.contextmanager
    def _errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(
                    f"no space left in the store {self.root} (writing {path.name})",
                    remedy="free space there or choose another store (recovery.store); what is stored stays valid",
                ) from error
            raise StoreRefused(
                f"cannot write to the store: {path}: {error.strerror or error}",
                remedy="recovery.store must be a folder that the driver and all executors can write",
            ) from error
