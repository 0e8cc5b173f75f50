"""The pod network of nodes from our own image: every pod a pair of veth devices, every node a route to every other.

All nodes are on one Docker network, so no tunnel is needed, and no program: the CNI plugins are Debian's, and the
routes are a script on each node. A unit of the node image runs it when the node starts; `lay` runs it when a node
comes back to the network without a start. kind's own node image has a pod network of its own.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass

from tests.kind.engine import docker

NAME = "rekindle"
"""Of the Docker network: ours, so that a node can come back under its old address, as kind's could not."""
POD_SUBNET = "10.244.0.0/16"
SCRIPT = "/kind/pod-network"
_CONFIG = "/etc/cni/net.d/10-pods.conflist"


@dataclass(frozen=True)
class Place:
    """Where a node is: its address, and the subnet of its pods."""

    address: str
    pods: str


def create() -> None:
    """A network whose subnet is Docker's choice, but a named one: only then may addresses be asked for."""
    docker("network", "create", NAME)
    subnet = docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", NAME).strip()
    docker("network", "rm", NAME)
    docker("network", "create", "--subnet", subnet, NAME)


def remove() -> None:
    if docker("network", "ls", "--quiet", "--filter", f"name=^{NAME}$").strip():
        docker("network", "rm", NAME)


def address_of(node: str) -> str:
    """A container's address on our network; empty when it is not on it."""
    template = f'{{{{with index .NetworkSettings.Networks "{NAME}"}}}}{{{{.IPAddress}}}}{{{{end}}}}'
    return docker("inspect", "--format", template, node).strip()


def reconnect(node: str, address: str) -> None:
    """Put a node, running or stopped, on the network under this address."""
    docker("network", "connect", "--ip", address, NAME, node)


def disconnect(node: str) -> None:
    docker("network", "disconnect", "--force", NAME, node)


def lay(node: str, places: Mapping[str, Place]) -> None:
    """Write a node's part of the pod network and put it into effect."""
    script = "\n".join(
        [
            f"mkdir -p {SCRIPT.rpartition('/')[0]} {_CONFIG.rpartition('/')[0]}",
            f"cat >{SCRIPT} <<'END'\n{node_script(node, places)}END",
            f"cat >{_CONFIG}.new <<'END'\n{cni_config(places[node].pods)}\nEND",
            f"chmod +x {SCRIPT} && {SCRIPT} && mv {_CONFIG}.new {_CONFIG}",
        ]
    )
    docker("exec", "--interactive", node, "bash", "-e", text=script)


def refresh(node: str) -> None:
    """The routes again, after a node's device was taken and given back."""
    docker("exec", node, "sh", "-c", f"[ ! -x {SCRIPT} ] || {SCRIPT}")


def cni_config(pods: str) -> str:
    """What containerd reads: addresses from the node's own range, and host ports."""
    ranges = [[{"subnet": str(ipaddress.ip_network(pods))}]]
    ipam = {"type": "host-local", "dataDir": "/run/pod-addresses", "routes": [{"dst": "0.0.0.0/0"}], "ranges": ranges}
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}, indent=1)


def node_script(node: str, places: Mapping[str, Place]) -> str:
    """Routes to the other nodes' pods; what leaves the cluster carries the node's address. Does no harm twice."""
    routes = [f"ip route replace {at.pods} via {at.address}" for name, at in sorted(places.items()) if name != node]
    rule = f"POSTROUTING -s {places[node].pods} ! -d {POD_SUBNET} -m addrtype ! --dst-type LOCAL -j MASQUERADE"
    masquerade = f"iptables -w -t nat -C {rule} 2>/dev/null || iptables -w -t nat -A {rule}"
    return "\n".join(["#!/bin/sh", "set -e", *routes, masquerade, ""])
