"""Where a store's objects lie: in a folder, or in a bucket of S3 and what speaks its protocol.

Drivers and executors do here what they both must do. The module goes to the executors by value, as `task` does,
so it imports nothing else of the project; `obstore` is needed only where a bucket is used.

All errors are `OSError`: `FileNotFoundError` for a name that is not there, `ConnectionError` for a bucket that
does not answer as it should, so that nothing is known of the name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Protocol

PATIENCE = 60.0
"""Seconds: a server may be started again meanwhile."""

_ASIDE = ".aside"
_MOST_RETRIES = 100
_BACKOFF_SECONDS = (0.5, 5.0)  # at first, and at most
_REQUEST_SECONDS = 600  # a whole file
_SILENT_SECONDS = 30
_CONNECT_SECONDS = 5
_DELETED_AT_ONCE = 1000
_CHUNK = 8 << 20
_ANSWER = re.compile(r"<Code>(?P<code>[^<]*)</Code>.*?<Message>(?P<message>[^<]*)</Message>")


class Storage(Protocol):
    """A flat name space of immutable objects. Names are relative, with `/` between their parts."""

    @property
    def location(self) -> str:
        """What a user calls this place: the folder, or `s3://bucket/prefix`."""

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


class PosixStorage:
    """A folder that every driver and executor of the application can reach."""

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def location(self) -> str:
        return self.root

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target, aside = self._path(name), self._write_aside(data)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(aside, target)
        except FileExistsError:
            return False
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

    def replace(self, name: str, data: bytes) -> None:
        target = self._path(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(self._write_aside(data), target)

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
        yield target

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[str]:
        yield self._path(name)

    def fetch(self, name: str, target: str) -> None:
        try:
            os.link(self._path(name), target)
        except OSError:
            shutil.copyfile(self._path(name), target)

    def uri(self, name: str) -> str:
        from pathlib import Path

        return Path(self._path(name)).as_uri()

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name) if name else self.root

    def _write_aside(self, data: bytes) -> str:
        folder = os.path.join(self.root, _ASIDE)
        os.makedirs(folder, exist_ok=True)
        aside = os.path.join(folder, uuid.uuid4().hex)
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


class S3Storage:
    """Objects below a prefix of a bucket, written with conditional puts (`If-None-Match: *`).

    Args:
        options: settings of the client that are not those of its environment, by obstore's names.
        patience: seconds for which a server that does not answer is asked again. Once that was in vain, it is asked
            only once each time, until it answers.
    """

    def __init__(
        self, bucket: str, prefix: str, options: tuple[tuple[str, str], ...] = (), patience: float = PATIENCE
    ) -> None:
        self.bucket, self.prefix, self.options, self.patience = bucket, prefix, options, patience
        self._gave_up = False
        self._clients: dict[float, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_clients": {}}

    @property
    def location(self) -> str:
        return f"s3://{self._path('').rstrip('/')}"

    def put_if_absent(self, name: str, data: bytes) -> bool:
        import obstore

        try:
            with self._errors(name):
                obstore.put(self._client(), self._key(name), data, mode="create", use_multipart=False)
        except FileExistsError:
            return self.get(name) == data  # a put whose answer was lost was sent again by the client
        return True

    def get(self, name: str) -> bytes:
        import obstore

        with self._errors(name):
            return bytes(obstore.get(self._client(), self._key(name)).bytes())

    def tail(self, name: str, length: int) -> tuple[int, bytes]:
        import obstore

        with self._errors(name):
            found = obstore.get(self._client(), self._key(name), options={"range": {"suffix": length}})
            return int(found.meta["size"]), bytes(found.bytes())

    def names(self, folder: str) -> list[str]:
        import obstore

        prefix = self._key(folder)
        with self._errors(folder):
            found = obstore.list_with_delimiter(self._client(), prefix or None)
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})

    def replace(self, name: str, data: bytes) -> None:
        import obstore

        with self._errors(name):
            obstore.put(self._client(), self._key(name), data)

    def delete(self, name: str) -> None:
        import obstore

        with self._errors(name):
            client, key = self._client(), self._key(name)
            below = [one["path"] for chunk in obstore.list(client, key) for one in chunk]
            paths = [key, *below] if key else below
            for first in range(0, len(paths), _DELETED_AT_ONCE):
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(client, paths[first : first + _DELETED_AT_ONCE])

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[str]:
        import obstore

        with _scratch_file() as path:
            yield path
            with self._errors(name), open(path, "rb") as file:
                obstore.put(self._client(), self._key(name), file)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[str]:
        with _scratch_file() as path:
            self.fetch(name, path)
            yield path

    def fetch(self, name: str, target: str) -> None:
        import obstore

        with self._errors(name), open(target, "xb") as file:
            for chunk in obstore.get(self._client(), self._key(name)).stream(_CHUNK):
                file.write(chunk)

    def uri(self, name: str) -> str:
        return f"s3a://{self._path(name)}"

    def _client(self) -> Any:
        patience = 0.0 if self._gave_up else self.patience
        if patience not in self._clients:
            from obstore.store import S3Store

            options: Any = dict(self.options)
            self._clients[patience] = S3Store(
                self.bucket,
                config=options,
                client_options={
                    "allow_http": True,  # where the endpoint says so
                    "timeout": timedelta(seconds=_REQUEST_SECONDS),
                    "read_timeout": timedelta(seconds=_SILENT_SECONDS),
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                },
                retry_config={
                    "max_retries": _MOST_RETRIES if patience else 0,
                    "retry_timeout": timedelta(seconds=patience),
                    "backoff": {
                        "init_backoff": timedelta(seconds=_BACKOFF_SECONDS[0]),
                        "max_backoff": timedelta(seconds=_BACKOFF_SECONDS[1]),
                        "base": 2,
                    },
                },
            )
        return self._clients[patience]

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def _path(self, name: str) -> str:
        return f"{self.bucket}/{self._key(name)}"

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        from obstore import exceptions

        silent = False
        try:
            yield
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(f"s3://{self._path(name)} exists already") from error
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            raise FileNotFoundError(f"s3://{self._path(name)} is not there") from error
        except exceptions.BaseError as error:
            silent = True
            raise ConnectionError(f"s3://{self._path(name)}: {_headline(error)}") from error
        finally:
            self._gave_up = silent


@contextlib.contextmanager
def _scratch_file() -> Iterator[str]:
    """The path of a file that may be made, on an executor's own disk where there is one."""
    disk = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with tempfile.TemporaryDirectory(prefix="rekindle-", dir=disk) as folder:
        yield os.path.join(folder, "object")


def _headline(error: BaseException) -> str:
    """What went wrong in one line: the client quotes whole answers of the server, and its own state."""
    text = " ".join(str(error).partition("Debug source")[0].split())
    answer = _ANSWER.search(text)
    return f"{answer['code']}: {answer['message']}" if answer else text[:300]
