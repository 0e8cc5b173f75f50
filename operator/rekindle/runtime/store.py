"""The store: one primitive, `put_if_absent`, and names that fence.

Everything that must be true after a crash rests on one operation: a name is created once, whole or not at
all, and the second writer of the same name is told so. Manifests, journal segments and the store's own
identity are such names. None of them is ever renamed over, so a driver that was thought dead can only write
names that nobody reads (their version or segment number has been superseded). `replace` is for the rest.

On a POSIX file system the operation is: write aside, flush to disk, hard-link to the final name. In a bucket
it is a conditional put, and a server that takes the second one as well is refused (`prepare`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from rekindle.runtime.deadline import Deadline
from rekindle.runtime.errors import EnvironmentProblem, PipelineMisuse, StoreFull, StoreRefused
from rekindle.runtime.posix_storage import PosixStorage
from rekindle.runtime.s3_storage import PATIENCE, SILENCE, S3Storage
from rekindle.runtime.storage import Storage

T = TypeVar("T")

_PROBES = ".aside"
_LEAST_PATIENCE = 5.0
_WHOLE_TREES = 10.0
"""Times as long as for an object: how long is waited where there may be many."""
_S3A = "spark.hadoop.fs.s3a."
_BUCKET = re.compile(r"s3a?://(?P<bucket>[a-z0-9][a-z0-9.-]+)(?P<prefix>(/[\w.=-]+)*/?)", re.ASCII)


class Store:
    """The objects of one application, with errors that say what to do.

    Every method raises:
        StoreFull: there is no space left.
        StoreRefused: the place cannot be reached, read or written.
    """

    def __init__(self, storage: Storage, patience: float = PATIENCE) -> None:
        self.storage = storage
        has_own = not isinstance(storage, PosixStorage)  # the client of a bucket
        self._deadline = None if has_own else Deadline(patience or PATIENCE)

    @classmethod
    def at(
        cls, place: str | os.PathLike[str], conf: Mapping[str, str] | None = None, *, patience: float = PATIENCE
    ) -> Store:
        """The store at a place: a folder, or `s3://bucket/prefix`.

        Args:
            conf: Spark's settings; a bucket is reached as they say how Spark reaches it (`spark.hadoop.fs.s3a.*`).
            patience: seconds for which a server that does not answer is asked again, and a folder waited for.

        Raises:
            PipelineMisuse: a place of another kind.
            EnvironmentProblem: the client for buckets is not installed.
        """
        address = os.fspath(place)
        if not is_url(address):
            return cls(PosixStorage(os.path.abspath(address)), patience)
        if address.startswith("file://"):
            return cls(PosixStorage(unquote(urlsplit(address).path)), patience)
        bucket = _BUCKET.fullmatch(address)
        if bucket is None:
            raise PipelineMisuse(
                f"recovery.store: {address} is neither a folder nor a bucket of S3",
                remedy="give a folder that the driver and all executors reach, or s3://bucket/prefix (a prefix of "
                "letters, digits and . _ - = / )",
            )
        if find_spec("obstore") is None:
            raise EnvironmentProblem(
                "a store in a bucket needs the Python package obstore, here and where executors run",
                remedy="pip install obstore",
            )
        name, prefix = bucket["bucket"], (bucket["prefix"] or "").strip("/")
        silence = min(SILENCE, patience) if patience else SILENCE
        return cls(S3Storage(name, prefix, s3_options(name, conf or {}), patience, silence))

    @property
    def location(self) -> str:
        return self.storage.location

    @property
    def folder(self) -> Path | None:
        """The folder that the store is, None for a bucket."""
        return Path(self.storage.root) if isinstance(self.storage, PosixStorage) else None

    def __str__(self) -> str:
        return self.location

    def prepare(self) -> Store:
        """Make the place ready to be written to, and try it; returns itself.

        Raises StoreRefused where the second of two puts of one name is taken as well as the first.
        """
        name = f"{_PROBES}/{uuid.uuid4().hex}"
        with self.errors(""):
            self._ask(self.storage.prepare)
        try:
            taken = self.put_if_absent(name, b"first"), self.put_if_absent(name, b"second")
            if taken != (True, False) or self.get(name) != b"first":
                raise StoreRefused(
                    f"the store {self} overwrites what it was asked to create only if absent",
                    remedy="use a server that honours conditional puts (If-None-Match: *), or a folder",
                )
        finally:
            with contextlib.suppress(StoreRefused):
                self.delete(name)
        return self

    def hasty(self, seconds: float) -> Store:
        """The same store for who cannot wait: each operation ends within about `seconds`, that of a folder within some
        seconds at least: it takes longer only where the machine has much to do, or where the folder hangs."""
        return Store(self.storage.hasty(seconds), max(seconds, _LEAST_PATIENCE))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`; False when it exists already (its content is left alone)."""
        with self.errors(name):
            return self._ask(self.storage.put_if_absent, name, data)

    def get(self, name: str) -> bytes | None:
        """The content of `name`, or None."""
        with self.errors(name):
            try:
                return self._ask(self.storage.get, name)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, name: str) -> bool:
        """Whether `name` is there."""
        return self.get(name) is not None

    def names(self, prefix: str) -> list[str]:
        """The last parts of the names directly below `prefix`, sorted."""
        with self.errors(prefix):
            return self._ask(self.storage.names, prefix)

    def holds(self, folder: str) -> bool:
        """Whether there is any object below `folder`."""
        with self.errors(folder):
            return self._ask(self.storage.holds, folder, patience=_WHOLE_TREES)

    def replace(self, name: str, data: bytes) -> None:
        """Create or overwrite `name` as a whole. Only for what may be lost (the lease, logs)."""
        with self.errors(name):
            self._ask(self.storage.replace, name, data)

    def delete(self, prefix: str) -> None:
        """Remove a name, or all names below it. Missing names are no error."""
        with self.errors(prefix):
            self._ask(self.storage.delete, prefix, patience=_WHOLE_TREES)

    def _ask(self, operation: Callable[..., T], *args: Any, patience: float = 1.0) -> T:
        if self._deadline is None:
            return operation(*args)
        return self._deadline.call(operation, *args, patience=patience)

    @contextlib.contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Raises StoreFull and StoreRefused for the `OSError` of what is done with `name`."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                where = f"the store {self}" if self.folder else f"{error.filename}, beside the store {self}"
                raise StoreFull(
                    f"no space left in {where} (writing {name.rpartition('/')[2]})",
                    remedy="free space there or choose another store (recovery.store); what is stored stays valid",
                ) from error
            detail = f"{error.filename or name}: {error.strerror}" if error.strerror else str(error)
            raise StoreRefused(
                f"cannot use the store {self}: {detail}",
                remedy="recovery.store must be a place that the driver and all executors can read and write",
            ) from error


def is_url(place: str) -> bool:
    """Whether a place is named by a URL rather than by a path."""
    return "://" in place


def s3_options(bucket: str, conf: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What Spark's settings say of how to reach a bucket, by the names of the client.

    What they do not say the client takes from its environment (`AWS_ENDPOINT_URL`, `AWS_REGION`; the keys all
    together from `AWS_ACCESS_KEY_ID` and its like, a web identity, the machine's role), as Spark does.
    """

    def said(name: str) -> str | None:
        return conf.get(f"{_S3A}bucket.{bucket}.{name}", conf.get(f"{_S3A}{name}"))

    options = {
        "endpoint": said("endpoint"),
        "region": said("endpoint.region"),
        "access_key_id": said("access.key"),
        "secret_access_key": said("secret.key"),
        "session_token": said("session.token"),
    }
    endpoint = options["endpoint"]
    if endpoint and not is_url(endpoint):
        plain = said("connection.ssl.enabled") == "false"
        options["endpoint"] = f"{'http' if plain else 'https'}://{endpoint}"
    return tuple((name, value) for name, value in options.items() if value)
