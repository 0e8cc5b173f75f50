"""`python -m rekindle.controller`: the operator's process, as its image starts it."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from fractions import Fraction

from rekindle.controller import logs
from rekindle.controller.blocks.settings import BlockMode, BlockSettings, TaintEffect
from rekindle.controller.operator import main as run
from rekindle.controller.settings import OperatorSettings
from rekindle.core.options import BlocklistOptions, exact

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
        blocks=BlockSettings(
            mode=BlockMode(options.node_blocks),
            taint_effect=TaintEffect(options.taint_effect),
            max_blocked_share=options.max_blocked_share,
            node_selector=options.blockable_nodes,
            namespaces=tuple(name for name in options.blocking_namespaces.split(",") if name),
        ),
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


def share(text: str) -> Fraction:
    """A share from 0 to 1, as it is written in decimal."""
    try:
        return BlocklistOptions(max_blocked_share=exact("it", text)).max_blocked_share
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no share: write a number from 0 to 1, such as 0.2") from None


def labels(text: str) -> dict[str, str]:
    """KEY=VALUE,KEY=VALUE."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if not all(name and equals for name, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"{text} are no labels: write KEY=VALUE,KEY=VALUE")
    return {name: value for name, _, value in pairs}


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
    _add_block_options(parser.add_argument_group("blocked nodes"))
    add("--workers", type=int, default=default.workers, help="applications looked at at once (default: %(default)s)")
    add("--port", type=int, default=default.port, help="of /healthz, /readyz, /metrics (default: %(default)s)")
    add("--lease-name", default=default.lease_name, help="(default: %(default)s)")
    add("--lease-seconds", type=lease_seconds, default=default.lease_seconds, help="3 or more (default: %(default)s)")
    add("--identity", default="", help="name in the Lease and in events (default: the host's)")
    add("--log-format", choices=("json", "text"), default="json", help="(default: %(default)s)")
    add("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    return parser


def _add_block_options(group: argparse._ArgumentGroup) -> None:
    default = BlockSettings()
    add = group.add_argument
    add(
        "--node-blocks",
        choices=[mode.value for mode in BlockMode],
        default=default.mode.value,
        help="whether NodeBlocks are acted on; dry-run only says what would be done (default: %(default)s)",
    )
    add(
        "--taint-effect",
        choices=[effect.value for effect in TaintEffect],
        default=default.taint_effect.value,
        help="of the taint on a blocked node; None: only pods of Rekindle's stay away (default: %(default)s)",
    )
    add(
        "--max-blocked-share",
        type=share,
        default=default.max_blocked_share,
        metavar="SHARE",
        help="most nodes blocked at a time, rounded up, never the last one "
        f"(default: {float(default.max_blocked_share):g})",
    )
    add(
        "--blockable-nodes",
        type=labels,
        default={},
        metavar="KEY=VALUE,...",
        help="labels of nodes that may be blocked",
    )
    add(
        "--blocking-namespaces",
        default="",
        metavar="NAME,...",
        help="whose applications may cause blocks; default: all",
    )


if __name__ == "__main__":
    sys.exit(main())
