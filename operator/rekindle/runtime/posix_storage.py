"""Objects in a folder: names are put in place whole, by hard links."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.runtime.storage import Storage

_ASIDE = ".aside"


class PosixStorage:
    """A folder that every driver and executor of the application can reach."""

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def location(self) -> str:
        return self.root

    def prepare(self) -> None:
        os.makedirs(os.path.join(self.root, _ASIDE), exist_ok=True)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target, aside = self._path(name), self._write_aside(data)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(aside, target)
        except FileExistsError:  # of a network file system perhaps the answer to a link that was asked for twice
            return os.path.exists(target) and os.path.samefile(aside, target)
        finally:
            os.unlink(aside)
        return True

    def get(self, name: str) -> bytes:
        with open(self._path(name), "rb") as file:
            return file.read()

    def tail(self, name: str, length: int) -> tuple[int, bytes]:
        with open(self._path(name), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - length))
            return size, file.read()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def holds(self, folder: str) -> bool:
        return any(files for _, _, files in os.walk(self._path(folder)))

    def replace(self, name: str, data: bytes) -> None:
        target, aside = self._path(name), self._write_aside(data)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(aside, target)

    def delete(self, name: str) -> None:
        target = self._path(name)
        if os.path.isdir(target) and not os.path.islink(target):
            shutil.rmtree(target, ignore_errors=True)
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(target)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[str]:
        target = self._path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            yield target
        except BaseException:  # a half would take space until its stage is complete, which it may never be without
            with contextlib.suppress(OSError):
                os.unlink(target)
            raise

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[str]:
        yield self._path(name)

    def fetch(self, name: str, target: str) -> None:
        try:
            os.link(self._path(name), target)
        except FileExistsError:  # perhaps a link to a stored file, which must not be written to
            raise
        except OSError:
            shutil.copyfile(self._path(name), target)

    def uri(self, name: str) -> str:
        return f"file://{self._path(name)}"  # as it is: Hadoop's Path takes a per cent sign for itself

    def hasty(self, seconds: float) -> Storage:
        return self

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name) if name else self.root

    def _write_aside(self, data: bytes) -> str:
        aside = os.path.join(self.root, _ASIDE, uuid.uuid4().hex)
        try:
            with open(aside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)
            raise
        return aside
