"""`rekindle submit`, `list`, `status`, `describe`, `logs`, `delete`, `crd`: manifests of `rekindle run`, on a cluster.

`rekindle nodes`, `block` and `unblock`: which of its nodes get new tasks.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.api.names import BLOCK_NAME_PATTERN
from rekindle.api.quantities import YEAR, parse_duration

if TYPE_CHECKING:
    from rekindle.controller.kube import Kube

_DELETE_SECONDS = 120.0

ENVIRONMENT = 3


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the parser."""
    _add_submit(commands)
    listing = _add(commands, "list", _list, "applications of the cluster", "rekindle list -A")
    listing.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    status = _add(
        commands, "status", _status, "one application: its state, and how it came to it", "rekindle status pi"
    )
    status.add_argument("name", metavar="NAME")
    text = "the stages of a pipeline, its sources and its sinks: what is stored, what runs, and what runs again"
    describe = _add(commands, "describe", _describe, text, "rekindle describe shop")
    describe.add_argument("name", metavar="NAME")
    logs = _add(commands, "logs", _logs, "a driver's log", "rekindle logs pi --attempt 1 --tail 50")
    logs.add_argument("name", metavar="NAME")
    logs.add_argument("--attempt", type=int, metavar="N", help="of this attempt (default: the present one)")
    logs.add_argument("--tail", type=int, metavar="LINES", help="so many lines of the end only")
    delete = _add(commands, "delete", _delete, "delete an application; its driver ends first", "rekindle delete pi")
    delete.add_argument("name", metavar="NAME")
    delete.add_argument("--no-wait", action="store_true", help="do not wait until it is gone")
    _add_nodes(commands)
    _add_crd(commands)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[argparse.Namespace], int],
    text: str,
    example: str,
    *,
    namespace: str | None = "default",
    namespaced: bool = True,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=f"on a cluster: {text}",
        description=f"{text[:1].upper()}{text[1:]}. The cluster is KUBECONFIG's, or the pod's own.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if namespaced:
        otherwise = namespace or "the manifest's, else default"
        parser.add_argument("-n", "--namespace", default=namespace, help=f"(default: {otherwise})")
    parser.set_defaults(command=functools.partial(_told, act))
    return parser


def _add_submit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "send a SparkApplication manifest to the cluster"
    submit = _add(commands, "submit", _submit, text, "rekindle submit pi.yaml --wait", namespace=None)
    submit.add_argument("manifest", type=Path, metavar="APP.yaml")
    submit.add_argument("--wait", action="store_true", help="follow it to its end; exit code 1 if it fails")
    submit.add_argument("--force", action="store_true", help="take over fields that kubectl or GitOps have set")


