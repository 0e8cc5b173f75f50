"""Which column of a file is which of a schema, whatever their case: as Spark finds them by default."""

from __future__ import annotations

from collections.abc import Sequence


def called_as(names: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """`names` of a file's columns, each as `wanted` spells it; as it is where it is not wanted.

    Where two that are wanted differ in case alone, case counts.

    Raises ValueError that names the columns where several may be the same that is wanted.
    """
    spellings: dict[str, list[str]] = {}
    for name in wanted:
        spellings.setdefault(name.lower(), []).append(name)
    found: dict[str, str] = {}
    result = []
    for name in names:
        spelled = spellings.get(name.lower(), [])
        if len(spelled) != 1:
            result.append(name)
            continue
        if spelled[0] in found:
            raise ValueError(
                f"{path} has columns {found[spelled[0]]!r} and {name!r}, and either may be {spelled[0]!r} of the "
                "schema: rename one of them, or name both in the schema"
            )
        found[spelled[0]] = name
        result.append(spelled[0])
    return result
