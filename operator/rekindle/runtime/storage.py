"""What a store asks of the place where its objects lie: a folder (`posix_storage`), or a bucket (`s3_storage`).

Drivers and executors do there what they both must do. These three modules go to the executors by value, as `task`
does, so they import nothing else of the project.

All errors are `OSError`: `FileNotFoundError` for a name that is not there, `BucketError` for a bucket that does
not answer as it should, so that nothing is known of the name.
"""

from __future__ import annotations

import contextlib
from typing import Protocol


class BucketError(ConnectionError):
    """A bucket that does not answer as it should. `final`: asking again is in vain."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Storage(Protocol):
    """A flat name space of immutable objects. Names are relative, with `/` between their parts."""

    @property
    def location(self) -> str:
        """What a user calls this place: the folder, or `s3://bucket/prefix`."""

    def prepare(self) -> None:
        """Make what must be there before anything is written: once, by a driver, never by an executor, which would
        take a volume that is not mounted for an empty one."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`, whole or not at all; False when another writer has created it before.

        `data` must tell its writer from all others (by an id in it).
        """

    def get(self, name: str) -> bytes:
        """The content of `name`."""

    def tail(self, name: str, length: int) -> tuple[int, bytes]:
        """(size of `name` in bytes, its last `length` bytes or all of them)."""

    def names(self, folder: str) -> list[str]:
        """The last parts of the names directly below `folder`, sorted; [] when there are none."""

    def holds(self, folder: str) -> bool:
        """Whether there is any object below `folder`."""

    def replace(self, name: str, data: bytes) -> None:
        """Create or overwrite `name` as a whole."""

    def delete(self, name: str) -> None:
        """Remove a name, and all names below it. A missing name is no error."""

    def writing(self, name: str) -> contextlib.AbstractContextManager[str]:
        """A path to write a file to, which is `name` when the block has ended without an error."""

    def reading(self, name: str) -> contextlib.AbstractContextManager[str]:
        """A path to read `name` from, for the length of the block."""

    def fetch(self, name: str, target: str) -> None:
        """Make `name` readable as the local file `target`, which must not exist."""

    def uri(self, name: str) -> str:
        """How Spark reads `name`."""

    def hasty(self, seconds: float) -> Storage:
        """The same place for who cannot wait: each operation ends within about `seconds`."""