def _add_nodes(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the nodes, and which of them get no new tasks"
    nodes = _add(commands, "nodes", _nodes, text, "rekindle nodes -o json", namespaced=False)
    nodes.add_argument("-o", "--output", choices=("table", "json"), default="table", help="(default: table)")
    text, example = "keep new tasks off a node for a while", "rekindle block worker-3 --for 10m --cause 'slow disk'"
    block = _add(commands, "block", _block, text, example, namespaced=False)
    block.add_argument("node", type=_node, metavar="NODE")
    block.add_argument("--for", dest="seconds", type=_seconds, required=True, metavar="TIME", help="such as 10m or 2h")
    block.add_argument("--cause", metavar="TEXT", help="why, for whoever looks (default: by hand)")
    block.add_argument("--evacuate", action="store_true", help="move the tasks that run there, too")
    text = "take back what keeps new tasks off a node, whoever asked for it"
    unblock = _add(commands, "unblock", _unblock, text, "rekindle unblock worker-3", namespaced=False)
    unblock.add_argument("node", type=_node, metavar="NODE")


def _add_crd(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    crd = commands.add_parser(
        "crd",
        help="the definitions of Rekindle's kinds, for kubectl apply",
        description="Write the CustomResourceDefinitions to standard output, or as files into a folder.",
        epilog="examples:\n  rekindle crd | kubectl apply -f -\n  rekindle crd --out crds/",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    crd.add_argument("--out", type=Path, metavar="FOLDER")
    crd.set_defaults(command=_crd)


def _told(act: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command; what the cluster refused is told without a traceback."""
    try:
        from rekindle.remote.applications import RemoteError
    except ModuleNotFoundError as missing:
        print(f"rekindle: {missing.name} is not installed; in a clone: pip install '.[operator]'", file=sys.stderr)
        return ENVIRONMENT
    try:
        return act(options)
    except RemoteError as error:
        print(f"rekindle: {error}", file=sys.stderr)
        return ENVIRONMENT


def _submit(options: argparse.Namespace) -> int:
    from rekindle.remote import applications

    manifest = applications.read_manifest(options.manifest)

    async def act(kube: Kube) -> int:
        body = await applications.submit(kube, manifest, options.namespace, force=options.force)
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        if applications.has_ended(body):
            print(
                f"rekindle: {namespace}/{name} is unchanged and has ended: edit its spec to go on from what is stored, "
                "or delete it, and the claims that were made for it, to begin anew",
                file=sys.stderr,
            )
            return 1
        print(f"submitted {namespace}/{name}", flush=True)
        code = 0
        if options.wait:
            async for status in applications.follow(kube, namespace, name):
                report = status.application_state
                print(f"{report.state.value or 'NEW'} attempt {status.attempt} {report.error_message}", flush=True)
                code = applications.exit_code(report.state)
        return code

    return applications.on_cluster(act)


def _list(options: argparse.Namespace) -> int:
    from rekindle.remote import applications, tables

    namespace = None if options.all_namespaces else options.namespace
    bodies = applications.on_cluster(lambda kube: applications.list_applications(kube, namespace))
    if bodies:
        tables.show_list(tables.make_console(), bodies)
    else:
        where = "in any namespace" if namespace is None else f"in namespace {namespace}"
        print(f"no applications {where}", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    from rekindle.remote import applications, tables

    body = applications.on_cluster(lambda kube: applications.get(kube, options.namespace, options.name))
    tables.show_status(tables.make_console(), body)
    return 0


def _describe(options: argparse.Namespace) -> int:
    from rekindle.remote import applications, job_picture, tables

    body = applications.on_cluster(lambda kube: applications.get(kube, options.namespace, options.name))
    job_picture.show_job(tables.make_console(), body)
    return 0


def _logs(options: argparse.Namespace) -> int:
    from rekindle.remote import applications

    text = applications.on_cluster(
        lambda kube: applications.driver_log(kube, options.namespace, options.name, options.attempt, options.tail)
    )
    sys.stdout.write(text)
    return 0


def _delete(options: argparse.Namespace) -> int:
    from rekindle.remote import applications

    wait = 0.0 if options.no_wait else _DELETE_SECONDS
    applications.on_cluster(lambda kube: applications.delete(kube, options.namespace, options.name, wait=wait))
    print(f"deleted {options.namespace}/{options.name}")
    return 0


def _nodes(options: argparse.Namespace) -> int:
    from rekindle.controller.resources import NODE_BLOCK
    from rekindle.remote import applications, node_tables, nodes, tables

    rows = node_tables.node_rows(*applications.on_cluster(nodes.list_nodes, NODE_BLOCK))
    if options.output == "json":
        print(json.dumps([node_tables.as_json(row) for row in rows], indent=2))
    else:
        node_tables.show_nodes(tables.make_console(), rows, datetime.now(UTC))
    return 0


def _block(options: argparse.Namespace) -> int:
    from rekindle.controller.resources import NODE_BLOCK
    from rekindle.remote import applications, nodes

    now = datetime.now(UTC)
    end = datetime.fromtimestamp(math.ceil(now.timestamp() + options.seconds), UTC)
    wanted = nodes.Wanted(options.node, end, options.cause, options.evacuate)
    print(applications.on_cluster(lambda kube: nodes.block(kube, wanted, now), NODE_BLOCK))
    return 0


def _unblock(options: argparse.Namespace) -> int:
    from rekindle.controller.resources import NODE_BLOCK
    from rekindle.remote import applications, nodes

    async def act(kube: Kube) -> int:
        count = 0
        async for asked in nodes.unblock(kube, options.node):
            print(f"deleted NodeBlock {asked.name}, asked for by {asked.by}", flush=True)
            count += 1
        return count

    if applications.on_cluster(act, NODE_BLOCK):
        print(f"an application whose tasks are still slow on {options.node} may ask again")
    else:
        print(f"there is no NodeBlock of {options.node}; `rekindle nodes` shows all there are")
    return 0


def _node(text: str) -> str:
    if not re.fullmatch(BLOCK_NAME_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a node; `rekindle nodes` lists them")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write such as 90s, 10m or 2h") from None
    if not 0 < seconds <= YEAR:
        raise argparse.ArgumentTypeError(f"{text!r} is not between no time and a year; write such as 90s, 10m or 2h")
    return seconds


def _crd(options: argparse.Namespace) -> int:
    from rekindle.api import crd

    if options.out is None:
        print("---\n".join(crd.text(kind) for kind in crd.KINDS), end="")
        return 0
    for path in crd.write(options.out):
        print(path)
    return 0
