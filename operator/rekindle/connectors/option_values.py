"""Options of a connector, whose names are the same in any case, as Spark's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches


def known_options(
    connector: str, options: Mapping[str, str], names: Sequence[str], others: Sequence[str] = ()
) -> dict[str, str]:
    """The options with their names in lower case.

    Args:
        names: of those that there are, as they are told.
        others: of those that are not told, as no person gives them.

    Raises ValueError for one that there is not, with the nearest and all that there are.
    """
    said = {name.lower(): value for name, value in options.items()}
    spelled = {name.lower(): name for name in names}
    for name in sorted(said.keys() - spelled.keys() - {other.lower() for other in others}):
        near = get_close_matches(name, spelled, 1)
        hint = f"did you mean {spelled[near[0]]!r}? " if near else ""
        raise ValueError(f"{connector} has no option {name!r}: {hint}there are {', '.join(names)}")
    return said


def flag(connector: str, name: str, text: str) -> bool:
    """Raises ValueError where it is neither true nor false."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{connector} has {name}={text!r}: it is true or false")
    return text.lower() == "true"
