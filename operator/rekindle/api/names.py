"""Names of resources, their group and version."""

import re

GROUP = "rekindle.dev"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"

LONGEST_NAME = 63
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
NAME_RULE = f"at most {LONGEST_NAME} of a-z, 0-9 and -, a letter first"

QUALIFIED_NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?$"
"""namespace/name of an application."""

BLOCK_NAME_PATTERN = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
"""A name that lies in no namespace, such as a node's."""

_NAME = re.compile(NAME_PATTERN[1:-1])


def is_name(value: str) -> str:
    """`value`, which is a DNS-1035 label; else ValueError."""
    if len(value) > LONGEST_NAME or _NAME.fullmatch(value) is None:
        raise ValueError(f"{value!r} is no name; write {NAME_RULE}")
    return value
