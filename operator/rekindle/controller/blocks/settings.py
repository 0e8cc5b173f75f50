"""What a platform team allows to be blocked, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction


class BlockMode(StrEnum):
    """Whether this operator acts on NodeBlocks. Of several operators of a cluster one may."""

    ON = "on"
    DRY_RUN = "dry-run"
    """What would be blocked is said in the status of each NodeBlock, and no node is touched."""
    OFF = "off"


class TaintEffect(StrEnum):
    """The effect of the taint on a blocked node; without one only pods that Rekindle makes stay away."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class BlockSettings:
    """The guards of a cluster."""

    mode: BlockMode = BlockMode.ON
    taint_effect: TaintEffect = TaintEffect.NO_SCHEDULE

    max_blocked_share: Fraction = Fraction(1, 5)
    """Most nodes blocked at a time, as a share of those that take pods, rounded up; never the last one."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that a node must have to be blocked; empty: any node."""

    namespaces: tuple[str, ...] = ()
    """Namespaces whose applications may cause blocks; empty: all."""

    def may_cause(self, namespace: str) -> bool:
        """Whether applications of the namespace may cause blocks."""
        return not self.namespaces or namespace in self.namespaces

    def may_be_blocked(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels may be blocked."""
        return all(labels.get(name) == value for name, value in self.node_selector.items())
