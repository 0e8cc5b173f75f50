"""Texts of any length where the API sets a limit, which it counts in bytes; and what a terminal would obey."""

import re

_MARK = " ..."
_MOST_READ = 20_000  # of a text that is cut off much earlier
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """`text` without what a terminal would obey; lines and tabs stay."""
    return _CONTROL.sub("", text)


def shortened(text: str, most: int) -> str:
    """The beginning of `text`, made plain, in at most `most` bytes, with a mark where something was cut off."""
    encoded = plain(text[:_MOST_READ]).encode()
    if len(encoded) <= most:
        return encoded.decode()
    return encoded[: most - len(_MARK)].decode(errors="ignore") + _MARK


def end_of(text: str, most: int) -> str:
    """The end of `text` in at most `most` bytes."""
    return text.encode()[-most:].decode(errors="ignore")
