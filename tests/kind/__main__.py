"""The test cluster's command line: `make cluster` and `make cluster-down` call it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.kind import checks, cluster, engine
from tests.kind.kubectl import kubeconfig, kubectl
from tests.kind.processes import Failed, alone, say


def main(arguments: Sequence[str]) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        with alone():
            return int(_COMMANDS[chosen.command](chosen) or 0)
    except Failed as failed:
        say(f"failed: {failed}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def _status(_: argparse.Namespace) -> int:
    if not engine.runs():
        say("no Docker runs, so no cluster does")
        return 1
    if (problem := cluster.why_unhealthy()) is not None:
        say(f"no healthy cluster: {problem}")
        return 1
    say(f"healthy: export KUBECONFIG={kubeconfig()}")
    print(kubectl("get", "nodes", "-o", "wide"), end="")
    return 0


_COMMANDS = {
    "up": lambda chosen: cluster.up(chosen.node_image),
    "down": lambda _: cluster.down(),
    "status": _status,
    "build": lambda _: cluster.build(),
    "check": lambda _: checks.check(),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kind",
        description="A real Kubernetes for the tests: kind with a control plane and three workers, DNS, metrics-server "
        "and shared volumes. Docker is started if none runs. Builds and logs are kept in ~/.cache/rekindle/kind.",
        epilog="With REKINDLE_TEST_KUBECONFIG=FILE the tests use that cluster, and nothing is made here.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="have a healthy cluster; seconds when one is up (make cluster)")
    up.add_argument(
        "--node-image",
        choices=("auto", "own", "kind"),
        default="auto",
        help="kind's own node image, ours from packages, or whichever can be had (auto)",
    )
    commands.add_parser("down", help="remove it, and the dockerd that was started for it (make cluster-down)")
    commands.add_parser("status", help="whether it is healthy, and its nodes; exit code 1 when it is not")
    commands.add_parser("build", help="only build what takes minutes the first time")
    commands.add_parser("check", help="run pods that show DNS, services, the pod network, volumes and metrics")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
