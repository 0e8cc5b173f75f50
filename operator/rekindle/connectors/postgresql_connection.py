"""Connections to PostgreSQL over ADBC, and what their errors mean.

A password is a value of its own until libpq has it: no URL that is shown, stored or sent has one. libpq does not tell
the password of a string that it understands. Of one that it does not it may tell all, so such URLs are refused here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_USER = re.compile(r"[^/@]*")
_HOST = r"(\[[^][@/]+\]|[^][@/:,]*)(:\d*)?"
_PLACE = re.compile(rf"{_HOST}(,{_HOST})*(/.*)?")
"""Hosts and the database."""
_DEFAULTS = {
    "connect_timeout": "30",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "fallback_application_name": "rekindle",
}
"""Seconds, and how often, before a server counts as gone that does not answer: libpq's own are hours."""
_WRITING = _DEFAULTS | {"tcp_user_timeout": "300000"}
"""Milliseconds for the server to take what it is sent. It may be busy, so these are more than it has to answer in:
Linux does not heed `keepalives_count` beside them."""
_LIKE_CREDENTIALS = ("authentication", "no password supplied", "no pg_hba.conf entry", "is not permitted to log in")


@dataclass(frozen=True)
class Server:
    """Where a server is, and as whom it is asked. Raises ValueError for a password that no server can have.

    Attributes:
        url: as libpq has it, without a password.
        user: None where the URL says, or libpq's environment.
        password: None where libpq finds one, anew for each connection: in the file that PGPASSFILE names, say.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if "\0" in (self.password or ""):  # libpq would tell it
            raise ValueError("the option 'password' has a character NUL: give it without")

    @classmethod
    def of_options(cls, connector: str, said: Mapping[str, str]) -> Server:
        """By the options `url`, `user` and `password`, whose names are in lower case. Raises ValueError that names the
        option."""
        if not said.get("url"):
            raise ValueError(f"{connector} needs the option 'url', such as postgresql://me@db.example/shop")
        try:
            url = checked_url(said["url"])
        except ValueError as error:
            raise ValueError(f"{connector} {error}") from None
        return cls(url, said.get("user"), said.get("password"))

    @property
    def place(self) -> str:
        """The URL, without its parameters."""
        return self.url.partition("?")[0]

    def uri(self, settings: Mapping[str, str] = _DEFAULTS) -> str:
        """All that libpq is told, the password too. `settings`: those that the URL does not say."""
        base, _, query = self.url.partition("?")
        said = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        more = {name: value for name, value in settings.items() if name not in said}
        own = {"user": self.user, "password": self.password}
        more |= {name: value for name, value in own.items() if value is not None}
        return f"{base}?" + "&".join(filter(None, (query, urlencode(more, quote_via=quote))))


def checked_url(text: str) -> str:
    """A URL as libpq has it, of one as libpq or JDBC has it. Raises ValueError; what it says has nothing of the URL,
    for wherever that is not as it should be, it may have a password."""
    url = text.strip().removeprefix("jdbc:")
    scheme = next((one for one in _SCHEMES if url.startswith(one)), None)
    if scheme is None:
        raise ValueError(
            "has url=…: it begins with postgresql:// or jdbc:postgresql://, and has no password (a service of "
            "PGSERVICEFILE is postgresql://?service=shop)"
        )
    base, _, query = url.removeprefix(scheme).partition("?")
    user, is_said, place = base.rpartition("@")
    names = [name.strip().lower() for name, _ in parse_qsl(query, keep_blank_values=True)]
    if ":" in user or "@" in query or not set(names).isdisjoint(_SECRETS):
        raise ValueError(
            "has a password in its url: give it as the option 'password', or in the file that PGPASSFILE names "
            "(in parameters write %40 for @)"
        )
    if not _USER.fullmatch(user) or not _PLACE.fullmatch(place):
        raise ValueError(
            "has a url without a host as it should be: write postgresql://user@host:5432/database, with %40 for @ and "
            "%2F for / in the user"
        )
    return f"postgresql://{user}{is_said}{place}" + (f"?{query}" if query else "")


@contextlib.contextmanager
def read_only(server: Server, initial: str | None = None, seconds: int = 0) -> Iterator[Any]:
    """A cursor of a connection of its own, in one transaction that only reads.

    Times are in UTC there.

    Args:
        initial: a statement that is executed first.
        seconds: a statement may take so many; 0 is no limit.

    Raises:
        ConnectionError: there is no connection, or it was lost, or the server does not accept who asks.
        TimeoutError: a statement took longer, or waited too long for a lock.
        ValueError: the server refuses a statement.
    """
    settings = {"TimeZone": "UTC", "DateStyle": "ISO", "transaction_read_only": "on"}
    if seconds:
        settings["statement_timeout"] = f"{seconds}s"
    with _explained(server, seconds), _connected(server) as connection:
        if initial:
            with connection.cursor() as first:
                first.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
                first.execute(initial)
        with connection.cursor() as first:
            first.execute(
                "SELECT " + ", ".join(f"set_config('{name}', '{said}', true)" for name, said in settings.items())
            )
            first.fetchall()
        with connection.cursor() as cursor:
            yield cursor


@contextlib.contextmanager
def transaction(server: Server) -> Iterator[Any]:
    """A cursor of a connection of its own, whose statements become valid at the end, or not at all where that is not
    reached. Raises as `read_only`: an OSError that others raise in the block is taken for one of the connection."""
    with _explained(server), _connected(server, _WRITING) as connection:
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        except BaseException:
            with contextlib.suppress(Exception):  # what has ended it is told; the server rolls back without it too
                connection.rollback()
            raise


@contextlib.contextmanager
def autocommitted(server: Server) -> Iterator[Any]:
    """A cursor of a connection of its own, each of whose statements is valid at once. Raises as `transaction`."""
    with _explained(server), _connected(server, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def _connected(server: Server, settings: Mapping[str, str] = _DEFAULTS, *, autocommit: bool = False) -> Any:
    dbapi = _driver()
    try:
        return dbapi.connect(server.uri(settings), autocommit=autocommit)
    except dbapi.Error as error:
        text = _text(error)
        if any(sign in text for sign in _LIKE_CREDENTIALS):
            raise ConnectionError(
                f"{server.place} does not accept its user: {text}. If the password has expired, or was changed, give "
                "the new one: in the option 'password', or in the file that PGPASSFILE or PGSERVICEFILE names, which "
                "is read for each connection"
            ) from None
        raise ConnectionError(f"there is no connection to {server.place}: {text}. See the option 'url'") from None


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise ImportError(
            f"there is no driver for PostgreSQL here: {error}. Drivers and executors of Spark need "
            "adbc-driver-postgresql and adbc-driver-manager (pip install 'rekindle[postgresql]')"
        ) from error
    return dbapi


@contextlib.contextmanager
def _explained(server: Server, seconds: int = 0) -> Iterator[None]:
    """Errors of the driver as Python's own, which say what to do."""
    dbapi = _driver()
    import pyarrow

    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except (dbapi.Error, pyarrow.ArrowException, OSError) as error:  # where batches are fetched, all but the first
        state, text = getattr(error, "sqlstate", None), _text(error)
        if late := _late(state, text, seconds):
            raise TimeoutError(f"{server.place}: {late}: {text}") from error
        is_refused = "ERROR:" in text if state is None else not state.startswith(("08", "57P"))
        if is_refused:
            raise ValueError(f"{server.place} refuses what it is asked: {text}") from error
        raise ConnectionError(f"the connection to {server.place} was lost: {text}") from error


def _late(state: str | None, text: str, seconds: int) -> str:
    """What took too long; empty where nothing did."""
    if state == "55P03" or "lock timeout" in text:
        return "a statement waited too long for a lock (pg_locks tells who has it)"
    if seconds and (state == "57014" or "statement timeout" in text):
        return f"a statement took more than queryTimeout={seconds} s"
    return "a statement took more than the server's statement_timeout" if "statement timeout" in text else ""


def _text(error: BaseException) -> str:
    """What libpq says, in a line, without the statement."""
    said = str(error).partition("\n\nQuery was:")[0].replace("[libpq]", "")
    return re.sub(r"^[A-Z_]+: +|( \.)? SQLSTATE: \w+$", "", " ".join(said.split()))
