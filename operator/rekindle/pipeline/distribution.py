"""How the rows of a stage's result are laid out over its result partitions.

The number of partitions is fixed when the graph is built: which rows are in partition i must never depend on
sizes seen at run time, or a partition made again would not fit the others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keyed:
    """Hash partitioned: rows with equal `keys` are in one of `partitions` partitions.

    Stages that join or aggregate by the same keys read such a result without another exchange.
    """

    keys: tuple[str, ...]
    partitions: int

    def __str__(self) -> str:
        return f"keyed by {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Round robin over `partitions` partitions of about equal size."""

    partitions: int

    def __str__(self) -> str:
        return "rebalanced"


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Partition i is made from partition i of the stage `source`: no exchange, as many partitions as that."""

    source: str

    def __str__(self) -> str:
        return f"pointwise from {self.source}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partition i has the rows of the splits that subtask i of a source was assigned: no exchange."""

    partitions: int

    def __str__(self) -> str:
        return "as splits are assigned"


Distribution = Keyed | Rebalance | Pointwise | Assigned
