"""Texts of any length where the API sets a limit, which it counts in bytes."""

_MARK = " ..."


def shortened(text: str, most: int) -> str:
    """The beginning of `text` in at most `most` bytes, with a mark where something was cut off."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_MARK)].decode(errors="ignore") + _MARK


def end_of(text: str, most: int) -> str:
    """The end of `text` in at most `most` bytes."""
    return text.encode()[-most:].decode(errors="ignore")
