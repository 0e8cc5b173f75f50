"""Folders that say what columns hold, `year=2013/carrier=UA`, named as Spark and Hive name them.

Sent to executors by value, so it imports nothing else of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 255
"""Bytes of a folder's name that file systems allow."""
_ESCAPED = {*map(chr, range(0x20)), "\x7f", *"\"#%'*/:=?\\{[]^"}
"""What Spark escapes (its `ExternalCatalogUtils.charToEscape`), and NUL, which is in no name."""


def folders_of(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """The folders of rows with these values, such as `year=2013/carrier=UA`. Null and empty text are one folder.

    Raises ValueError that names the column where a value is too long for a folder's name.
    """
    return "/".join(map(_folder, columns, values))


def key_of(folder: str) -> tuple[str, str | None]:
    """The column and its value that a folder's name says; None is null."""
    column, _, value = folder.partition("=")
    return unquote(column), None if value == NULL_FOLDER else unquote(value)


def _folder(column: str, value: str | None) -> str:
    name = f"{_escaped(column)}={_escaped(value) if value else NULL_FOLDER}"
    length = len(name.encode("utf-8", "surrogatepass"))
    if length > LONGEST_NAME:
        raise ValueError(
            f"column {column!r} has a value of {len(value or '')} characters, and a folder's name may have "
            f"{LONGEST_NAME} bytes: choose another column for hive_partitions, or shorten it"
        )
    return name


def _escaped(text: str) -> str:
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)
