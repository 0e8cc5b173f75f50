"""The rules that dockerd leaves in the machine's firewall when it ends, and their removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

from tests.kind.processes import run

_PROGRAMS, _TABLES = ("iptables", "ip6tables"), ("filter", "nat", "raw")
_SECONDS = 30


def forward_policies() -> dict[str, str]:
    """What becomes of a packet that no rule names, for each program: {"iptables": "ACCEPT"}. dockerd changes it."""
    return {program: _policy(_list(program, "filter")) for program in _PROGRAMS if shutil.which(program)}


def remove_dockers_rules(policies: Mapping[str, str]) -> None:
    """Take out Docker's chains and whatever leads to them, and give FORWARD its old policy."""
    for program, policy in policies.items():
        for table in _TABLES:
            for change in removals(_list(program, table)):
                run([program, "-w", "-t", table, *change], timeout=_SECONDS)
        run([program, "-w", "-P", "FORWARD", policy], timeout=_SECONDS)


def removals(rules: Iterable[str]) -> list[list[str]]:
    """The changes that undo Docker's part of `iptables -S`: rules first, then the chains, which are empty then."""
    words = [line.split() for line in rules]
    added = [line for line in words if line[0] == "-A" and any(word.startswith("DOCKER") for word in line)]
    chains = [line[1] for line in words if line[0] == "-N" and line[1].startswith("DOCKER")]
    return [["-D", *line[1:]] for line in added] + [["-X", chain] for chain in chains]


def _policy(rules: Iterable[str]) -> str:
    return next((line.split()[2] for line in rules if line.startswith("-P FORWARD ")), "ACCEPT")


def _list(program: str, table: str) -> list[str]:
    return run([program, "-w", "-t", table, "-S"], timeout=_SECONDS).splitlines()
