"""What the operator is told when it starts, by flags and by the environment of its pod."""

import os
import socket
import uuid
from dataclasses import dataclass, field

from rekindle.controller.blocks.settings import BlockSettings


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of one operator process."""

    namespaces: tuple[str, ...] = ()
    """Namespaces whose applications it runs; empty is all of them."""

    operator_namespace: str = field(default_factory=lambda: os.environ.get("POD_NAMESPACE", "default"))
    """Where its Lease is."""

    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}")
    """Its name in the Lease and in events: the pod's, and a word that no other process has."""

    lease_name: str = "rekindle-operator"
    """The Lease that only one operator holds at a time."""

    lease_seconds: float = 15.0
    """After so long without a renewal another operator takes over."""

    watch_nodes: bool = True
    """Follow Node objects, which needs a cluster role; without them a lost node is seen by its pods only."""

    workers: int = 10
    """Applications looked at at the same time."""

    blocks: BlockSettings = field(default_factory=BlockSettings)
    """What may be blocked, and how; nothing is where Node objects are not followed."""

    port: int = 8080
    """Port of /healthz, /readyz and /metrics."""

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """What is listed and watched: each namespace, or None for all at once."""
        return self.namespaces or (None,)
