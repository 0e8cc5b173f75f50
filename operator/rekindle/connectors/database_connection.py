"""Connections to PostgreSQL over ADBC, and what their errors mean.

A password is a value of its own until libpq has it: no URL that is shown, stored or sent has one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword")
_DEFAULTS = {
    "connect_timeout": "30",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "fallback_application_name": "rekindle",
}
"""Seconds, and how often, before a server counts as gone that does not answer: libpq's own are hours."""
_LIKE_CREDENTIALS = ("authentication", "no password supplied", "no pg_hba.conf entry", "is not permitted to log in")


@dataclass(frozen=True)
class Server:
    """Where a server is, and as whom it is asked.

    Attributes:
        url: as libpq has it, without a password.
        user: None where the URL says, or libpq's environment.
        password: None where libpq finds one, anew for each connection: in the file that PGPASSFILE names, say.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """The URL, without its parameters."""
        return self.url.partition("?")[0]

    @property
    def uri(self) -> str:
        """All that libpq is told, the password too."""
        base, _, query = self.url.partition("?")
        said = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        more = {name: value for name, value in _DEFAULTS.items() if name not in said}
        own = {"user": self.user, "password": self.password}
        more |= {name: value for name, value in own.items() if value is not None}
        return f"{base}?" + "&".join(filter(None, (query, urlencode(more, quote_via=quote))))


def checked_url(text: str) -> str:
    """A URL as libpq has it, of one as libpq or JDBC has it. Raises ValueError; what it says has no password in it."""
    url = text.strip().removeprefix("jdbc:")
    scheme = next((one for one in _SCHEMES if url.startswith(one)), None)
    if scheme is None:
        raise ValueError("it has url=…: it begins with postgresql:// or jdbc:postgresql://, and has no password")
    base, _, query = url.partition("?")
    user, is_said, place = base.removeprefix(scheme).rpartition("@")
    secret = [name for name, _ in parse_qsl(query, keep_blank_values=True) if name.lower() in _SECRETS]
    if ":" in user or secret or "@" in query:
        raise ValueError(
            "it has a password in its url: give it as the option 'password', or in the file that PGPASSFILE names "
            "(in parameters write %40 for @)"
        )
    return f"postgresql://{user}{is_said}{place}" + (f"?{query}" if query else "")


@contextlib.contextmanager
def cursor(server: Server, initial: str | None = None, seconds: int = 0) -> Iterator[Any]:
    """A cursor of a connection of its own, in one transaction that only reads.

    Times are in UTC there.

    Args:
        initial: a statement that is executed first.
        seconds: a statement may take so many; 0 is no limit.

    Raises:
        ConnectionError: there is no connection, or it was lost, or the server does not accept who asks.
        TimeoutError: a statement took longer.
        ValueError: the server refuses a statement.
    """
    dbapi = _driver()
    settings = {"TimeZone": "UTC", "DateStyle": "ISO", "transaction_read_only": "on"}
    if seconds:
        settings["statement_timeout"] = f"{seconds}s"
    with _explained(server, seconds), contextlib.ExitStack() as open_ones:
        connection = open_ones.enter_context(_connected(dbapi, server))
        if initial:
            with connection.cursor() as first:
                first.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
                first.execute(initial)
        with connection.cursor() as first:
            first.execute(
                "SELECT " + ", ".join(f"set_config('{name}', '{said}', true)" for name, said in settings.items())
            )
            first.fetchall()
        yield open_ones.enter_context(connection.cursor())


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise ImportError(
            f"there is no driver for PostgreSQL here: {error}. Drivers and executors of Spark need "
            "adbc-driver-postgresql and adbc-driver-manager (pip install 'rekindle[postgresql]')"
        ) from error
    return dbapi


def _connected(dbapi: Any, server: Server) -> Any:
    try:
        return dbapi.connect(server.uri)
    except dbapi.Error as error:
        text = _text(error)
        if any(sign in text for sign in _LIKE_CREDENTIALS):
            raise ConnectionError(
                f"{server.place} does not accept its user: {text}. If the password has expired, or was changed, give "
                "the new one: in the option 'password', or in the file that PGPASSFILE or PGSERVICEFILE names, which "
                "is read for each connection"
            ) from None
        raise ConnectionError(f"there is no connection to {server.place}: {text}. See the option 'url'") from None


@contextlib.contextmanager
def _explained(server: Server, seconds: int) -> Iterator[None]:
    """Errors of the driver as Python's own, which say what to do."""
    import pyarrow
    from adbc_driver_manager import dbapi

    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except (dbapi.Error, pyarrow.ArrowException, OSError) as error:  # where batches are fetched, all but the first
        state, text = getattr(error, "sqlstate", None), _text(error)
        if seconds and (state == "57014" or "statement timeout" in text):
            raise TimeoutError(
                f"{server.place}: a statement took more than queryTimeout={seconds} s: {text}"
            ) from error
        is_refused = "ERROR:" in text if state is None else not state.startswith(("08", "57P"))
        if is_refused:
            raise ValueError(f"{server.place} refuses what it is asked: {text}") from error
        raise ConnectionError(f"the connection to {server.place} was lost: {text}") from error


def _text(error: BaseException) -> str:
    """What libpq says, in a line, without the statement."""
    said = str(error).partition("\n\nQuery was:")[0].replace("[libpq]", "")
    return re.sub(r"^[A-Z_]+: +|( \.)? SQLSTATE: \w+$", "", " ".join(said.split()))
