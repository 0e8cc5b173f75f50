"""Objects in a bucket of S3, or of a server that speaks its protocol. Needs the package `obstore`."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from rekindle.runtime.storage import BucketError, Storage

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds: a server may be started again meanwhile."""

SILENCE = 60.0
"""Seconds that a request waits for the next byte."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_REQUEST_SECONDS = 600.0  # a whole file
_CONNECT_SECONDS = 5.0
_PARTS_AT_ONCE = 4
_DELETED_AT_ONCE = 1000
_CHUNK = 8 << 20
_STATUS = re.compile(r"status code: (4\d\d)")
_PASSING = ("408", "409", "429")
_ANSWER = re.compile(r"<Code>(?P<code>[^<]*)</Code>.*?<Message>(?P<message>[^<]*)</Message>")


class S3Storage:
    """Objects below a prefix of a bucket, written with conditional puts (`If-None-Match: *`).

    Args:
        options: settings of the client that are not those of its environment, by obstore's names.
        patience: seconds for which a server that does not answer is asked again. Once that was in vain, it is asked
            only once each time, until it answers.
        silence: seconds for which a request waits for the next byte.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: tuple[tuple[str, str], ...] = (),
        patience: float = PATIENCE,
        silence: float = SILENCE,
    ) -> None:
        self.bucket, self.prefix, self.options = bucket, prefix, options
        self.patience, self.silence = patience, silence
        self._gave_up = False
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gave_up": False, "_opened": None}

    @property
    def location(self) -> str:
        return f"s3://{self._path('').rstrip('/')}"

    def prepare(self) -> None:
        """Nothing: a prefix is there once something is below it."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        def put() -> bool:
            try:
                with self._errors(name):
                    self._client().put(self._key(name), data, mode="create", use_multipart=False)
            except FileExistsError:
                return self._is_ours(name, data)
            return True

        return self._patiently(put)

    def get(self, name: str) -> bytes:
        def get() -> bytes:
            with self._errors(name):
                return bytes(self._client().get(self._key(name)).bytes())

        return self._patiently(get)

    def tail(self, name: str, length: int) -> tuple[int, bytes]:
        def tail() -> tuple[int, bytes]:
            with self._errors(name):
                found = self._client().get(self._key(name), options={"range": {"suffix": length}})
                return int(found.meta["size"]), bytes(found.bytes())

        return self._patiently(tail)

    def names(self, folder: str) -> list[str]:
        def names() -> list[str]:
            with self._errors(folder):
                found = self._client().list_with_delimiter(self._key(folder) or None)
            paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
            return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})

        return self._patiently(names)

    def holds(self, folder: str) -> bool:
        return bool(self._below(folder))

    def replace(self, name: str, data: bytes) -> None:
        def put() -> None:
            with self._errors(name):
                self._client().put(self._key(name), data, use_multipart=False)

        self._patiently(put)

    def delete(self, name: str) -> None:
        key, below = self._key(name), self._below(name)
        paths = [key, *below] if key else below

        def delete(some: list[str]) -> None:
            with contextlib.suppress(FileNotFoundError), self._errors(name):
                self._client().delete(some)

        for first in range(0, len(paths), _DELETED_AT_ONCE):
            some = paths[first : first + _DELETED_AT_ONCE]
            self._patiently(partial(delete, some))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[str]:
        def put() -> None:
            with self._errors(name), open(path, "rb") as file:
                self._client().put(self._key(name), file, max_concurrency=_PARTS_AT_ONCE)

        with _scratch_file() as path:
            yield path
            self._patiently(put)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[str]:
        with _scratch_file() as path:
            self.fetch(name, path)
            yield path

    def fetch(self, name: str, target: str) -> None:
        def fetch() -> None:
            with self._errors(name):
                chunks = self._client().get(self._key(name)).stream(_CHUNK)
                with open(target, "wb") as file:
                    for chunk in chunks:
                        file.write(chunk)

        self._patiently(fetch)

    def uri(self, name: str) -> str:
        return f"s3a://{self._path(name)}"

    def hasty(self, seconds: float) -> Storage:
        return S3Storage(self.bucket, self.prefix, self.options, patience=0.0, silence=seconds)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """What `ask` returns, which is called again while the bucket does not answer."""
        deadline = time.monotonic() + (0.0 if self._gave_up else self.patience)
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = ask()
            except BucketError as error:
                if error.final or time.monotonic() + pause > deadline:
                    self._gave_up = not error.final
                    raise
            except FileNotFoundError:
                self._gave_up = False
                raise
            else:
                self._gave_up = False
                return answer
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _is_ours(self, name: str, data: bytes) -> bool:
        """Whether an object that is in the way was written by an earlier request of this writer: the answer to that
        one may have been lost."""
        try:
            return self.get(name) == data
        except FileNotFoundError as error:
            raise BucketError(f"s3://{self._path(name)}: another writer is in the way, and has not ended") from error

    def _below(self, folder: str) -> list[str]:
        """The keys of all objects below a folder."""

        def below() -> list[str]:
            with self._errors(folder):
                chunks = self._client().list(self._key(folder) or None)
                return [str(one["path"]) for chunk in chunks for one in chunk]

        return self._patiently(below)

    def _client(self) -> Any:
        if self._opened is None:
            from obstore.store import S3Store

            options: Any = dict(self.options)
            keys = {name: options.pop(name, None) for name in ("access_key_id", "secret_access_key", "session_token")}
            if keys["access_key_id"]:  # all or none: a token of the environment does not fit to keys from elsewhere
                options["credential_provider"] = lambda: {
                    "access_key_id": keys["access_key_id"],
                    "secret_access_key": keys["secret_access_key"] or "",
                    "token": keys["session_token"],
                    "expires_at": None,
                }
            self._opened = S3Store(
                self.bucket,
                **options,
                client_options={
                    "allow_http": True,  # where the endpoint says so
                    "timeout": timedelta(seconds=max(_REQUEST_SECONDS if self.patience else 0.0, self.silence)),
                    "read_timeout": timedelta(seconds=self.silence),
                    "connect_timeout": timedelta(seconds=min(_CONNECT_SECONDS, self.silence)),
                },
                retry_config={"max_retries": 0},  # `_patiently` knows which requests may be sent again: all
            )
        return self._opened

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def _path(self, name: str) -> str:
        return f"{self.bucket}/{self._key(name)}"

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        from obstore import exceptions

        place = f"s3://{self._path(name)}"
        try:
            yield
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(f"{place} exists already") from error
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            answer = _ANSWER.search(str(error))
            if answer is not None and answer["code"] == "NoSuchKey":
                raise FileNotFoundError(f"{place} is not there") from error
            raise BucketError(f"{place}: {_headline(error)}", final=answer is not None) from error
        except exceptions.BaseError as error:
            raise BucketError(f"{place}: {_headline(error)}", final=_is_final(error)) from error


@contextlib.contextmanager
def _scratch_file() -> Iterator[str]:
    """The path of a file that may be made, on an executor's own disk where there is one."""
    disk = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with tempfile.TemporaryDirectory(prefix="rekindle-", dir=disk) as folder:
        yield os.path.join(folder, "object")


def _is_final(error: BaseException) -> bool:
    """Whether the server has refused, rather than failed or kept silent."""
    status = _STATUS.search(str(error))
    return status is not None and status[1] not in _PASSING


def _headline(error: BaseException) -> str:
    """What went wrong in one line: the client quotes whole answers of the server, and its own state."""
    text = " ".join(str(error).partition("Debug source")[0].split())
    answer = _ANSWER.search(text)
    return f"{answer['code']}: {answer['message']}" if answer else text[:300]
