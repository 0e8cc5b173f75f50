"""Names in SQL."""


def quoted(name: str) -> str:
    """A name as SQL writes it: it is what it says, in its letters' case."""
    return '"' + name.replace('"', '""') + '"'
