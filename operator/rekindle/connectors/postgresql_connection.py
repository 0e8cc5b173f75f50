"""Connections to PostgreSQL, which need `adbc-driver-postgresql` where they are made: in drivers and on executors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

_SCHEMES = ("postgresql://", "postgres://")
_SETTINGS = {
    "connect_timeout": "30",
    "keepalives_idle": "60",
    "tcp_user_timeout": "300000",
    "fallback_application_name": "rekindle",
}
"""Of libpq, unless the URL says others: no wait for a server that is gone has no end."""
_PASSWORDS = (
    re.compile(r"^\w+://[^/?@]*?:([^/?@]+)@"),
    re.compile(r"[?&]password=([^&]+)"),
    re.compile(r"\bpassword\s*=\s*'?([^\s&']+)"),
)
"""In a URL, or in what libpq calls a connection string."""
_MAY_HAVE_PASSWORD = re.compile(r"password|://[^:/?@\[]*:.*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Database:
    """Where a database is, and who asks it. What it says of itself has no password.

    Args:
        url: `postgresql://host/database`, or a connection string of libpq's such as `service=shop`.
        user, password: instead of those in `url`. What is not said is libpq's to find: PGPASSFILE, PGSERVICEFILE.
    """

    url: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of_options(cls, connector: str, options: Mapping[str, str]) -> Database:
        """By the options `url`, `user` and `password`, whose names are in lower case. Raises ValueError that names the
        option."""
        url = options.get("url", "")
        if url.lower().startswith("jdbc:"):
            raise ValueError(f"{connector} has the url of a JDBC driver: leave out 'jdbc:', and give 'user' apart")
        if not url.startswith(_SCHEMES) and "=" not in url:
            raise ValueError(f"{connector} needs the option 'url', such as postgresql://host/database")
        return cls(url, options.get("user"), options.get("password"))

    def connect(self, *, autocommit: bool = False) -> Any:
        """A DB-API connection. Raises ConnectionError, without the password."""
        from adbc_driver_postgresql import dbapi

        try:
            return dbapi.connect(self._told(), autocommit=autocommit)
        except dbapi.Error as error:
            raise ConnectionError(f"PostgreSQL cannot be asked: {self._tellable(str(error))}") from None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor, whose statements become valid at the end, or not at all where that is not reached."""
        with closing(self.connect()) as connection:
            try:
                with closing(connection.cursor()) as cursor:
                    yield cursor
                connection.commit()
            except BaseException:
                with suppress(Exception):  # what has ended it is to be told; the server rolls back without it too
                    connection.rollback()
                raise

    def _told(self) -> str:
        own = {"user": self.user, "password": self.password}
        said = {key: value for key, value in own.items() if value is not None}
        said |= {key: value for key, value in _SETTINGS.items() if not re.search(rf"\b{key}\s*=", self.url)}
        if self.url.startswith(_SCHEMES):
            query = "&".join(f"{key}={quote(value, safe='')}" for key, value in said.items())
            return f"{self.url}{'&' if '?' in self.url else '?'}{query}"
        return " ".join([self.url, *(f"{key}={_in_quotes(value)}" for key, value in said.items())])

    def _tellable(self, text: str) -> str:
        """What libpq says, without the password. Where it may have taken a part of that for something else, nothing."""
        if _MAY_HAVE_PASSWORD.search(self.url) and "connection to server" not in text:
            return (
                "libpq cannot read the url, or does not know its host. It has a password: give that by the option "
                "'password', and it is told why"
            )
        found = [match for one in _PASSWORDS for match in one.findall(self.url)]
        spelled = {self.password or "", *found, *map(unquote, found)} - {""}
        for secret in sorted(spelled, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def _in_quotes(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
