"""`python -m rekindle.controller`: the operator's process, as its image starts it."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from rekindle.controller import logs
from rekindle.controller.operator import main as run
from rekindle.controller.settings import OperatorSettings

_DESCRIPTION = """\
Runs SparkApplications of a Kubernetes cluster. In a pod it uses its service account, elsewhere KUBECONFIG.
Only one of several works at a time: the holder of a Lease.
"""
_DEEPEST = 12_000
"""Levels of nesting that can be read: more than the API server stores, or one object would end the operator."""

_EPILOG = """\
examples:
  python -m rekindle.controller                              all namespaces
  python -m rekindle.controller --namespaces spark,etl       these only
  python -m rekindle.controller --log-format text --port 8081   on a desk

exit codes:
  0  stopped by a signal
  1  an error, which is in the log
  2  usage, or no cluster
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the operator; returns the exit code."""
    sys.setrecursionlimit(_DEEPEST)
    options = _parser().parse_args(arguments)
    logs.set_up(options.log_format, options.log_level)
    default = OperatorSettings()
    settings = OperatorSettings(
        namespaces=tuple(name for name in options.namespaces.split(",") if name),
        lease_name=options.lease_name,
        lease_seconds=options.lease_seconds,
        watch_nodes=not options.no_nodes,
        workers=options.workers,
        port=options.port,
        identity=options.identity or default.identity,
    )
    try:
        asyncio.run(run(settings))
    except OSError as error:
        print(f"rekindle: {error}", file=sys.stderr)
        return 2
    except Exception:
        logging.getLogger(__name__).exception("the operator ends: something in it failed")
        return 1
    return 0


def lease_seconds(text: str) -> float:
    """Whole seconds are what a Lease can say; in fewer than three nobody can stop in time."""
    seconds = float(text)
    if seconds < 3:
        raise argparse.ArgumentTypeError(f"{text} is too short: write 3 or more")
    return seconds


def _parser() -> argparse.ArgumentParser:
    default = OperatorSettings()
    parser = argparse.ArgumentParser(
        prog="rekindle.controller",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--namespaces", default=os.environ.get("REKINDLE_NAMESPACES", ""), help="comma-separated; default: all")
    add("--no-nodes", action="store_true", help="do not read Node objects (no cluster role is needed then)")
    add("--workers", type=int, default=default.workers, help="applications looked at at once (default: %(default)s)")
    add("--port", type=int, default=default.port, help="of /healthz, /readyz, /metrics (default: %(default)s)")
    add("--lease-name", default=default.lease_name, help="(default: %(default)s)")
    add("--lease-seconds", type=lease_seconds, default=default.lease_seconds, help="3 or more (default: %(default)s)")
    add("--identity", default="", help="name in the Lease and in events (default: the host's)")
    add("--log-format", choices=("json", "text"), default="json", help="(default: %(default)s)")
    add("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
