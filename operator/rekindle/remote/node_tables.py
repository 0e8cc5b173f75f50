"""Nodes and the NodeBlocks that name them, as rows for a terminal and as objects for scripts.

Pure: objects of the API and a time in, rows out. A NodeBlock may have been stored under another definition, so
what cannot be read of it is shown as it is stored.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rekindle.api.node_block import format_instant, parse_instant
from rekindle.controller.resources import Object, condition_of
from rekindle.remote.tables import age, printable

EVACUATE = "MarkBlockedAndEvacuateTasks"

_COLUMNS = ("NODE", "STATE", "BLOCKED", "BY", "CAUSE")
_NARROW = _COLUMNS[:3]
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AskedBlock:
    """What a stored NodeBlock says. A text that is not there is empty, a moment that cannot be read is None."""

    name: str
    node: str
    """The node's name, or nodeblock/NAME where the block names none."""

    action: str
    start: datetime | None
    end: datetime | None
    stored_end: str
    """`end` as it is stored."""

    cause: str
    applications: tuple[str, ...]
    remove_when_done: bool
    active: bool
    reason: str
    """Of the condition Active, in one word."""

    @property
    def by(self) -> str:
        """Who asked for it."""
        return ", ".join(self.applications) or "a person"

    @property
    def rank(self) -> tuple[bool, datetime]:
        """The larger counts: one that is active, then the later end."""
        return self.active, self.end or _BEFORE_ALL


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with its blocks, that which counts first; or blocks whose node does not exist."""

    node: str
    exists: bool
    ready: bool
    cordoned: bool
    blocks: tuple[AskedBlock, ...]

    @property
    def state(self) -> str:
        if not self.exists:
            return "no such node"
        return ("Ready" if self.ready else "NotReady") + (",cordoned" if self.cordoned else "")

    @property
    def action(self) -> str:
        """What is done to the node: the strongest action of the active blocks, empty where none is active."""
        actions = [block.action for block in self.blocks if block.active]
        return EVACUATE if EVACUATE in actions else "".join(actions[:1])


def asked_block(body: Object) -> AskedBlock:
    """A stored NodeBlock, whatever its fields hold."""
    spec, status = _mapping(body.get("spec")), _mapping(body.get("status"))
    name = str(body["metadata"]["name"])
    return AskedBlock(
        name=name,
        node=_text(spec.get("node")) or f"nodeblock/{name}",
        action=_text(spec.get("action")) or "MarkBlocked",
        start=_moment(spec.get("start")),
        end=_moment(spec.get("end")),
        stored_end=_text(spec.get("end")),
        cause=_text(spec.get("cause")),
        applications=tuple(map(_text, _list(spec.get("applications")))),
        remove_when_done=spec.get("removeWhenDone") is True,
        active=status.get("active") is True,
        reason=_reason(status),
    )


def node_rows(nodes: Iterable[Object], blocks: Iterable[Object]) -> list[NodeRow]:
    """A row for each Node, and for each name without one that a NodeBlock has; by name."""
    asked: dict[str, list[AskedBlock]] = {}
    for block in sorted(map(asked_block, blocks), key=lambda one: one.rank, reverse=True):
        asked.setdefault(block.node, []).append(block)
    rows = [_node_row(node, asked.pop(node["metadata"]["name"], [])) for node in nodes]
    rows += [NodeRow(name, False, False, False, tuple(there)) for name, there in asked.items()]
    return sorted(rows, key=lambda row: row.node)


def cells(row: NodeRow, now: datetime) -> tuple[str, ...]:
    """The texts of a row, in the order of the columns."""
    if not row.blocks:
        return row.node, row.state, "", "", ""
    counts = row.blocks[0]
    return row.node, row.state, _blocked(row, now), counts.by, counts.cause


def as_json(row: NodeRow) -> Object:
    """The row for a script: `until`, `applications`, `cause` and `reason` are those of the first of `nodeBlocks`.

    `blocked` says whether a block is active; `until` is null where there is none or its end cannot be read.
    """
    counts = row.blocks[0] if row.blocks else None
    return {
        "node": row.node,
        "exists": row.exists,
        "ready": row.ready,
        "cordoned": row.cordoned,
        "blocked": bool(row.action),
        "action": row.action,
        "until": format_instant(counts.end) if counts and counts.end else None,
        "applications": list(counts.applications) if counts else [],
        "cause": counts.cause if counts else "",
        "reason": counts.reason if counts else "",
        "nodeBlocks": [block.name for block in row.blocks],
    }


def show_nodes(console: Console, rows: Sequence[NodeRow], now: datetime) -> None:
    """One line for each row."""
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, no_wrap=column in _NARROW, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in cells(row, now)))
    console.print(table)


def _node_row(node: Object, blocks: Sequence[AskedBlock]) -> NodeRow:
    return NodeRow(
        node=node["metadata"]["name"],
        exists=True,
        ready=condition_of(node, "Ready").get("status") == "True",
        cordoned=bool(node.get("spec", {}).get("unschedulable")),
        blocks=tuple(blocks),
    )


def _blocked(row: NodeRow, now: datetime) -> str:
    counts = row.blocks[0]
    if not counts.active:
        return f"asked, not active: {counts.reason}" if counts.reason else "asked, not active yet"
    left = age((counts.end - now).total_seconds()) if counts.end else f"until {counts.stored_end or '?'}"
    return f"{left}, {EVACUATE}" if row.action == EVACUATE else left


def _reason(status: Mapping[str, object]) -> str:
    conditions = map(_mapping, _list(status.get("conditions")))
    return next((_text(one.get("reason")) for one in conditions if one.get("type") == "Active"), "")


def _moment(value: object) -> datetime | None:
    try:
        return parse_instant(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
